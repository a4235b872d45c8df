"""What NVIDIA Warp has and kernelcore does not, and the ways around it."""

from __future__ import annotations

import re

from kernelcore.base.dataclass import dataclass


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
        r"graph_coloring_\w+|GraphColoringAlgorithm",
        "colourings of graphs are not supported",
        "colour the graph on the host, with networkx for example, and pass the groups as arrays",
    ),
    Reason(r"sparse|bsr_\w+", "sparse matrices are not supported", "use those of SciPy or JAX"),
    Reason(
        r"fem", "finite elements are not supported", "use scikit-fem, and kernels for what is slow"
    ),
    Reason(
        r"render",
        "the renderers of Warp are not supported",
        "give arr.numpy() to matplotlib, pyglet or usd-core",
    ),
    Reason(
        r"sim",
        "this package, which Warp removed, is not supported",
        "write the steps of the simulation as kernels",
    ),
    Reason(
        r"geometry|IsoSurface\w+|MarchingCubes|linear",
        "this part of Warp is not supported",
        "use scikit-image for surfaces and SciPy for systems of equations",
    ),
    Reason(
        r"examples|tests|build_experimental",
        "this package is of Warp itself",
        "take what the program needs of it into the program",
    ),
    Reason(
        r"_src|codegen|fabric|stubs|build\w*",
        "this is a private part of Warp",
        "use public names, which stay",
    ),
    Reason(
        r"\w*[aA]llocator\w*|ScopedMempool\w*|ScopedPeerAccess|\w*_mempool_\w+|MemoryKind|can_access",
        "allocators and memory pools cannot be set up",
        "leave it out: freed memory of a GPU is kept for the next arrays",
    ),
    Reason(
        r"capture_(save|load|load_from_bytes|debug_dot_print)|CaptureMode"
        r"|(compile|load)_aot_module|is_conditional_graph_supported",
        "files of graphs and modules are not written",
        "use Kernel.export, or the disk cache, which is on by default",
    ),
    Reason(
        r"timing_\w+|TIMING_\w+|TimingResult|cuda_profiler_\w+|ScopedCudaProfiler|print_memory_report"
        r"|print_diagnostics",
        "Warp's profiler is not supported",
        "use ScopedTimer, kernelcore.explain, or NVIDIA's profilers",
    ),
    Reason(
        r"block_dim|fixedarray",
        "threads do not share a block",
        "make arrays of fixed size in a kernel with zeros(shape=(3, 4), dtype=float)",
    ),
    Reason(
        r"dense_\w+",
        "dense factorizations in shared memory are not supported",
        "write the loops of the factorization in the kernel",
    ),
    Reason(
        r"event_from_ipc_handle|from_ipc_handle|from_ptr|(un)?map_cuda_device",
        "memory of other processes is not opened",
        "use array(ptr=, dtype=, shape=) for memory of this process",
    ),
    Reason(
        r"WarpCodegen\w+|WarpDeterminismError|Logger|set_logger|ScopedLog\w+|ModuleBuildOptions"
        r"|Jax\w+Mode|clear_\w+_cache|get_cuda_\w+|get_cpu_kernel_cache_key|is_cubql_available",
        "this belongs to the compiler of Warp",
        "catch KernelError, and use get_logger and config",
    ),
)


def reason_of(name: str) -> Reason | None:
    """Why kernelcore lacks ``name``; None if Warp has no such name either."""
    return next((r for r in REASONS if re.fullmatch(r.names, name)), None)
