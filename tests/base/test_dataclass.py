"""The project's ``dataclass`` makes what the standard one makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from kernelcore.base.dataclass import dataclass, field, fields, replace

Decorator = Callable[..., Any]
OPTIONS: list[dict[str, bool]] = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (True, False)
    for slots in (True, False)
    for eq in (True, False)
]


def point_of(decorator: Decorator, **options: bool) -> Any:
    @decorator(**options)
    class Point:
        """A point."""

        count: ClassVar[int] = 3
        x: int
        y: list[int] = field(default_factory=list[int])
        z: float = 2.5
        hidden: str = field(default="h", repr=False, compare=False)
        named: bool = field(default=False, repr=False)

        @property
        def twice(self) -> int:
            return 2 * self.x

    return Point


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or its error."""
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error), str(error).replace("test_dataclass.", "")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_objects_are_those_of_the_standard_decorator(options: dict[str, bool]) -> None:
    ours, standard = (point_of(d, **options) for d in (dataclass, dataclasses.dataclass))

    def facts(cls: Any) -> list[Any]:
        one, other = cls(1, [2], hidden="a"), cls(x=1, y=[2], hidden="b")

        def assign() -> str:
            one.x = 5
            return repr(one)

        return [
            repr(one),
            one == other,
            one == cls(1, [3]),
            one != other,
            one == 3,
            outcome(lambda: hash(cls(1, (), 3.5)) == hash(cls(1, (), 3.5, "other"))),
            outcome(lambda: {cls(1, ()): 4}.get(cls(1, ()))),
            cls(1).y is cls(1).y,
            cls(1, named=True).named,
            cls.count,
            one.twice,
            outcome(assign),
            outcome(lambda: delattr(cls(1), "z")),
            outcome(lambda: cls()),
            outcome(lambda: cls(1, 2, 3, 4, 5, 6)),
            outcome(lambda: cls(1, none=2)),
            cls.__match_args__,
            cls.__doc__,
            cls.__qualname__,
            getattr(cls, "__slots__", None),
            hasattr(one, "__dict__"),
            [(f.name, f.type, f.repr, f.compare, f.default) for f in fields(one)],
            repr(replace(one, x=7)),
            repr(dataclasses.replace(one, z=1.0)),
            dataclasses.asdict(one),
            repr(copy.copy(one)),
            repr(copy.deepcopy(one)),
            copy.deepcopy(one).hidden,
            str(inspect.signature(type(one).__init__)).count("="),
        ]

    assert facts(ours) == facts(standard)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Kept:
    """Of this module, so that it can be pickled."""

    a: int
    b: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"kept {self.a}"


@dataclass(frozen=True, slots=True)
class Checked:
    limit: int

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise ValueError("negative")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checked)

    def __hash__(self) -> int:
        return 4


@dataclass
class Empty:
    pass


def test_what_a_body_defines_stays() -> None:
    assert repr(Kept(1)) == "kept 1"
    assert Checked(1) == Checked(2)
    assert hash(Checked(1)) == 4
    assert Empty() == Empty()
    assert repr(Empty()) == "Empty()"
    with pytest.raises(ValueError, match="negative"):
        Checked(-1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(Kept(1), "a", 2)  # noqa: B010


def test_frozen_objects_with_slots_are_pickled() -> None:
    kept = pickle.loads(pickle.dumps(Kept(3, (4, 5))))
    assert (kept.a, kept.b) == (3, (4, 5))


def test_classes_match_by_position() -> None:
    match Kept(3, (4,)):
        case Kept(a, b):
            assert (a, b) == (3, (4,))


def test_the_first_of_several_objects_made_at_once_is_whole() -> None:
    """``__init__`` replaces itself while another thread may be in it."""

    @dataclass(frozen=True, slots=True)
    class Late:
        a: int
        b: int = 2

    first = Late.__init__
    assert (Late(1).b, Late.__init__ is first) == (2, False)
    again = Late(3)
    first(again, 5)
    assert (again.a, again.b) == (5, 2)


@pytest.mark.parametrize("frozen", [True, False])
def test_the_standard_decorator_makes_classes_that_inherit_fields(frozen: bool) -> None:
    @dataclasses.dataclass(frozen=frozen, slots=True)
    class Named(point_of(dataclass, frozen=frozen, slots=True)):
        name: str = "n"

    one = Named(1, [2], name="a")
    assert (one.x, one.y, one.z, one.name, one.twice) == (1, [2], 2.5, "a", 2)
    assert [f.name for f in fields(Named)] == ["x", "y", "z", "hidden", "named", "name"]
