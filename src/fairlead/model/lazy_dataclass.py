"""Dataclasses whose methods are made when they are first called.

The decorator of the standard library compiles up to six methods for each class. A scheduler has
some hundred classes and calls few of these methods, so that this was a third of its start.

It is that decorator in every other respect, for type checkers, too. Classes with a dataclass among
their bases, or with other options than those of `_LATER`, are left to the standard library.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: Any = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`."""
        return (lambda each: _dataclass(each, options)) if cls is None else _dataclass(cls, options)


__all__ = ["dataclass"]

_LATER = frozenset(("frozen", "slots", "eq"))
#: Parameters, statements, and the objects that they name.
Source = tuple[str, Iterable[str], dict[str, Any]]


def _dataclass(cls: Any, options: dict[str, bool]) -> Any:
    if options.keys() - _LATER or any(is_dataclass(base) for base in cls.__bases__):
        return dataclasses.dataclass(**options)(cls)
    explicit = set(cls.__dict__)
    if "__eq__" in explicit and cls.__hash__ is None:
        explicit.discard("__hash__")  # by Python, not by the author
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # the standard library would write the signature here
    made: Any = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=options.get("slots", False)
    )(cls)
    asked = made.__dataclass_params__
    asked.init, asked.repr = True, True
    asked.eq, asked.frozen = options.get("eq", True), options.get("frozen", False)
    for name, method in _methods(made):
        if name not in explicit:
            setattr(made, name, method)
    return made


def _methods(cls: Any) -> Iterator[tuple[str, Any]]:
    asked = cls.__dataclass_params__
    yield "__init__", _at_first_call(cls, "__init__", _init)
    yield "__repr__", _repr
    if asked.eq:
        yield "__eq__", _at_first_call(cls, "__eq__", _eq)
        yield "__hash__", _at_first_call(cls, "__hash__", _hash) if asked.frozen else None
    if asked.frozen:
        yield "__setattr__", _refusal(cls, "__setattr__", "assign to")
        yield "__delattr__", _refusal(cls, "__delattr__", "delete")
    if asked.frozen and "__slots__" in cls.__dict__:  # as pickle could not set them otherwise
        yield "__getstate__", _state
        yield "__setstate__", _set_state


def _at_first_call(cls: Any, name: str, source: Callable[[Any], Source]) -> Any:
    def first(self: object, *args: object, **named: object) -> object:
        if cls.__dict__[name] is first:
            setattr(cls, name, _compiled(cls, name, *source(cls)))
        return cls.__dict__[name](self, *args, **named)

    first.__name__, first.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return first


def _compiled(
    cls: Any, name: str, parameters: str, body: Iterable[str], names: dict[str, Any]
) -> Any:
    lines = "".join(f"\n  {line}" for line in body)
    exec(f"def {name}({parameters}):{lines}", names)  # noqa: S102
    made = names[name]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    return made


def _init(cls: Any) -> Source:
    names: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
    taken = [each for each in fields(cls) if each.init]
    named = [_parameter(each, names) for each in taken if each.kw_only]
    parameters = [_parameter(each, names) for each in taken if not each.kw_only]
    body = [line for each in fields(cls) for line in _assignment(cls, each, names)]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    all_ = "self", *parameters, *(("*", *named) if named else ())
    return ", ".join(all_), body or ["pass"], names


def _parameter(field: "Field[Any]", names: dict[str, Any]) -> str:
    if field.default is not MISSING:
        names[f"_default_{field.name}"] = field.default
        return f"{field.name}=_default_{field.name}"
    return field.name if field.default_factory is MISSING else f"{field.name}=_missing"


def _assignment(cls: Any, field: "Field[Any]", names: dict[str, Any]) -> Iterator[str]:
    name = value = field.name
    has_slots = "__slots__" in cls.__dict__
    if field.default_factory is not MISSING:
        names[f"_new_{name}"] = field.default_factory
        value = (
            f"_new_{name}() if {name} is _missing else {name}" if field.init else f"_new_{name}()"
        )
    elif not field.init:
        if field.default is MISSING or not has_slots:
            return  # left to `__post_init__`, or an attribute of the class
        names[f"_default_{name}"] = field.default
        value = f"_default_{name}"
    if not cls.__dataclass_params__.frozen:
        yield f"self.{name} = {value}"
    elif has_slots:  # in little more than half the time that `object.__setattr__` takes
        names[f"_set_{name}"] = getattr(cls, name).__set__
        yield f"_set_{name}(self, {value})"
    else:
        yield f"_set(self, {name!r}, {value})"


def _eq(cls: Any) -> Source:
    compared = [each.name for each in fields(cls) if each.compare]
    body = (
        "if other.__class__ is self.__class__:",
        f"  return {_tuple('self', compared)} == {_tuple('other', compared)}",
        "return NotImplemented",
    )
    return "self, other", body, {}


def _hash(cls: Any) -> Source:
    hashed = [
        each.name
        for each in fields(cls)
        if (each.compare if each.hash is None else each.hash)
    ]  # fmt: skip
    return "self", (f"return hash({_tuple('self', hashed)})",), {}


def _tuple(of: str, names: Iterable[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refusal(cls: Any, name: str, doing: str) -> Any:
    """For fields, and for all attributes of the class itself; derived ones may have more."""
    frozen = frozenset(each.name for each in fields(cls))

    def refuse(self: object, attribute: str, *value: object) -> None:
        if type(self) is cls or attribute in frozen:
            raise FrozenInstanceError(f"cannot {doing} field {attribute!r}")
        getattr(super(cls, self), name)(attribute, *value)

    return refuse


def _state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
