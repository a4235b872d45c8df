"""Arguments of operators: bound by parameter or by operand, structs flattened and rebuilt."""

from __future__ import annotations

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import paddle
import pytest
import torch

import kernelcore as kc
from kernelcore.language.flatten import leaf_names
from kernelcore.language.types import ArrayOf, SourceType, StructType, float32, int32
from kernelcore.operators import Arguments, ArgumentTree

INNER = StructType("Inner", (("a", float32), ("b", float32)))
OUTER = StructType("Outer", (("i", INNER), ("c", float32)))
TYPES: dict[str, SourceType] = {"x": ArrayOf(float32, 1), "p": OUTER, "n": int32}
LEAVES = [leaf for name, type_ in TYPES.items() for leaf in leaf_names(name, type_)]
ARGUMENTS = Arguments.of_types("f", None, TYPES.items(), LEAVES, {"n": 7})


@pytest.mark.parametrize(
    "p",
    [
        {"i": {"a": 1, "b": 2}, "c": 3},
        {"c": 3, "i": (1, 2)},
        ([1, 2], 3),
        SimpleNamespace(i=SimpleNamespace(a=1, b=2), c=3),
        np.array(((1, 2), 3), [("i", [("a", "i4"), ("b", "i4")]), ("c", "i4")])[()],
    ],
)
def test_every_form_of_a_struct_gives_its_fields_in_order(p):
    assert ARGUMENTS.bind((0, p), {}) == [0, 1, 2, 3, 7]
    assert ARGUMENTS.bind((0,), {"p": p, "n": 8}) == [0, 1, 2, 3, 8]


def test_one_value_per_operand_takes_the_place_of_all_parameters():
    assert ARGUMENTS.leaves == ("x", "p_i_a", "p_i_b", "p_c", "n")
    assert ARGUMENTS.bind((0, 1, 2, 3), {"n": 4}) == [0, 1, 2, 3, 4]
    assert ARGUMENTS.bind((0, 1, 2), {"p_c": 3, "n": 4}) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "p", [{"a": (1, 2)}, ((1, 2),), SimpleNamespace(a=(1, 2)), (1, 2)], ids=repr
)
def test_a_struct_of_one_field_may_be_the_value_of_that_field(p):
    types: dict[str, SourceType] = {"p": StructType("One", (("a", float32),)), "n": int32}
    arguments = Arguments.of_types("f", None, types.items(), ["p.a", "n"])
    assert arguments.bind((p, 3), {}) == [(1, 2), 3]
    assert arguments.bind((), {"p_a": (1, 2), "n": 3}) == [(1, 2), 3]


def test_trees_hold_the_operands_alone_and_make_dictionaries():
    (tree,) = ArgumentTree.of_all(TYPES.items(), ["p.c", "p.i.b"])
    assert (tree.leaves, tree.fields) == ((1, 0), ("i", "c"))
    assert tree.unflatten(["c", "b"]) == {"i": {"b": "b"}, "c": "c"}


def test_indexed_arrays_have_data_and_indices():
    type_ = ArrayOf(INNER, 2, is_indexed=True)
    (tree,) = ArgumentTree.of_all([("x", type_)], leaf_names("x", type_))
    assert tree is not None
    assert tree.unflatten("abcd") == {
        "data": {"a": "a", "b": "b"},
        "indices": {"0": "c", "1": "d"},
    }
    arguments = Arguments("f", None, [tree], leaf_names("x", type_))
    given = {"data": {"a": 1, "b": 2}, "indices": [3, 4]}
    assert arguments.bind((given,), {}) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "argument 'x' is missing"),
        ((0, (1, 2)), {"x": 1}, "argument 'x' is given twice"),
        ((0,), {"q": 1}, "unknown argument 'q'"),
        ((0, 1, 2, 3, 4, 5), {}, "expected 3 arguments, found 6"),
        ((0, {"i": {"a": 1}, "c": 3}), {}, r"argument 'p\.i': missing field 'b'"),
        ((0, {"i": (1, 2), "c": 3, "d": 4}), {}, "unknown field 'd'; its fields are i, c"),
        ((0, (1, 2)), {}, r"argument 'p\.i': expected a struct with the fields a, b"),
        ((0, 5), {}, "argument 'p': expected a struct with the fields i, c, found an object of"),
    ],
)
def test_wrong_arguments_are_named(args, kwargs, text):
    with pytest.raises(kc.KernelArgumentError, match=text):
        ARGUMENTS.bind(args, kwargs)


@kc.struct
class Ball:
    centre: kc.vec2
    weight: float


@kc.op(outputs="found", output_dims=1, launch_dims=1)
@kc.kernel
def heaviest(balls: kc.array(dtype=Ball), found: kc.array(dtype=float)):
    for k in range(len(balls)):
        found[0] = kc.max(found[0], balls[k].weight * balls[k].centre.x)


def test_a_structured_array_without_a_field_is_refused():
    balls = np.zeros(3, [("middle", "f4", 2), ("weight", "f4")])
    with pytest.raises(kc.KernelArgumentError, match="struct with the fields centre, weight"):
        heaviest(balls)


@pytest.mark.parametrize(("centres", "weights"), [(3, 4), (4, 3), (0, 1)])
def test_fields_of_an_array_of_structs_have_one_shape(centres, weights):
    fields = {"centre": np.ones((centres, 2), np.float32), "weight": np.ones(weights, np.float32)}
    text = rf"balls'?\.weight'?: expected the extents of .*balls'?\.centre'?, \({centres},\), found"
    for array in (np.asarray, torch.from_numpy, jnp.asarray, paddle.to_tensor):
        given = {name: array(field) for name, field in fields.items()}
        with pytest.raises(kc.KernelArgumentError, match=text):
            heaviest(given)
        with pytest.raises(kc.KernelArgumentError, match=text):
            heaviest(balls_centre=given["centre"], balls_weight=given["weight"])
    with pytest.raises(kc.KernelArgumentError, match=text):
        kc.launch(heaviest.kernel, 1, [fields], [np.zeros(1, np.float32)])


def test_fields_of_an_indexed_array_of_structs_are_compared_without_its_tables():
    type_ = ArrayOf(INNER, 1, is_indexed=True)
    types: dict[str, SourceType] = {"x": type_}
    arguments = Arguments.of_types("f", None, types.items(), leaf_names("x", type_))
    a, b, table = np.zeros(3), np.zeros(3), np.zeros(2)
    assert len(arguments.bind(({"data": (a, b), "indices": [table]},), {})) == 3
    with pytest.raises(kc.KernelArgumentError, match=r"'x\.b': expected the extents of 'x\.a'"):
        arguments.bind(({"data": (a, table), "indices": [table]},), {})


@kc.op
@kc.kernel
def doubled(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = 2.0 * x[i]


@kc.op
def quadrupled(x: kc.array[float], y: kc.array[float]):
    z = kc.empty_like(y)
    kc.launch(doubled, x.shape, [x], [z])
    kc.launch(doubled, x.shape, [z], [y])


def command(kernel, x, y):
    kc.Launch(kernel, 3, [x, y]).launch()


OF_KERNELS = {
    "launch": lambda kernel, x, y: kc.launch(kernel, 3, [x], [y]),
    "Launch": command,
    "jvp": lambda kernel, x, y: kc.jvp(kernel, 3, [x], [x], [y]),
    "gradcheck": lambda kernel, x, y: kc.gradcheck(kernel, 3, [x], [y], forward=True),
    "jacobian": lambda kernel, x, y: kc.jacobian(kernel, 3, [x], [y]),
    "explain": lambda kernel, x, y: kc.explain(kernel, x, y).name,
    "compile_all": lambda kernel, x, y: kc.compile_all([kernel, kernel]).failed,
    "overload": lambda kernel, x, y: kc.overload(kernel, {}),
}


@pytest.mark.parametrize("run", OF_KERNELS.values(), ids=OF_KERNELS)
def test_an_operator_goes_where_a_kernel_goes(run):
    x = np.arange(3, dtype=np.float32)
    y, want_y = np.zeros_like(x), np.zeros_like(x)
    found, want = run(doubled, x, y), run(doubled.kernel, x, want_y)
    np.testing.assert_array_equal(y, want_y)
    np.testing.assert_equal(found, want)
    with pytest.raises(kc.KernelArgumentError, match="has no kernel of its own"):
        run(quadrupled, x, y)


def test_functions_of_kernels_launch_operators():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(quadrupled(x), 4 * x)
    assert quadrupled(torch.ones(2)).tolist() == [4, 4]
    assert quadrupled(jnp.ones(2)).tolist() == [4, 4]


@pytest.mark.parametrize("make", [kc.op, kc.torch_op, kc.jax_kernel, kc.paddle_op])
def test_an_operator_is_not_made_of_an_operator(make):
    with pytest.raises(kc.KernelArgumentError, match="expected a kernel") as caught:
        make(doubled)
    assert "it is an operator already" in str(caught.value.remedy)
