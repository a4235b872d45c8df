"""Structs on the host, and arguments as the IR takes them; NumPy is the oracle."""

from __future__ import annotations

import copy
import pickle
from typing import Any, cast

import numpy as np
import pytest

from kernelcore import types
from kernelcore.base.errors import (
    KernelAttributeError,
    KernelError,
    KernelTypeError,
)
from kernelcore.language.composite_types import vec2, vec3, vec3d, vector
from kernelcore.language.types import StructType, float64, int32, type_of
from kernelcore.runtime.array.annotations import array2d, indexedarray2d
from kernelcore.runtime.array.array import array
from kernelcore.runtime.struct_definition import struct


@struct
class Material:
    """What a particle is made of."""

    color: vec3
    is_solid: bool


@struct
class Particle:
    pos: vec3
    mass: float64
    count: int
    material: Material

    def weight(self) -> Any:
        return self.mass * 10


@struct
class Scene:
    gravity: vec3
    points: array(dtype=vec3)
    particles: array2d[Particle]
    lookup: indexedarray2d[float]


PARTICLE = Particle.kernel_type
SCENE = Scene.kernel_type
C_LAYOUT = np.dtype(
    {
        "names": ["pos", "mass", "count", "material"],
        "formats": [
            ("<f4", 3),
            "<f8",
            "<i4",
            np.dtype([("color", "<f4", 3), ("is_solid", "?")], align=True),
        ],
        "offsets": [0, 16, 24, 28],
        "itemsize": 48,
        "aligned": True,
    }
)


def refused(define: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message) as caught:
        define()
    assert caught.value.remedy


def test_a_struct_is_a_type() -> None:
    assert type_of(Particle) == StructType(
        "Particle",
        (
            ("pos", vec3.kernel_type),
            ("mass", float64),
            ("count", int32),
            ("material", Material.kernel_type),
        ),
    )
    assert (Particle.__name__, Particle.__module__) == ("Particle", __name__)
    assert Material.__doc__ == "What a particle is made of."


def test_fields_start_as_zeros() -> None:
    p, scene = Particle(), Scene()
    assert p.pos == vec3()
    assert (p.mass, p.count, p.material.is_solid) == (0, 0, False)
    assert [type(x) for x in (p.mass, p.count)] == [np.float64, np.int32]
    assert scene.points is None


def test_fields_convert_as_their_types_do() -> None:
    points = np.zeros((2, 3), np.float32)
    p = Particle(pos=(1, 2, 3), mass=2, material={"color": vec3(1), "is_solid": True})
    p.count = np.int64(5)
    p.pos.x = 7
    assert p.pos == (7, 2, 3)
    assert p.material.color == (1, 1, 1)
    assert p.material.is_solid
    assert p.weight() == 20
    scene = Scene(points=points)
    assert scene.points is points
    scene.points = memoryview(bytes(24)).cast("f", (2, 3))
    scene.points = None


def test_assignment_copies_values() -> None:
    v, m = vec3(1), Material(is_solid=True)
    p = Particle(pos=v, material=m)
    v.x = 5
    m.is_solid = False
    assert p.pos == (1, 1, 1)
    assert p.material.is_solid
    q = Particle()
    q.material = p.material
    q.material.color.y = 3
    assert p.material.color == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("pos", (1, 2), "struct Particle, field 'pos' of type vec3: .*found 2"),
        ("pos", vec3d(), "field 'pos' of type vec3: expected vec3, found a vec3d"),
        ("mass", "heavy", "field 'mass' of type float64: expected float64, found 'heavy'"),
        ("count", 1.5, "field 'count' of type int32: expected int32, found 1.5"),
        ("count", 2**31, "expected int32, found 2147483648"),
        ("material", 3, "field 'material' of type Material: expected a struct Material, found 3"),
        ("material", {"color": 1}, "struct Material: field 'is_solid' is missing"),
        ("material", Particle(), "expected a struct Material, found a Particle"),
    ],
)
def test_fields_refuse_values_of_other_types(name: str, value: Any, message: str) -> None:
    p = Particle()
    refused(lambda: setattr(p, name, value), message)
    assert p == Particle()


def test_array_fields_take_arrays_only() -> None:
    for value in (1.0, vec3(), np.float32(1), "text"):
        refused(lambda v=value: Scene(points=v), "field 'points' of type array.*expected an array")


def test_fields_that_there_are_not() -> None:
    p = Particle()
    with pytest.raises(KernelAttributeError, match="no field 'positon'"):
        p.positon = 1
    with pytest.raises(KernelAttributeError, match="did you mean 'count'"):
        p.cuont = 1
    with pytest.raises(KernelAttributeError, match="did you mean 'mass'"):
        Particle(mas=1)
    assert not hasattr(p, "velocity")
    with pytest.raises(KernelAttributeError, match="cannot be deleted"):
        del p.mass
    refused(lambda: Particle(1, 2), "expected keyword arguments, found 2 positional")


def test_equality_is_that_of_the_fields() -> None:
    points = np.zeros((2, 3), np.float32)
    assert Particle(mass=1) == Particle(mass=1.0)
    assert Particle(mass=1) != Particle(mass=2)
    assert Particle(material=Material(is_solid=True)) != Particle()
    assert Scene(points=points) == Scene(points=points)
    assert Scene(points=points) != Scene(points=points.copy())
    assert Material() != {"color": vec3(), "is_solid": False}
    with pytest.raises(TypeError, match="unhashable"):
        hash(Particle())


def test_repr_names_the_fields() -> None:
    text = "Particle(pos=vec3(1.0, 2.0, 3.0), mass=0.5, count=0, material=Material(color=vec3(0.0, 0.0, 0.0), is_solid=False))"  # noqa: E501
    p = Particle(pos=(1, 2, 3), mass=0.5)
    assert repr(p) == text
    assert eval(text) == p


def test_structs_survive_pickling_and_copying() -> None:
    p = Particle(pos=(1, 2, 3), mass=0.5, material=Material(color=(4, 5, 6)))
    for other in (pickle.loads(pickle.dumps(p)), copy.copy(p), copy.deepcopy(p)):
        assert type(other) is Particle
        assert other == p
        other.material.color.x = 9
        assert other != p
    assert pickle.loads(pickle.dumps(Particle)) is Particle


def test_numpy_has_the_layout_of_c() -> None:
    assert Particle.numpy_dtype() == C_LAYOUT
    p = Particle(pos=(1, 2, 3), mass=0.5, count=7, material=Material(color=4, is_solid=True))
    record = p.to_numpy()
    assert record.dtype == C_LAYOUT
    assert record["pos"].tolist() == [1, 2, 3]
    assert (record["mass"], record["count"]) == (0.5, 7)
    assert record["material"]["is_solid"]
    assert Particle.from_numpy(record) == p
    assert Particle.from_numpy(np.array([p.to_numpy()])[0]) == p
    refused(lambda: Particle.from_numpy(np.zeros(2, C_LAYOUT)), "expected a struct Particle")
    refused(lambda: Particle.from_numpy(np.zeros((), [("pos", "f4", 3)])), "'mass' is missing")


def test_annotations_of_local_structs_see_the_scope_around_them() -> None:
    length = 5
    Row = vector(length, float)

    @struct
    class Inner:
        row: Row
        grid: array(dtype=Row, ndim=2)

    @struct
    class Outer:
        inner: Inner
        text: vec2

    assert Outer().inner.row == [0] * 5
    assert Outer().text == vec2()
    assert Inner.__qualname__.endswith("<locals>.Inner")


def test_definitions_that_are_no_structs() -> None:
    def no_fields() -> None:
        @struct
        class Empty:
            mass = 1.0

    def default() -> None:
        @struct
        class Default:
            mass: float = "heavy"  # pyright: ignore[reportAssignmentType]

    def unknown_type() -> None:
        @struct
        class Unknown:
            name: str

    def undefined() -> None:
        @struct
        class Undefined:
            x: missing  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    def pattern() -> None:
        @struct
        class Pattern:
            x: types.AnyFloat

    def any_array() -> None:
        @struct
        class AnyArray:
            x: array(dtype=Any)

    def recursive() -> None:
        @struct
        class Node:
            next: Node

    def recursive_array() -> None:
        @struct
        class Tree:
            children: array(dtype=Tree)  # pyright: ignore[reportUndefinedVariable]

    def arrays_of_arrays() -> None:
        @struct
        class Scenes:
            scenes: array(dtype=Scene)

    def derived() -> None:
        @struct
        class Heavy(Particle):
            force: vec3

    def taken() -> None:
        @struct
        class Taken:
            kernel_type: int

    def own_constructor() -> None:
        @struct
        class Own:
            mass: float

            def __init__(self) -> None:
                pass

    refused(own_constructor, "struct Own: structs have a __init__ of their own")
    refused(lambda: struct(cast("Any", 3)), "@struct takes a class, found 3")
    refused(no_fields, "struct Empty: no field is annotated")
    refused(default, "struct Default, field 'mass': expected float32, found 'heavy'")
    refused(unknown_type, "struct Unknown, field 'name': unsupported annotation <class 'str'>")
    refused(undefined, "struct Undefined, field 'x': name 'missing' is not defined")
    refused(pattern, "struct Pattern, field 'x': unsupported annotation")
    refused(any_array, "struct AnyArray, field 'x': unsupported annotation")
    refused(recursive, "struct Node, field 'next': a struct cannot hold itself")
    refused(recursive_array, "field 'children': .*found the struct itself")
    refused(arrays_of_arrays, "field 'scenes': array: struct Scene holds an indexed array")
    refused(derived, "no base classes")
    refused(taken, "the name is taken")


def test_a_definition_error_says_where() -> None:
    with pytest.raises(KernelError) as caught:

        @struct
        class Empty:
            mass = 1.0

    assert caught.value.loc is not None
    assert caught.value.loc.file == __file__
    assert "@struct" in str(caught.value)
