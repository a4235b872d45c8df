"""What NVIDIA Warp has and kernelcore does not, and the ways around it."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a name is missing.

    Attributes:
        names: A pattern of the names of Warp.
        what: What they belong to.
        remedy: What to use instead.
    """

    names: str
    what: str
    remedy: str


REASONS = (
    Reason(
        r"tile(_\w+)?|launch_tiled|Tile",
        "operations on tiles, which the threads of a block share, are not supported",
        "write a loop over the tile in the kernel: loops over rows are vectorised",
    ),
    Reason(
        r"Mesh|MeshQuery\w*|mesh_\w+",
        "meshes and queries of them are not supported",
        "pass vertices and indices as arrays, and search with kernels over cells or all triangles",
    ),
    Reason(
        r"HashGrid|HashGridQuery|hash_grid_\w+",
        "hash grids are not supported",
        "sort points by cell with NumPy, and pass the first index of every cell as an array",
    ),
    Reason(
        r"Bvh|BvhQuery\w*|bvh_\w+",
        "bounding volume hierarchies are not supported",
        "build the tree on the host, pass it as arrays, and walk it in a kernel",
    ),
    Reason(
        r"Volume|volume_\w+", "sparse volumes are not supported", "use dense arrays of 3 dimensions"
    ),
    Reason(
        r"Texture\w*|texture_\w+|GLTextureResource|RegisteredGLBuffer",
        "textures and buffers of OpenGL are not supported",
        "read an array, and interpolate between its elements in the kernel",
    ),
    Reason(
        r"fabricarray(array)?|indexedfabricarray(array)?",
        "arrays of Fabric are not supported",
        "use arrays, or indexedarray for those that are looked up",
    ),
    Reason(
        r"fem|sparse|render|build_experimental",
        "this package of Warp is not supported",
        "use SciPy for sparse matrices, and matplotlib or pyglet for pictures",
    ),
)


def reason_of(name: str) -> Reason | None:
    """Why kernelcore lacks ``name``; None if Warp has no such name either."""
    return next((r for r in REASONS if re.fullmatch(r.names, name)), None)
