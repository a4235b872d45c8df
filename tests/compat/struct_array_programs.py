"""Programs of NVIDIA Warp's users with arrays of structs that hold arrays."""

# They are written for another library.
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

import numpy as np

from tests.compat.programs import outputs, program

NUMBERS = np.arange(6.0, dtype=np.float32)


@program
def arrays_of_structs_that_hold_arrays(wp):
    @wp.struct
    class Mesh:
        points: wp.array(dtype=wp.vec3)
        heights: wp.array2d(dtype=float)
        scale: float

    @wp.func
    def spread(mesh: Mesh) -> float:
        lowest, highest = mesh.points[0][0], mesh.points[0][0]
        for k in range(mesh.points.shape[0]):
            lowest = wp.min(lowest, mesh.points[k][0])
            highest = wp.max(highest, mesh.points[k][0])
        return (highest - lowest) * mesh.scale

    @wp.kernel
    def measured(meshes: wp.array(dtype=Mesh), out: wp.array(dtype=float)):
        i = wp.tid()
        mesh = meshes[i]
        out[i] = spread(mesh) + mesh.heights[1, 0]
        wp.atomic_add(meshes[i].heights, 0, 1, meshes[i].scale)
        meshes[i].points[0] = wp.vec3(7.0, float(i), 0.0)

    meshes, points, heights = [], [], []
    for n in (2, 3, 6):
        mesh = Mesh()
        points.append(wp.array(NUMBERS[:n, None] * np.array([1.0, 2.0, -1.0]), dtype=wp.vec3))
        heights.append(wp.array(np.full((2, n), n, np.float32), dtype=float))
        mesh.points, mesh.heights, mesh.scale = points[-1], heights[-1], float(n)
        meshes.append(mesh)
    given = wp.array(meshes, dtype=Mesh)
    return (
        *outputs(wp, measured, 3, [given], float),
        *(a.numpy() for a in (*points, *heights)),
    )


@program
def arrays_of_structs_with_unset_arrays(wp):
    @wp.struct
    class Curve:
        values: wp.array(dtype=float)
        otherwise: float

    @wp.kernel
    def first(curves: wp.array(dtype=Curve), out: wp.array(dtype=float)):
        i = wp.tid()
        curve = curves[i]
        if curve.values:
            out[i] = curve.values[0]
        else:
            out[i] = curve.otherwise

    without, with_values = Curve(), Curve()
    without.otherwise = 4.0
    with_values.values = wp.array(NUMBERS + 1.0)
    return outputs(wp, first, 2, [wp.array([without, with_values], dtype=Curve)], float)
