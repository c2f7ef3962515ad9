"""The decorator makes what that of the standard library makes, when it is first needed."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import pytest

from fairlead.model.lazy_dataclass import dataclass

Decorator = Callable[..., Any]


def _plain(decorate: Decorator) -> type:
    @decorate
    class Shape:
        kind: ClassVar[str] = "shape"
        name: str
        sides: int = 4
        seen: list[int] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False)
        weight: float = field(default=1.0, hash=False)
        unit: str = field(default="kg", kw_only=True)
        label: str = field(init=False, default="none")
        made: list[int] = field(init=False, default_factory=list, compare=False)

    return Shape


def _checked(decorate: Decorator) -> type:
    @decorate
    class Shape:
        name: str
        sides: int = 3

        def __post_init__(self) -> None:
            if self.sides < 3:
                raise ValueError(self.name)

    return Shape


def _own_methods(decorate: Decorator) -> type:
    @decorate
    class Shape:  # noqa: PLW1641
        name: str
        sides: int = 3

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.name == other.name

        def __repr__(self) -> str:
            return f"<{self.name}>"

    return Shape


def _empty(decorate: Decorator) -> type:
    @decorate
    class Shape:
        pass

    return Shape


SHAPES = [_plain, _checked, _own_methods, _empty]
OPTIONS: list[dict[str, bool]] = [
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {},
    {"frozen": True, "slots": True, "eq": False},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True, "order": True},
]


def _answers(shape: Callable[[Decorator], type], decorator: Decorator) -> list[object]:
    """What can be asked of the class and its objects, as text where it names the class."""
    cls: Any = shape(decorator)
    given = [("a",), ("a",), ("b", 5)] if fields(cls) else [(), (), ()]
    one, same, other = (cls(*each) for each in given)
    return [
        inspect.signature(type(one).__init__).parameters.keys(),
        [repr(each) for each in (one, other)],
        [one == same, one == other, one == "a", cls.__eq__ is object.__eq__],
        [_or_error(hash, each) == _or_error(hash, same) for each in (one, other)],
        cls.__hash__ is None,
        [repr(_or_error(cls, *args)) for args in ((), ("a", 1), ("a", 4, [], "s", 1.0, "kg"))],
        [_or_error(setattr, one, each.name, "c") for each in fields(cls)],
        [_or_error(delattr, other, each.name) for each in fields(cls)],
        cls.__match_args__,
        [each.name for each in fields(cls)],
        str(cls.__dataclass_params__),
        getattr(cls, "__slots__", None),
        _or_error(lambda: repr(replace(same, name="z"))),
        repr(copy.deepcopy(same)),
    ]


def _or_error(call: Callable[..., Any], *args: object) -> Any:
    try:
        return call(*args)
    except (TypeError, ValueError, AttributeError) as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_that_of_the_standard_library(
    shape: Callable[[Decorator], type], options: dict[str, bool]
) -> None:
    ours, theirs = partial(dataclass, **options), partial(dataclasses.dataclass, **options)
    assert _answers(shape, ours) == _answers(shape, theirs)


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


class Marked(Point):
    """A class derived from it has attributes of its own."""

    def __init__(self, x: int) -> None:
        super().__init__(x)
        self.mark = "m"


@dataclass(frozen=True, slots=True)
class Solid(Point):
    z: int = 0


def test_methods_are_made_at_their_first_call_alone() -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        left: int
        right: int

    before = {name: Pair.__dict__[name] for name in ("__init__", "__eq__", "__hash__")}
    pair = Pair(1, 2)
    assert Pair.__dict__["__init__"] is not before["__init__"]
    assert Pair.__dict__["__eq__"] is before["__eq__"]
    assert Pair.__dict__["__hash__"] is before["__hash__"]
    assert pair == Pair(1, 2)
    assert Pair.__dict__["__eq__"] is not before["__eq__"]
    made = Pair.__dict__["__init__"]
    before["__init__"](pair, 3, 4)  # as one who has kept it would
    assert pair == Pair(3, 4)
    assert Pair.__dict__["__init__"] is made


def test_objects_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)
    assert pickle.loads(pickle.dumps(Solid(1, 2, 3))) == Solid(1, 2, 3)


def test_a_derived_class_has_the_fields_of_its_base() -> None:
    assert Solid(1, z=3) == Solid(1, 0, 3)
    assert hash(Solid(1)) == hash(Solid(1))
    assert Solid(1) != Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Solid(1).x = 2  # type: ignore[misc]


def test_a_plain_class_derived_from_a_frozen_one_may_add_attributes() -> None:
    marked = Marked(1)
    assert (marked.x, marked.mark) == (1, "m")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        marked.x = 2  # type: ignore[misc]
    del marked.mark
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del marked.x


def test_an_object_that_contains_itself_can_be_shown() -> None:
    @dataclass(slots=True)
    class Ring:
        next: object = None

    ring = Ring()
    ring.next = ring
    assert repr(ring).endswith("Ring(next=...)")
