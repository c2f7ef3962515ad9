"""Calls of functions and operators: the overloads that fit, and the choice at run time."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead.cel import arithmetic, regex, times
from fairlead.cel.access import item, optional_item
from fairlead.cel.errors import CelError, CelEvaluationError, MisplacedError, no_such_overload
from fairlead.cel.overloads import FUNCTIONS, Overload
from fairlead.cel.running import Checked, Evaluation, Runner
from fairlead.cel.syntax import Constant, Expression, FieldSelection, Identifier, Invocation
from fairlead.cel.types import BOOL, ERROR, StaticType
from fairlead.cel.values import Value, equal, kind_of, map_key, same

if TYPE_CHECKING:
    from fairlead.cel.compiler import Compiler

#: Their errors name no types: the left operand decides whether there is an operator at all.
_OPERATORS = {
    *("_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "-_", "!_"),
    *("size", "sort", "startsWith", "endsWith", "contains", "matches", "find", "findAll"),
}
_CONSTANT = {"quantity", "semver", "duration", "timestamp"}
_ENOUGH = 10_000
_CHECKED: dict[str, tuple[Callable[[str], object], int]] = {
    "duration": (times.parsed_duration, 0),
    "timestamp": (times.parsed_timestamp, 0),
    "matches": (regex.compiled, 1),
}


def build(outer: "Compiler", node: Invocation) -> Checked:
    if node.function in ("_&&_", "_||_"):
        return _logic(outer, node)
    name, parts = _resolved(outer, node)
    arguments = [outer.build(each) for each in parts]
    if name not in FUNCTIONS:
        return outer.fail(f"undeclared reference to '{name}' (in container '')", node.at)
    method = len(parts) > len(node.arguments)
    kinds = [outer.kind(each) for each in arguments]
    fitting, result = _fitting(outer, name, kinds, method=method)
    if not fitting:
        shown = [outer.types.applied(kind, final=True) for kind in kinds]
        return outer.fail(_no_overload(name, shown, method=method), node.at)
    _check_literals(outer, name, parts)
    runs = [each.run for each in arguments]
    if len(parts) > 1:
        runs[1] = _prepared(name, parts[1], runs[1])
    run = _runner(name, tuple(runs), fitting)
    return Checked(result, _constant(run) if _is_constant(name, parts) else run)


def _is_constant(name: str, parts: tuple[Expression, ...]) -> bool:
    return name in _CONSTANT and all(isinstance(part, Constant) for part in parts)


def _constant(run: Runner) -> Runner:
    """The value of a quantity or version in the text: computed once, unless it is an error."""
    try:
        value = run(Evaluation([], _ENOUGH))
    except CelError:
        return run

    def constant(evaluation: Evaluation) -> Value:
        evaluation.left -= 1
        return value

    return constant


def _resolved(outer: "Compiler", node: Invocation) -> tuple[str, tuple[Expression, ...]]:
    """The name of the function and its arguments: `sets.contains` is a name, not a method."""
    if node.target is None:
        return node.function, node.arguments
    prefix = _dotted(node.target)
    root = prefix.partition(".")[0]
    if prefix and not outer.declared(root) and f"{prefix}.{node.function}" in FUNCTIONS:
        return f"{prefix}.{node.function}", node.arguments
    return node.function, (node.target, *node.arguments)


def _dotted(node: Expression) -> str:
    names = []
    while isinstance(node, FieldSelection) and not node.test and not node.optional:
        names.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(names)]) if isinstance(node, Identifier) else ""


def _fitting(
    outer: "Compiler", name: str, kinds: list[StaticType], *, method: bool
) -> tuple[list[Overload], StaticType]:
    found, result = [], None
    for each in FUNCTIONS[name]:
        if each.method != method or len(each.parameters) != len(kinds):
            continue
        fresh: dict[str, StaticType] = {}
        parameters = [_renamed(outer, kind, fresh) for kind in each.parameters]
        if outer.types.assignable(list(zip(kinds, parameters, strict=True))):
            found.append(each)
            kind = outer.types.applied(_renamed(outer, each.result, fresh))
            same_kind = result is None or result == kind
            result = kind if same_kind else StaticType("dyn")
    return found, result or ERROR


def _renamed(outer: "Compiler", kind: StaticType, fresh: dict[str, StaticType]) -> StaticType:
    """The type with parameters of this call only."""
    if kind.parameter:
        return fresh.setdefault(kind.name, fresh.get(kind.name) or outer.types.new())
    return StaticType(kind.name, tuple(_renamed(outer, each, fresh) for each in kind.of))


def _no_overload(name: str, kinds: list[StaticType], *, method: bool) -> str:
    shown = ", ".join(map(str, kinds[method:]))
    target = f"{kinds[0]}." if method else ""
    return f"found no matching overload for '{name}' applied to '{target}({shown})'"


def _check_literals(outer: "Compiler", name: str, parts: tuple[Expression, ...]) -> None:
    """Literals that can never be right are refused when the expression is compiled."""
    check, place = _CHECKED.get(name, (None, 0))
    part = parts[place] if check is not None and place < len(parts) else None
    if check is None or not isinstance(part, Constant) or not isinstance(part.value, str):
        return
    try:
        check(part.value)
    except CelEvaluationError:
        outer.late_errors.append(MisplacedError(f"invalid {name} argument", part.at))


def _prepared(name: str, part: Expression, run: Runner) -> Runner:
    """A literal pattern is compiled once, not for each device."""
    literal = isinstance(part, Constant) and type(part.value) is str
    if name not in ("matches", "find", "findAll") or not literal:
        return run
    try:
        pattern = regex.compiled(run(Evaluation([], 1)))
    except CelEvaluationError:
        return run
    return lambda _: pattern


def _logic(outer: "Compiler", node: Invocation) -> Checked:
    """Three-valued: an error counts only where no other term decides."""
    terms = [outer.build(each) for each in node.arguments]
    kind = BOOL
    for part, term in zip(node.arguments, terms, strict=True):
        if not outer.types.assignable([(outer.kind(term), BOOL)]):
            found = outer.kind(term)
            kind = outer.fail(f"expected type 'bool' but found '{found}'", part.at).kind
    decides = node.function == "_||_"
    return Checked(kind, _three_valued(tuple(term.run for term in terms), decides=decides))


def _three_valued(terms: tuple[Runner, ...], *, decides: bool) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.charge(len(terms))
        first = None
        for term in terms:
            try:
                value = term(evaluation)
                if value is decides:
                    return decides
                if type(value) is not bool:
                    raise no_such_overload()
            except CelEvaluationError as error:
                first = first or error
        if first is not None:
            raise first
        return not decides

    return run


def _runner(name: str, runs: tuple[Runner, ...], fitting: list[Overload]) -> Runner:
    special = _SPECIAL.get(name)
    if special is not None:
        return special(*runs)
    choices = tuple((each.kinds, each.compute) for each in fitting)

    def run(evaluation: Evaluation) -> Value:
        values = [each(evaluation) for each in runs]
        evaluation.charge_sizes(values)
        kinds = [kind_of(value) for value in values]
        for wanted, compute in choices:
            if all(w is None or w == k for w, k in zip(wanted, kinds, strict=True)):
                assert compute is not None
                return compute(evaluation, *values)
        if name in _OPERATORS:
            raise CelEvaluationError(arithmetic.operator_error(name, kinds))
        raise CelEvaluationError(f"no such overload: {name}({', '.join(kinds)})")

    return run


def _index(operand: Runner, key: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.charge(1)
        value, wanted = operand(evaluation), key(evaluation)
        if kind_of(value) == "optional_type":
            return optional_item(value, wanted)
        return item(value, wanted)

    return run


def _optional_index(operand: Runner, key: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.charge(1)
        return optional_item(operand(evaluation), key(evaluation))

    return run


def _equal(left: Runner, right: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        one, other = left(evaluation), right(evaluation)
        evaluation.charge(arithmetic.comparison_cost(one, other, evaluation.left))
        return equal(one, other)

    return run


def _not_equal(left: Runner, right: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        one, other = left(evaluation), right(evaluation)
        evaluation.charge(arithmetic.comparison_cost(one, other, evaluation.left))
        return not same(one, other)

    return run


def _contained(left: Runner, right: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        value, within = left(evaluation), right(evaluation)
        if isinstance(within, dict):
            evaluation.charge(1)
            return map_key(value) in within
        if not isinstance(within, list):
            raise no_such_overload()
        evaluation.charge(
            1 + arithmetic.comparison_cost(value, within, evaluation.left) + len(within)
        )
        return any(same(value, each) for each in within)

    return run


def _conditional(condition: Runner, yes: Runner, no: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.charge(1)
        value = condition(evaluation)
        if type(value) is not bool:
            raise no_such_overload()
        return yes(evaluation) if value else no(evaluation)

    return run


_SPECIAL: dict[str, Callable[..., Runner]] = {
    "_[_]": _index,
    "_[?_]": _optional_index,
    "_==_": _equal,
    "_!=_": _not_equal,
    "@in": _contained,
    "_?_:_": _conditional,
}
