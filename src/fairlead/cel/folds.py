"""Macros that run over a list or a map, and those that name a value."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from fairlead.cel.access import GO_TYPES
from fairlead.cel.errors import CelEvaluationError, no_such_overload
from fairlead.cel.lists import sorted_by
from fairlead.cel.running import Checked, Evaluation, Runner
from fairlead.cel.syntax import Binding, Comprehension
from fairlead.cel.types import BOOL, DYN, INT, StaticType, list_of, map_of, optional_of
from fairlead.cel.values import NOTHING, Optional, Value, from_key, kind_of

if TYPE_CHECKING:
    from fairlead.cel.compiler import Compiler


def bind(outer: "Compiler", node: Binding) -> Checked:
    value = outer.build(node.value)
    kind = outer.kind(value)
    if node.kind != "bind":
        kind = kind.of[0] if kind.name == "optional_type" else DYN
    slot = outer.declare((node.name, kind))
    body = outer.build(node.body)
    outer.forget(slot)
    if node.kind == "bind":
        return Checked(body.kind, _bound(slot, value.run, body.run))
    flat = node.kind == "optFlatMap"
    result = body.kind if flat else optional_of(body.kind)
    return Checked(result, _optional_map(slot, value.run, body.run, flat=flat))


def _bound(slot: int, value: Runner, body: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.charge(10)
        try:
            evaluation.variables[slot] = value(evaluation)
        except CelEvaluationError as error:
            evaluation.variables[slot] = error  # it counts where the body reads the name
        return body(evaluation)

    return run


def _optional_map(slot: int, value: Runner, body: Runner, *, flat: bool) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        evaluation.charge(10)
        found = value(evaluation)
        if not isinstance(found, Optional):
            raise no_such_overload()
        if not found.present:
            return NOTHING
        evaluation.variables[slot] = found.value
        result = body(evaluation)
        return result if flat else Optional(present=True, value=result)

    return run


def build(outer: "Compiler", node: Comprehension) -> Checked:
    over = outer.build(node.range)
    kinds = _variables(outer, node, outer.kind(over))
    slot = outer.declare(*zip(node.names, kinds, strict=True))
    condition = outer.build(node.condition) if node.condition is not None else None
    body = outer.build(node.body)
    outer.forget(slot)
    tests = [condition] if condition is not None else []
    if node.kind in ("all", "exists", "exists_one", "filter"):
        tests.append(body)
    for test in tests:
        if not outer.types.assignable([(outer.kind(test), BOOL)]):
            text = f"expected type 'bool' but found '{outer.kind(test)}'"
            outer.fail(text, node.body.at)
    walk = _walker(over.run, slot, len(node.names))
    run = _RUNNERS[node.kind](walk, slot, condition.run if condition else None, body.run)
    return Checked(_result(outer, node, over, body, kinds), run)


def _variables(outer: "Compiler", node: Comprehension, over: StaticType) -> list[StaticType]:
    if over.name == "map":
        return list(over.of)[: len(node.names)]
    if over.name == "list":
        return [over.of[0]] if len(node.names) == 1 else [INT, over.of[0]]
    if over.parameter:
        outer.types.assignable([(DYN, over)])
    elif over.name not in ("dyn", "error"):
        kinds = "must be list, map, or dynamic"
        text = f"expression of type '{over}' cannot be range of a comprehension ({kinds})"
        outer.fail(text, node.range.at)
    return [DYN] * len(node.names)


def _result(
    outer: "Compiler", node: Comprehension, over: Checked, body: Checked, kinds: list[StaticType]
) -> StaticType:
    match node.kind:
        case "map" | "transformList":
            return list_of(body.kind)
        case "filter":
            return list_of(kinds[0])
        case "transformMap":
            return map_of(kinds[0], body.kind)
        case "transformMapEntry":
            return outer.kind(body)
        case "sortBy":
            return outer.kind(over)
    return BOOL


Walk = Callable[[Evaluation], Iterator[None]]


def _walker(over: Runner, slot: int, variables: int) -> Walk:
    """Sets the variables to each item in turn."""

    def walk(evaluation: Evaluation) -> Iterator[None]:
        value = over(evaluation)
        if isinstance(value, dict):
            pairs: Any = [(from_key(key), each) for key, each in value.items()]
        elif isinstance(value, list):
            pairs = [(each, None) for each in value] if variables == 1 else list(enumerate(value))
        else:
            shown = GO_TYPES.get(kind_of(value), kind_of(value))
            raise CelEvaluationError(f"got '{shown}', expected iterable type")
        for first, second in pairs:
            evaluation.charge(3)
            evaluation.variables[slot] = first
            if variables == 2:
                evaluation.variables[slot + 1] = second
            yield

    return walk


def _tested(run: Runner, evaluation: Evaluation) -> bool:
    value = run(evaluation)
    if type(value) is not bool:
        raise no_such_overload()
    return value


def _quantifier(decides: bool) -> Callable[[Walk, int, Runner | None, Runner], Runner]:
    """All and exists: one item decides, whatever errors others have."""

    def built(walk: Walk, _slot: int, _condition: Runner | None, body: Runner) -> Runner:
        def run(evaluation: Evaluation) -> Value:
            failed: CelEvaluationError | None = None
            for _ in walk(evaluation):
                try:
                    if _tested(body, evaluation) is decides:
                        return decides
                except CelEvaluationError as error:
                    failed = failed or error
            if failed is not None:
                raise failed
            return not decides

        return run

    return built


def _exists_one(walk: Walk, _slot: int, _condition: Runner | None, body: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        count = 0
        failed: CelEvaluationError | None = None
        for _ in walk(evaluation):
            try:
                count += _tested(body, evaluation)
            except CelEvaluationError as error:
                failed = error
        if failed is not None:
            raise failed
        return count == 1

    return run


def _filter(walk: Walk, slot: int, _condition: Runner | None, body: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        found = []
        for _ in walk(evaluation):
            item = evaluation.variables[slot]
            if _tested(body, evaluation):
                found.append(item)
        return found

    return run


def _map(walk: Walk, _slot: int, condition: Runner | None, body: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        return [
            body(evaluation)
            for _ in walk(evaluation)
            if condition is None or _tested(condition, evaluation)
        ]

    return run


def _map_values(walk: Walk, slot: int, condition: Runner | None, body: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        found = {}
        for _ in walk(evaluation):
            key = evaluation.variables[slot]
            if condition is None or _tested(condition, evaluation):
                found[key] = body(evaluation)
        return found

    return run


def _map_entries(walk: Walk, _slot: int, condition: Runner | None, body: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        found: dict[Any, Value] = {}
        for _ in walk(evaluation):
            if condition is None or _tested(condition, evaluation):
                for key, value in body(evaluation).items():
                    if key in found:
                        text = f"insert failed: key {from_key(key)} already exists"
                        raise CelEvaluationError(text)
                    found[key] = value
        return found

    return run


def _sort_by(walk: Walk, slot: int, _condition: Runner | None, body: Runner) -> Runner:
    def run(evaluation: Evaluation) -> Value:
        items, keys = [], []
        for _ in walk(evaluation):
            items.append(evaluation.variables[slot])
            keys.append(body(evaluation))
        return sorted_by(evaluation, items, keys)

    return run


_RUNNERS: dict[str, Callable[[Walk, int, Runner | None, Runner], Runner]] = {
    "all": _quantifier(decides=False),
    "exists": _quantifier(decides=True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _map_values,
    "transformMapEntry": _map_entries,
    "sortBy": _sort_by,
}
