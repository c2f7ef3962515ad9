"""Macros: calls that the parser turns into other expressions."""

from fairlead.cel.errors import MisplacedError
from fairlead.cel.syntax import (
    Binding,
    Comprehension,
    Expression,
    FieldSelection,
    Identifier,
    Invocation,
)

#: Arguments without and with a second variable; the last but one may be a condition.
_ONE = {"all": (2,), "exists": (2,), "exists_one": (2,), "map": (2, 3), "filter": (2,)}
_TWO = {
    "all": (3,),
    "exists": (3,),
    "existsOne": (3,),
    "exists_one": (3,),
    "transformList": (3, 4),
    "transformMap": (3, 4),
    "transformMapEntry": (3, 4),
}


def function(name: str, arguments: tuple[Expression, ...], at: int) -> Expression:
    if name == "has" and len(arguments) == 1:
        operand = arguments[0]
        if not isinstance(operand, FieldSelection) or operand.optional:
            raise MisplacedError("invalid argument to has() macro", operand.at)
        return FieldSelection(operand.operand, operand.field, at, test=True)
    return Invocation(name, None, arguments, at)


def method(target: Expression, name: str, arguments: tuple[Expression, ...], at: int) -> Expression:
    count = len(arguments)
    if name == "bind" and count == 3 and isinstance(target, Identifier) and target.name == "cel":
        label = _variable(arguments[0], "cel.bind() variable names must be simple identifiers")
        return Binding("bind", label, arguments[1], arguments[2], at)
    if name in ("optMap", "optFlatMap") and count == 2:
        label = _variable(arguments[0], f"{name}() variable name must be a simple identifier")
        return Binding(name, label, target, arguments[1], at)
    if name == "sortBy" and count == 2:
        label = _variable(arguments[0], "sortBy() variable name must be a simple identifier")
        return Comprehension("sortBy", target, (label,), None, arguments[1], at)
    variables = 1 if count in _ONE.get(name, ()) else 2 if count in _TWO.get(name, ()) else 0
    if variables:
        return _comprehension(name, variables, target, arguments, at)
    return Invocation(name, target, arguments, at)


def _comprehension(
    name: str, variables: int, target: Expression, arguments: tuple[Expression, ...], at: int
) -> Expression:
    names = tuple(
        _variable(each, "argument must be a simple name") for each in arguments[:variables]
    )
    if "__result__" in names or len(set(names)) < variables:
        raise MisplacedError("iteration variable overwrites accumulator variable", arguments[0].at)
    condition = arguments[variables] if len(arguments) == variables + 2 else None
    kind = "exists_one" if name == "existsOne" else name
    return Comprehension(kind, target, names, condition, arguments[-1], at)


def _variable(node: Expression, error: str) -> str:
    if not isinstance(node, Identifier):
        raise MisplacedError(error, node.at)
    return node.name
