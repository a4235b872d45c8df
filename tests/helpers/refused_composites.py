"""What of composites, views, overloads and generics the compiler refuses, for test_errors."""

from __future__ import annotations

# Run before every body and no part of it, so that lines are counted from the kernel.
HEAD = """\
from collections.abc import Callable
from typing import Any, TypeVar
import kernelcore as kc
F64 = kc.array(dtype=kc.float64)
F32 = kc.array(dtype=float)
SIZES = {"x": 3}
V = TypeVar("V", bound=kc.vector(length=Any, dtype=kc.types.AnyFloat))
@kc.struct
class Inner:
    at: kc.vec3
@kc.struct
class Particle:
    position: kc.vec3
    mass: float
    inner: Inner
@kc.struct
class Mesh:
    points: kc.array(dtype=kc.vec3)
    count: int
@kc.func
def overloaded(x: int):
    return x
@kc.func
def overloaded(x: kc.vec3, y: float):
    return x.x * y
@kc.func
def together(x: V, y: V):
    return x + y
@kc.func
def apply(f: Callable, x: float):
    return f(x)
@kc.func
def half(x: float):
    return 0.5 * x
@kc.func
def weighted(x: float, weight: float = 0.5):
    return x * weight
@kc.func
def only_named(x: float, *, scale: float):
    return x * scale
@kc.func
def returns_its_array(x: F32):
    return x
@kc.func
def component(x: kc.vec3) -> kc.vec3:
    return x.x
"""

SIGNATURE = (
    "def kernel(x: F64, y: F32, n: int, a: float, d: kc.float64, v: kc.vec3, w: kc.vec4, "
    "k: kc.vec3i, m: kc.mat33, q: kc.quat, t: kc.transform, p: Particle, mesh: Mesh, "
    "vs: kc.array(dtype=kc.vec3), ps: kc.array(dtype=Particle), g: kc.array2d[float], "
    "b: kc.array(dtype=bool), c: kc.array(dtype=int), rows: kc.indexedarray(dtype=float)):\n"
)

# Bodies of a kernel with SIGNATURE, by the claim that each breaks.
COMPOSITES = {
    "component_count": "u = kc.vec3(1.0, 2.0)",
    "component_count_of_matrix": "u = kc.mat22(1.0, 2.0, 3.0)",
    "rows_of_a_matrix": "u = kc.mat33(v, v, v)",
    "component_count_of_quaternion": "u = kc.quat(1.0, 2.0)",
    "component_count_of_transform": "u = kc.transform(v)",
    "component_of_another_type": "u = kc.vec3(a, d, a)",
    "integer_component": "u = kc.vec3(a, a, n)",
    "vector_as_component": "u = kc.vec3(v, w)",
    "keyword_of_vector": "u = kc.vec3(x=1.0)",
    "unknown_attribute_of_vector": "a = v.lenght",
    "component_that_there_is_not": "a = v.w",
    "attribute_of_matrix": "a = m.x",
    "attribute_of_transform": "u = t.position",
    "unknown_field": "a = p.mas",
    "unknown_field_of_a_field": "u = p.inner.position",
    "unknown_field_of_element": "a = ps[0].massive",
    "unknown_field_assigned": "p.speed = 1.0",
    "field_of_a_scalar": "a = p.mass.x",
    "swizzle_not_contiguous": "u = w.xzy",
    "index_outside_of_vector": "a = v[3]",
    "index_outside_of_matrix": "a = m[0, 3]",
    "negative_index_outside_of_vector": "a = v[-4]",
    "float_index_of_vector": "a = v[a]",
    "indices_of_vector": "a = v[0, 1]",
    "indices_of_struct": "a = p[0]",
    "component_of_element_in_brackets": "a = vs[0, 1]",
    "product_of_vectors": "u = v * v",
    "quotient_of_vectors": "u = v / v",
    "sum_of_lengths": "u = v + w",
    "sum_of_vector_and_scalar": "u = v + 1.0",
    "sum_of_scalar_and_vector": "u = a + v",
    "sum_of_quaternion_and_matrix": "u = q - m",
    "sum_of_component_types": "u = v + k",
    "sum_of_structs": "u = p + p",
    "matrix_times_another_length": "u = m * w",
    "quaternion_times_vector": "u = q * v",
    "transform_times_vector": "u = t * v",
    "scalar_of_another_type_times_vector": "u = d * v",
    "integer_times_vector": "u = n * v",
    "vector_divided_by_integer": "u = v / n",
    "order_of_vectors": "if v < v:\n    pass",
    "equality_of_lengths": "if v == w:\n    pass",
    "equality_with_a_scalar": "if v == 1.0:\n    pass",
    "vector_as_condition": "if v:\n    pass",
    "not_of_a_vector": "if not v:\n    pass",
    "negated_struct": "u = -p",
    "vector_to_scalar_element": "y[0] = v",
    "vector_added_to_scalar_element": "y[0] += v",
    "scalar_to_vector_element": "vs[0] = a",
    "longer_vector_to_element": "vs[0] = w",
    "component_of_another_type_assigned": "v.x = d",
    "integer_to_component": "v[0] = n",
    "vector_to_component": "v.x = v",
    "vector_to_shorter_slice": "v[0:2] = v",
    "vector_as_argument_of_scalar_function": "a = half(v)",
    "vector_as_number": "a = kc.sin(v, v)",
    "lengths_of_built_in": "u = kc.max(v, w)",
    "float_of_vector": "a = float(v)",
    "product_of_vectors_of_nothing": "u = kc.types.vector(0, float)()\na = kc.dot(u, u)",
    "slice_of_nothing": "u = kc.types.vector(0, float)()[0:1]",
    "range_of_vector": "for i in range(v):\n    pass",
    "unpacked_vector": "a, b = v",
    "annotated_as_another_length": "u: kc.vec4 = v",
    "struct_with_unknown_field": "u = Particle(size=1.0)",
    "struct_with_another_field_type": "u = Particle(mass=v)",
    "struct_with_field_twice": "u = Particle(v, position=v)",
    "struct_with_too_many_values": "u = Particle(v, 1.0, Inner(), 3.0)",
    "array_field_assigned": "mesh.points = ps",
    "field_of_another_type_assigned": "ps[0].position = w",
    "array_of_structs_as_struct": "a = ps.mass",
    "slice_of_vector_by_run_time_bound": "u = v[0:n]",
    "empty_slice_of_vector": "u = v[2:2]",
    "zero_step_of_vector": "u = v[::0]",
    "float_bound_of_slice": "u = y[0.5:]",
    "tuple_index_not_literal": "u = (a, n)\na = u[n]",
    "tuple_index_outside": "u = (a, n)\na = u[2]",
    "tuple_member_assigned": "u = (a, n)\nu[0] = 1.0",
    "sum_of_tuples": "u = (a, n) + (a,)",
    "vector_of_unknown_shape": "u = kc.matrix(1.0, 2.0, 3.0, 4.0)",
    "vector_of_run_time_length": "u = kc.vector(length=n, dtype=float)",
    "vector_of_another_length": "u = kc.vector(1.0, 2.0, length=3)",
    "vector_with_unknown_keyword": "u = kc.vector(1.0, size=3)",
    "vector_type_changes_in_loop": "u = v\nfor i in range(n):\n    u = w",
    "vector_type_changes_across_branches": "if n > 0:\n    u = v\nelse:\n    u = w\nvs[0] = u",
    "vector_or_scalar": "if n > 0:\n    u = v\nelse:\n    u = a\nvs[0] = u",
    "alternatives_of_vectors": "u = v if n > 0 else w",
    "component_of_unknown_vector": "u.x = 1.0",
    "component_of_a_call": "kc.vec3().x = 1.0",
    "component_of_dot": "a = kc.dot(v, v).x",
    # Views
    "view_assigned": "g[0] = y",
    "slice_assigned": "y[0:2] = 1.0",
    "view_added_to": "g[0] += 1.0",
    "indices_of_view": "r = g[0]\na = r[0, 1]",
    "indices_of_slice": "a = g[0:2, 0, 1]",
    "zero_step": "r = y[::0]",
    "view_as_number": "a = g[0] + 1.0",
    "name_of_arrays_of_other_types": "r = y\nif n > 0:\n    r = g\ny[0] = r[0]",
    "loop_over_view": "for e in g[0]:\n    pass",
    "attribute_of_array": "a = y.size",
    "attribute_of_array_assigned": "y.length = 3",
    "array_compared": "if y == y:\n    pass",
    "array_printed": "print(y)",
    "indices_of_indexed_array": "a = rows[0, 1]",
    "indexed_array_as_number": "a = rows * 2.0",
    # Overloads and generics
    "no_overload": "a = overloaded(v)",
    "no_overload_for_types": "a = overloaded(a, a)",
    "no_overload_without_arguments": "overloaded()",
    "type_variable_of_two_types": "u = together(v, w)",
    "type_variable_out_of_bound": "u = together(a, a)",
    "argument_missing": "a = weighted()",
    "argument_twice": "a = weighted(a, x=a)",
    "argument_unknown": "a = weighted(a, factor=2.0)",
    "argument_only_named": "a = only_named(a, 2.0)",
    "function_expected": "a = apply(a, a)",
    "function_with_another_argument": "a = apply(half, v)",
    "component_returned": "u = component(v)",
    "array_as_argument_of_vector": "a = overloaded(y)",
    # Built-ins on composites
    "dot_of_lengths": "a = kc.dot(v, w)",
    "cross_of_four": "u = kc.cross(w, w)",
    "length_of_scalar": "a = kc.length(a)",
    "transpose_of_vector": "u = kc.transpose(v)",
    "normalize_of_integers": "u = kc.normalize(k)",
    "inverse_of_rectangle": "u = kc.inverse(kc.matrix(shape=(2, 3), dtype=float))",
    "rotation_of_a_number": "u = kc.quat_rotate(q, a)",
    "random_state_as_literal": "a = kc.randf(3)",
    "random_state_as_expression": "r = kc.rand_init(n)\na = kc.randf(r + kc.uint32(1))",
    "random_state_of_another_type": "a = kc.randf(n)",
}
