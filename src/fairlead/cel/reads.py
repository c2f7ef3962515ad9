"""What an expression reads of a device: devices that are equal in this get equal answers."""

from fairlead.cel import syntax
from fairlead.cel.syntax import (
    Binding,
    Comprehension,
    Constant,
    Expression,
    FieldSelection,
    Identifier,
    Invocation,
)

#: `attributes` or `capacity`, the domain, and the name.
Read = tuple[str, str, str]
_MAPS = ("attributes", "capacity")
_PLAIN = ("driver", "allowMultipleAllocations")
_INDEX = ("_[_]", "_[?_]")


def reads_of(root: Expression) -> frozenset[Read] | None:
    """The attributes and capacities that it names; None: it may read any."""
    found: set[Read] = set()
    below = [root]
    while below:
        node = below.pop()
        if (read := _item(node)) is not None:
            found.add(read)
        elif _is_device(node) or _binds_device(node):
            return None
        elif not _is_plain(node):
            below += syntax.parts(node)
    return frozenset(found)


def _binds_device(node: Expression) -> bool:
    """A variable of a macro has the name of the device."""
    if isinstance(node, Comprehension):
        return "device" in node.names
    return isinstance(node, Binding) and node.name == "device"


def _is_plain(node: Expression) -> bool:
    """`device.driver`."""
    return isinstance(node, FieldSelection) and node.field in _PLAIN and _is_device(node.operand)


def _item(node: Expression) -> Read | None:
    """`device.attributes["domain"].name`, or the same with brackets."""
    name: str | None
    if isinstance(node, FieldSelection):
        domain, name = _domain(node.operand), node.field
    elif isinstance(node, Invocation) and node.function in _INDEX:
        domain, name = _domain(node.arguments[0]), _text(node.arguments[1])
    else:
        return None
    return (*domain, name) if domain is not None and name is not None else None


def _domain(node: Expression) -> tuple[str, str] | None:
    if not isinstance(node, Invocation) or node.function != "_[_]":
        return None
    operand, key = node.arguments[0], _text(node.arguments[1])
    if key is None or not isinstance(operand, FieldSelection) or operand.optional or operand.test:
        return None
    return (operand.field, key) if operand.field in _MAPS and _is_device(operand.operand) else None


def _is_device(node: Expression) -> bool:
    return isinstance(node, Identifier) and node.name == "device"


def _text(node: Expression) -> str | None:
    return node.value if isinstance(node, Constant) and isinstance(node.value, str) else None
