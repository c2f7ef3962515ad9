"""The syntax tree of an expression. `at` is the place in the text that errors name."""

from collections.abc import Iterable

from fairlead.cel.values import Value
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    value: Value
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Identifier:
    name: str
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class FieldSelection:
    """`operand.field`; `operand.?field` when optional; `has(operand.field)` when only a test."""

    operand: "Expression"
    field: str
    at: int
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Invocation:
    """A function or an operator; with a target, a method."""

    function: str
    target: "Expression | None"
    arguments: tuple["Expression", ...]
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral:
    items: tuple["Expression", ...]
    optional: tuple[bool, ...]
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral:
    keys: tuple["Expression", ...]
    values: tuple["Expression", ...]
    optional: tuple[bool, ...]
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension:
    """A macro that runs over a list or a map: all, exists, map, filter and their like."""

    kind: str
    range: "Expression"
    names: tuple[str, ...]
    condition: "Expression | None"
    body: "Expression"
    at: int


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """`cel.bind(name, value, body)`, and optMap and optFlatMap, whose value is an optional."""

    kind: str
    name: str
    value: "Expression"
    body: "Expression"
    at: int


Expression = (
    Constant
    | Identifier
    | FieldSelection
    | Invocation
    | ListLiteral
    | MapLiteral
    | Comprehension
    | Binding
)


def parts(node: Expression) -> Iterable[Expression]:
    """The expressions directly below this one."""
    match node:
        case FieldSelection():
            return (node.operand,)
        case Invocation():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case ListLiteral():
            return node.items
        case MapLiteral():
            return (*node.keys, *node.values)
        case Comprehension():
            condition = () if node.condition is None else (node.condition,)
            return (node.range, node.body, *condition)
        case Binding():
            return (node.value, node.body)
        case _:
            return ()


def depth(root: Expression) -> int:
    """The number of levels, without recursion: a chain of a text can be as long as the text."""
    level, below = 0, [root]
    while below:
        level += 1
        below = [part for node in below for part in parts(node)]
    return level
