"""Kernels as pure operations, the surface for adapters. May import: launch and below."""

# The adapters import these names from here.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

from kernelcore import _native
from kernelcore.base import native
from kernelcore.base.keywords import checked_keywords
from kernelcore.base.source_digest import package_version
from kernelcore.base.threads import ForkLock, cached_property
from kernelcore.codegen import abi
from kernelcore.codegen.gpu.architectures import DEFAULT_ARCHITECTURE
from kernelcore.codegen.snippet.toolchain import find_compiler
from kernelcore.codegen.target.cpu import thunk
from kernelcore.compiler.code_store import load_portable, portable, resolve, stored_image
from kernelcore.compiler.describe_launch import make_signature, messages
from kernelcore.compiler.launch_descriptor import Binding, ParameterSlot, Role, ZeroFill
from kernelcore.compiler.ptx_code import architecture_of
from kernelcore.language import pickling
from kernelcore.language.bound_names import BoundNames
from kernelcore.language.composite import Composite
from kernelcore.language.conversion import take_array, take_scalar
from kernelcore.language.flatten import leaf_names
from kernelcore.language.types import (
    MAX_GRID_DIMS,
    SCALARS,
    ArrayOf,
    Dense,
    Scalar,
    SourceType,
    StructType,
    as_array,
    element_type,
    scalar_of,
    type_of,
)
from kernelcore.operators import derive, operand_lists
from kernelcore.operators.any_rank import AnyRank
from kernelcore.operators.arguments import Arguments, ArgumentTree
from kernelcore.operators.array_text import (
    annotation_text,
    array_text,
    dimensions_text,
    rank_remedy,
)
from kernelcore.operators.bound_kernel import BoundKernel, BoundKernels, bound_kernel, result_leaves
from kernelcore.operators.copied_results import CopiedResult, copied_results, without_results
from kernelcore.operators.derive import DerivedOperation
from kernelcore.operators.extremum import (
    ExtremumOperations,
    TieWeights,
    extremum_operations,
    find_ties,
)
from kernelcore.operators.fusion import Arithmetic, Fuse, computed, fits, is_fused, require_fusable
from kernelcore.operators.gpu import common_architecture, gpu_operation, gpu_operation_of
from kernelcore.operators.identifiers import identifiers
from kernelcore.operators.in_place import in_place
from kernelcore.operators.launch_split import (
    AxisSplit,
    axis_splits,
    is_launch_of_parts,
    local_operation,
    shaped_splits,
    sized_local_operation,
    usable_splits,
)
from kernelcore.operators.op import make_forms
from kernelcore.operators.operation import (
    Extent,
    Operand,
    Operation,
    Result,
    Shape,
    evaluate,
    native_operation,
    own_shape,
)
from kernelcore.operators.operator_function import OperatorFunction
from kernelcore.operators.python_run import run_in_python, runs_in_python, warn_of_compiled
from kernelcore.operators.saving import saving, vjp_of_saved
from kernelcore.operators.shape_rules import ShapeSpec, kernel_operation, require_kernel, roles
from kernelcore.operators.spec import (
    Declaration,
    Spec,
    has_callables,
    leaves_of,
    parse,
    with_results,
)
from kernelcore.operators.traced.default_shapes import default_shapes_checked
from kernelcore.operators.traced.interface import Interface, declaration, interface
from kernelcore.operators.traced.program import Literal, Program, ProgramStep, Slot
from kernelcore.operators.traced.program_cache import Programs
from kernelcore.operators.updated_arrays import require_apart
from kernelcore.operators.versions import Versions
from kernelcore.passes.access.elementwise import Part, parts
from kernelcore.passes.access.launch_parts import Window
from kernelcore.runtime.array import shared_elements
from kernelcore.runtime.array.element_layout import element_of, scalar_in
from kernelcore.runtime.array.shared_elements import ElementPlaces
from kernelcore.runtime.device import CPU, cuda_device, require_device
from kernelcore.runtime.structs import keep_in_structs
