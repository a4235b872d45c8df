"""Composites, structs, arrays and views of the kernel language, against NumPy."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.language import run_both

RNG = np.random.default_rng(3)
MAT45 = kc.matrix((4, 5), kc.float64)
GRAVITY = kc.constant(kc.vec3d(0.0, -9.81, 0.0))


class Phase(IntEnum):
    SOLID = 1
    FLUID = 2


@kc.struct
class Material:
    density: kc.float64
    phase: int


@kc.struct
class Body:
    position: kc.vec3d
    spin: kc.quatd
    material: Material


@kc.struct
class Table:
    values: kc.array(dtype=kc.float64)
    scale: kc.float64
    shift: kc.vec3d


def test_components_are_read_and_assigned() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vec3d), m: kc.array(dtype=kc.mat33d)):
        i = kc.tid()
        v = x[i]
        v.x = v.y + 1.0
        v[2] *= 3.0
        v[-2] = v.z
        x[i] = v
        x[i].z += 0.5
        x[i][0] -= 0.25
        a = m[i]
        a[0, 1] = 7.0
        a[2] = v
        m[i] = a
        m[i][1, 0] = a[0][1]
        m[i][1][2] = 9.0

    x, m = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3, 3))
    found_x, found_m = run_both(kernel, 4, [x, m])
    v = np.stack([x[:, 1] + 1, x[:, 2] * 3, x[:, 2] * 3], axis=1)
    want = m.copy()
    want[:, 0, 1] = 7
    want[:, 2] = v
    want[:, 1, 0] = 7
    want[:, 1, 2] = 9
    np.testing.assert_array_equal(found_m, want)
    np.testing.assert_array_equal(found_x, v + np.array([-0.25, 0, 0.5]))


def test_variables_hold_values() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vec3d), out: kc.array(dtype=kc.vec3d)):
        i = kc.tid()
        a = x[i]
        b = a
        b.x = 100.0
        x[i].y = 50.0
        out[i] = a

    x = RNG.normal(size=(3, 3))
    _, out = run_both(kernel, 3, [x, np.zeros((3, 3))])
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("k", range(4))
def test_component_indices_may_be_known_at_run_time_only(k: int) -> None:
    @kc.kernel
    def kernel(
        m: kc.array(dtype=kc.matrix((4, 5), kc.float64)),
        k: int,
        y: kc.array(dtype=kc.float64),
    ):
        i = kc.tid()
        a = m[i]
        a[k, k + 1] = a[k][k] * 2.0
        row = a[k]
        row[k] += 1.0
        a[k] = row
        y[i] = a[k, 0] + row[k]
        m[i] = a
        m[i][k, 4] = -1.0

    m = RNG.normal(size=(2, 4, 5))
    found, _, y = run_both(kernel, 2, [m, k, np.zeros(2)])
    want = m.copy()
    want[:, k, k + 1] = want[:, k, k] * 2
    want[:, k, k] += 1
    np.testing.assert_array_equal(y, want[:, k, 0] + want[:, k, k])
    want[:, k, 4] = -1
    np.testing.assert_array_equal(found, want)


def test_parts_and_slices_of_composites() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vector(5, kc.float64)), y: kc.array(dtype=kc.vec4d)):
        i = kc.tid()
        v = x[i]
        v[0:2] = v[3:5]
        x[i] = v
        w = kc.vec4d(v[1:3], 1.0, v[-1])
        w.zw = w.xy
        y[i] = w.wzyx

    x = RNG.normal(size=(3, 5))
    found, y = run_both(kernel, 3, [x, np.zeros((3, 4))])
    want = x.copy()
    want[:, 0:2] = x[:, 3:5]
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(y, want[:, [2, 1, 2, 1]])


def test_composites_are_carried_by_loops_and_branches() -> None:
    @kc.kernel
    def kernel(n: kc.array(dtype=int), out: kc.array(dtype=kc.vec3d)):
        i = kc.tid()
        v = kc.vec3d(1.0, 2.0, 3.0)
        b = Body()
        for k in range(n[i]):
            if k % 2 == 0:
                v = 2.0 * v - GRAVITY
            else:
                v.y -= 1.0
                b.position = v
            if v.x > 20.0:
                break
            b.material.density += 1.0
        while v.x > 3.0:
            v /= 2.0
        out[i] = v + b.material.density * b.position

    counts = np.array([0, 1, 2, 3, 9], np.int32)
    _, out = run_both(kernel, 5, [counts, np.zeros((5, 3))])
    gravity = np.array([0.0, -9.81, 0.0])
    for count, found in zip(counts, out, strict=True):
        v, density, position = np.array([1.0, 2.0, 3.0]), 0.0, np.zeros(3)
        for k in range(count):
            if k % 2 == 0:
                v = 2.0 * v - gravity
            else:
                v = v - [0, 1, 0]
                position = v
            if v[0] > 20.0:
                break
            density += 1.0
        while v[0] > 3.0:
            v = v / 2.0
        np.testing.assert_array_equal(found, v + density * position)


def test_structs_as_values_elements_and_results() -> None:
    @kc.func
    def heavier(b: Body, factor: kc.float64) -> Body:
        b.material.density *= factor
        return b

    @kc.kernel
    def kernel(bodies: kc.array(dtype=Body), probe: Body, phase: kc.array(dtype=int)):
        i = kc.tid()
        b = heavier(bodies[i], 2.0)
        if b.material.phase == Phase.FLUID:
            b.position += probe.position
        bodies[i] = b
        bodies[i].material.phase = int(b.material.density)
        phase[i] = bodies[i].material.phase

    bodies: Any = np.zeros(3, Body.numpy_dtype())
    bodies["material"]["density"] = [1.5, 2.5, 3.5]
    bodies["material"]["phase"] = [1, 2, 2]
    probe = Body(position=kc.vec3d(1.0, 2.0, 3.0))
    found, _, phase = run_both(kernel, 3, [bodies, probe, np.zeros(3, np.int32)])
    np.testing.assert_array_equal(found["material"]["density"], [3.0, 5.0, 7.0])
    np.testing.assert_array_equal(found["position"], [[0, 0, 0], [1, 2, 3], [1, 2, 3]])
    np.testing.assert_array_equal(phase, [3, 5, 7])


def test_structs_hold_arrays() -> None:
    @kc.kernel
    def kernel(t: Table, out: kc.array(dtype=kc.vec3d)):
        i = kc.tid()
        total = kc.float64(0.0)
        for k in range(t.values.shape[0]):
            total += t.values[k] * t.scale
        t.values[i] = total
        out[i] = t.shift * total

    values = np.array([1.0, 2.0])
    table = Table(values=values, scale=0.5, shift=kc.vec3d(1.0, 2.0, 3.0))
    out = np.zeros((1, 3))
    kc.launch(kernel, 1, [table, out])
    np.testing.assert_array_equal(values, [1.5, 2.0])
    np.testing.assert_array_equal(out, [[1.5, 3.0, 4.5]])


def test_cotangents_of_arrays_of_structs_are_arrays_of_structs() -> None:
    @kc.kernel
    def kernel(bodies: kc.array(dtype=Body), out: kc.array(dtype=kc.float64)):
        i = kc.tid()
        out[i] = bodies[i].material.density * kc.length_sq(bodies[i].position)

    bodies: Any = np.zeros(3, Body.numpy_dtype())
    bodies["material"]["density"] = [1.5, 2.5, 3.5]
    bodies["position"] = RNG.normal(size=(3, 3))
    found, out = np.zeros_like(bodies), np.zeros(3)
    kc.launch(kernel, 3, [bodies], [out], [found], [np.ones(3)], adjoint=True)
    p, density = bodies["position"], bodies["material"]["density"]
    np.testing.assert_allclose(found["position"], 2 * density[:, None] * p, rtol=1e-14)
    np.testing.assert_allclose(found["material"]["density"], (p * p).sum(1), rtol=1e-14)


SLICES = ["1:4", ":", "::2", "5:1:-1", "::-1", "-3:", ":-2", "2:100", "4:2", "n:m", "-m:n", "n::3"]


@pytest.mark.parametrize("text", SLICES)
def test_slices_of_arrays_are_those_of_numpy(text: str, tmp_path: Any) -> None:
    source = f"""
import kernelcore as kc
@kc.kernel
def kernel(x: kc.array(dtype=kc.float64), n: int, m: int, out: kc.array(dtype=kc.float64)):
    v = x[{text}]
    out[0] = kc.float64(len(v))
    for i in range(v.shape[0]):
        out[1 + i] = v[i]
"""
    path = tmp_path / "sliced.py"
    path.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(path), "exec"), names)
    x = RNG.normal(size=7)
    for n, m in ((1, 3), (-5, 6), (9, -9)):
        *_, out = run_both(names["kernel"], 1, [x, n, m, np.zeros(9)])
        want = eval(f"x[{text}]", {"x": x, "n": n, "m": m})
        assert out[0] == len(want)
        np.testing.assert_array_equal(out[1 : 1 + len(want)], want)


def test_views_of_views_and_writes_through_them() -> None:
    @kc.func
    def scale_row(row: kc.array(dtype=kc.float64), s: kc.float64):
        for j in range(row.shape[0]):
            row[j] = row[j] * s

    @kc.kernel
    def kernel(x: kc.array(dtype=kc.float64, ndim=3), y: kc.array2d[kc.vec3d]):
        i = kc.tid()
        plane = x[i, 1:]
        scale_row(plane[::2][1][::-2], 10.0)
        x[i][0, 1] += 1.0
        y[i, ::-1][0].y = 5.0
        y[i][1:][0] = kc.vec3d(kc.float64(x.shape[1]))

    x, y = RNG.normal(size=(2, 5, 4)), np.zeros((2, 3, 3))
    found_x, found_y = run_both(kernel, 2, [x, y])
    want = x.copy()
    want[:, 1:][:, ::2][:, 1][:, ::-2] *= 10
    want[:, 0, 1] += 1
    np.testing.assert_array_equal(found_x, want)
    want_y = np.zeros((2, 3, 3))
    want_y[:, 2, 1] = 5
    want_y[:, 1] = 5
    np.testing.assert_array_equal(found_y, want_y)


def test_indexed_arrays_look_their_indices_up() -> None:
    @kc.kernel
    def kernel(x: kc.indexedarray(dtype=kc.vec3d, ndim=2), out: kc.array(dtype=kc.vec3d)):
        i, j = kc.tid()
        row = x[i]
        row[j].x = 1.0
        kc.atomic_add(out, i, row[j])
        if i == 0 and j == 0:
            out[2] = kc.vec3d(kc.float64(x.shape[0]), kc.float64(len(row)), 0.0)

    data = RNG.normal(size=(4, 3, 3))
    want = data.copy()
    rows, columns = np.array([3, 1], np.int32), np.array([2, 0], np.int32)
    out = np.zeros((3, 3))
    kc.launch(kernel, (2, 2), [kc.indexedarray(data, [rows, columns]), out])
    want[np.ix_(rows, columns, np.array([0]))] = 1
    np.testing.assert_array_equal(data, want)
    np.testing.assert_allclose(out[:2], want[np.ix_(rows, columns)].sum(1), rtol=1e-12)
    np.testing.assert_array_equal(out[2], [2, 2, 0])
