"""What can be changed in a line of code: the mutation operators."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

Position = tuple[int, int]
_WORDS: dict[type[ast.AST], tuple[str, str, str]] = {
    ast.Lt: ("comparison", "<", "<="),
    ast.LtE: ("comparison", "<=", "<"),
    ast.Gt: ("comparison", ">", ">="),
    ast.GtE: ("comparison", ">=", ">"),
    ast.Eq: ("comparison", "==", "!="),
    ast.NotEq: ("comparison", "!=", "=="),
    ast.Is: ("comparison", "is", "is not"),
    ast.IsNot: ("comparison", "is not", "is"),
    ast.In: ("comparison", "in", "not in"),
    ast.NotIn: ("comparison", "not in", "in"),
    ast.And: ("and/or", "and", "or"),
    ast.Or: ("and/or", "or", "and"),
    ast.Add: ("arithmetic", "+", "-"),
    ast.Sub: ("arithmetic", "-", "+"),
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS = {"log", "_log", "logger"}
_NOT_ENTERED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assert, ast.match_case)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Change:
    """Text of one line between two columns, and what takes its place."""

    operator: str
    line: int
    start: int
    end: int
    text: str

    def of(self, line: str) -> str:
        return line[: self.start] + self.text + line[self.end :]


def changes(function: _Function, lines: list[str]) -> list[Change]:
    """Those that a function's own statements allow, without what is within another function."""
    if function.name in {"__repr__", "__str__"}:
        return []
    found = (change for statement in function.body for change in _of(statement, lines))
    if function.name == "__init__":  # where any test would miss an attribute
        return [change for change in found if change.operator != "statement removed"]
    return list(found)


def _of(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    if isinstance(node, _NOT_ENTERED) or _only_tells(node):
        return
    for operator in _OPERATORS:
        yield from operator(node, lines)
    for child in ast.iter_child_nodes(node):
        if child is not getattr(node, "annotation", None):
            yield from _of(child, lines)


def _only_tells(node: ast.AST) -> bool:
    """A docstring, a line of the log."""
    if not isinstance(node, ast.Expr):
        return False
    call = node.value
    if not isinstance(call, ast.Call):
        return isinstance(call, ast.Constant)
    return isinstance(call.func, ast.Attribute) and bool(_LOGS & set(_names(call.func.value)))


def _names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        yield getattr(part, "id", getattr(part, "attr", ""))


def _compared(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        terms = [node.left, *node.comparators]
        for left, sign, right in zip(terms, node.ops, terms[1:], strict=False):
            yield from _sign(left, sign, right, lines)


def _joined(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    if isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from _sign(left, node.op, right, lines)


def _added(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _sign(node.left, node.op, node.right, lines)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _sign(node.target, node.op, node.value, lines)


def _sign(left: ast.expr, sign: ast.AST, right: ast.expr, lines: list[str]) -> Iterator[Change]:
    """The sign between two terms, on the line on which the second one begins."""
    operator, old, new = _WORDS[type(sign)]
    line, end = _begin(right, lines)
    start = _end(left, lines)[1] if left.end_lineno == line else 0
    gap = lines[line - 1][start:end]
    if found := re.search(rf"(?<!\w){re.escape(old)}(?!\w)", gap):
        yield Change(operator, line, start + found.start(), start + found.end(), new)


def _negated(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    """`not` goes; the condition of a branch that has neither `not` nor a comparison gets one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        line, start = _begin(node, lines)
        if node.operand.lineno == line:
            yield Change("negation", line, start, _begin(node.operand, lines)[1], "")
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        test = node.test
        if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield from _whole("negation", test, lines, lambda text: f"not ({text})")


def _constant(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, int):
        return
    other = not node.value if isinstance(node.value, bool) else node.value + 1
    yield from _whole("constant", node, lines, lambda _: str(other))


def _called(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMES:
        other = _NAMES[node.func.id]
        yield from _whole("min/max, any/all", node.func, lines, lambda _: other)


def _returned(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    value = node.value if isinstance(node, ast.Return) else None
    if value is not None and not isinstance(value, ast.Constant):
        yield from _whole("return None", value, lines, lambda _: "None")


def _left(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    if isinstance(node, ast.Break | ast.Continue):
        other = "continue" if isinstance(node, ast.Break) else "break"
        yield from _whole("break/continue", node, lines, lambda _: other)


def _removed(node: ast.AST, lines: list[str]) -> Iterator[Change]:
    """A call, a raise, or a change of what others see."""
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    kept = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    if call or kept or isinstance(node, ast.AugAssign | ast.Raise):
        yield from _whole("statement removed", node, lines, lambda _: "pass")


def _whole(
    operator: str, node: ast.expr | ast.stmt, lines: list[str], other: Callable[[str], str]
) -> Iterator[Change]:
    """All of a node, if it is on one line."""
    (line, start), (last, end) = _begin(node, lines), _end(node, lines)
    if line == last:
        yield Change(operator, line, start, end, other(lines[line - 1][start:end]))


def _begin(node: ast.expr | ast.stmt, lines: list[str]) -> Position:
    return node.lineno, _column(lines[node.lineno - 1], node.col_offset)


def _end(node: ast.expr | ast.stmt, lines: list[str]) -> Position:
    line, column = node.end_lineno or 0, node.end_col_offset or 0
    return line, _column(lines[line - 1], column)


def _column(line: str, column: int) -> int:
    """ast counts bytes."""
    return len(line.encode()[:column].decode())


_OPERATORS: Iterable[Callable[[ast.AST, list[str]], Iterator[Change]]] = (
    _compared, _joined, _added, _negated, _constant, _called, _returned, _left, _removed,
)  # fmt: skip
