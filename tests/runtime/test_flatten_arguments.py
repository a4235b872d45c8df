"""Arguments as the IR takes them: one object per parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelcore import types
from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.composite_types import mat22, quat, transform, vec2, vec3, vec3d, vec3i
from kernelcore.language.flatten import leaf_names, leaf_types
from kernelcore.language.types import ArrayType, float32, float64, int32, type_of
from kernelcore.runtime.array.annotations import array2d, indexedarray, indexedarray2d
from kernelcore.runtime.array.array import array
from kernelcore.runtime.flatten_arguments import leaves
from tests.runtime.test_structs import PARTICLE, SCENE, Material, Particle, Scene


def test_scalars_and_plain_arrays_are_flat() -> None:
    data = np.zeros((2, 3), np.float32)
    assert leaves(float32, 1.5) == [1.5]
    assert leaves(array(dtype=float), data)[0] is data
    assert leaf_names("a", array(dtype=vec3)) == ["a"]
    assert leaf_types(array(dtype=vec3)) == [ArrayType(float32, 2, (3,))]
    assert leaf_types(array2d[mat22]) == [ArrayType(float32, 4, (2, 2))]
    assert leaf_types(float64) == [float64]


@pytest.mark.parametrize(
    ("cls", "value", "expected"),
    [
        (vec3, vec3(1, 2, 3), [1, 2, 3]),
        (vec3, (1, 2, 3), [1, 2, 3]),
        (vec3, [1.5, 2, 3], [1.5, 2, 3]),
        (vec3, np.arange(3), [0, 1, 2]),
        (vec3, np.arange(6.0)[::2], [0, 2, 4]),
        (vec3, np.ones((), "f4,f4,f4")[()], [1, 1, 1]),
        (mat22, mat22(1, 2, 3, 4), [[1, 2], [3, 4]]),
        (mat22, ((1, 2), vec2(3, 4)), [[1, 2], [3, 4]]),
        (quat, (0, 0, 0, 1), [0, 0, 0, 1]),
        (transform, transform((1, 2, 3), (0, 0, 0, 1)), [1, 2, 3, 0, 0, 0, 1]),
        (vec3, transform((1, 2, 3), (0, 0, 0, 1)).p, [1, 2, 3]),
        (vec2, mat22(1, 2, 3, 4)[:, 0], [1, 3]),
    ],
)
def test_a_composite_is_one_contiguous_array(cls: Any, value: Any, expected: Any) -> None:
    (leaf,) = leaves(cls.kernel_type, value)
    assert leaf.dtype == cls.dtype.numpy
    assert leaf.flags.c_contiguous
    assert leaf.tolist() == expected
    assert leaf_types(cls.kernel_type) == [ArrayType(cls.dtype, len(cls.shape), cls.shape)]


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        (vec3, (1, 2), "v: expected vec3: expected 3 components, found 2"),
        (vec3, np.zeros((3, 1)), "v: expected vec3: .*found an array of shape"),
        (vec3, vec3d(), "v: expected vec3, found vec3d"),
        (vec3, 1.0, "v: expected vec3: .*found 1.0"),
        (vec3i, np.zeros(3), "v: expected vec3i: expected int32"),
        (Material, 1, "v: expected a struct Material, found 1"),
        (Material, {"color": (1, 2, 3)}, "field 'is_solid' is missing"),
        (Material, {"color": 1, "is_solid": 1, "x": 2}, "struct Material has no field 'x'"),
        (Material, {"color": (1, 2), "is_solid": 1}, "v.color: expected vec3"),
        (array(dtype=Particle), np.zeros(3), "v: expected an array of struct Particle"),
        (array(dtype=Material), np.zeros(3, [("color", "f4", 3)]), "v.is_solid: field 'is_solid'"),
        (
            array(dtype=Material),
            np.zeros(3, [("color", "f8", 3), ("is_solid", "?")]),
            "v.color: expected vec3, found a field of dtype float64 and shape",
        ),
        (
            array(dtype=Material),
            np.zeros(3, [("color", "f4", 3), ("is_solid", "?")]),
            "v.color: its elements do not lie at whole multiples of 4 bytes",
        ),
        (indexedarray(dtype=float), np.zeros(3), "v: expected an indexed array"),
        (array(dtype=float), indexedarray(np.zeros(3), []), "v: expected an array, found an index"),
        (indexedarray(dtype=float), indexedarray(np.zeros((3, 2)), [None, None]), "of 1 dim"),
        (indexedarray2d[float], indexedarray(np.zeros(3), [None]), "of 2 dimensions, found 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(type_: Any, value: Any, message: str) -> None:
    found = type_of(type_)
    assert found is not None
    with pytest.raises(KernelArgumentError, match=message) as caught:
        leaves(found, value, "v")
    assert caught.value.remedy


def test_a_struct_is_its_fields() -> None:
    p = Particle(pos=(1, 2, 3), mass=0.5, count=7, material=Material(color=4, is_solid=True))
    names = ["p.pos", "p.mass", "p.count", "p.material.color", "p.material.is_solid"]
    assert leaf_names("p", PARTICLE) == names
    vector_type = ArrayType(float32, 1, (3,))
    assert leaf_types(PARTICLE) == [vector_type, float64, int32, vector_type, types.boolean]
    as_mapping = {"pos": p.pos, "mass": 0.5, "count": 7, "material": p.material}
    for value in (p, p.to_numpy(), as_mapping):
        found = leaves(PARTICLE, value)
        assert [np.asarray(x).tolist() for x in found] == [[1, 2, 3], 0.5, 7, [4, 4, 4], True]


def test_an_array_of_structs_is_one_view_per_field() -> None:
    data: Any = np.zeros((2, 3), Particle.numpy_dtype())
    type_ = array2d[Particle]
    found = leaves(type_, data)
    views = [data["pos"], data["mass"], data["count"]]
    views += [data["material"]["color"], data["material"]["is_solid"]]
    assert [(x.shape, x.strides, x.dtype) for x in found] == [
        (x.shape, x.strides, x.dtype) for x in views
    ]
    found[3][1, 2, 0] = 5
    assert data[1, 2]["material"]["color"][0] == 5
    assert leaf_names("a", type_) == leaf_names("a", PARTICLE)
    assert leaf_types(type_) == [
        ArrayType(float32, 3, (3,)),
        ArrayType(float64, 2),
        ArrayType(int32, 2),
        ArrayType(float32, 3, (3,)),
        ArrayType(types.boolean, 2),
    ]


def test_an_array_of_structs_may_be_an_array_per_field() -> None:
    material = np.zeros(4, Material.numpy_dtype())
    fields = {"pos": np.zeros((4, 3)), "mass": np.zeros(4), "count": object(), "material": material}
    found = leaves(array(dtype=Particle), fields)
    for leaf, given in zip(found, fields.values(), strict=False):
        assert leaf is given or given is material
    assert np.shares_memory(found[3], material)


def test_a_struct_holds_arrays_of_structs() -> None:
    data = np.zeros((2, 2), Particle.numpy_dtype())
    lookup = indexedarray(np.zeros((3, 2), np.float32), [[2]])
    scene = Scene(points=np.zeros((4, 3), np.float32), particles=data, lookup=lookup)
    names, found = leaf_names("s", SCENE), leaves(SCENE, scene)
    assert len(names) == len(found) == len(leaf_types(SCENE)) == 10
    assert names[:3] == ["s.gravity", "s.points", "s.particles.pos"]
    assert names[-3:] == ["s.lookup", "s.lookup.indices[0]", "s.lookup.indices[1]"]
    assert found[1] is scene.points
    assert [x.tolist() for x in found[-2:]] == [[2], [0, 1]]


def test_an_indexed_array_is_its_data_and_its_indices() -> None:
    data = np.zeros((5, 3), np.float32)
    type_ = indexedarray(dtype=vec3)
    found = leaves(type_, indexedarray(data, [[4, 1]]))
    assert found[0] is data
    assert found[1].tolist() == [4, 1]
    assert leaf_types(type_) == [ArrayType(float32, 2, (3,)), ArrayType(int32, 1)]
    structs: Any = np.zeros(5, Material.numpy_dtype())
    found = leaves(indexedarray(dtype=Material), indexedarray(structs, [None]))
    assert len(found) == len(leaf_names("a", indexedarray(dtype=Material))) == 3
    assert found[2].tolist() == [0, 1, 2, 3, 4]
    by_field = indexedarray({"color": structs["color"], "is_solid": structs["is_solid"]}, [[3]])
    assert leaves(indexedarray(dtype=Material), by_field)[2].tolist() == [3]
