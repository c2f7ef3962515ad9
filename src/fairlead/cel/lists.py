"""Functions of lists and sets."""

from functools import cmp_to_key
from itertools import pairwise

from fairlead.cel.arithmetic import comparison_cost, whole
from fairlead.cel.errors import CelEvaluationError, no_such_overload
from fairlead.cel.overloads import computes
from fairlead.cel.running import Evaluation
from fairlead.cel.values import Span, Unsigned, Value, compare, kind_of, same

_COMPARED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_INCLUDED = 48
_SUMMED = ("int", "uint", "double", "duration")


def sorted_by(evaluation: Evaluation, items: list[Value], keys: list[Value]) -> list[Value]:
    """Raises CelEvaluationError if the keys have no order between them."""
    if len({kind_of(key) for key in keys}) > 1:
        raise CelEvaluationError("list elements must have the same type")
    if keys:
        _comparable(keys[0])
    evaluation.charge(len(keys))
    ranks = [cmp_to_key(compare)(key) for key in keys]
    order = sorted(range(len(keys)), key=ranks.__getitem__)
    return [items[index] for index in order]


def _comparable(key: Value) -> None:
    try:
        compare(key, key)
    except CelEvaluationError:
        raise CelEvaluationError("list elements must be comparable") from None


@computes(*(f"list({kind})::sort() -> list({kind})" for kind in _COMPARED))
def _sort(evaluation: Evaluation, items: list[Value]) -> list[Value]:
    return sorted_by(evaluation, items, items)


@computes(*(f"list({kind})::isSorted() -> bool" for kind in _COMPARED))
def _is_sorted(_: Evaluation, items: list[Value]) -> bool:
    return all(compare(one, other) <= 0 for one, other in pairwise(items))


@computes(*(f"list({kind})::sum() -> {kind}" for kind in _SUMMED))
def _sum(_: Evaluation, items: list[Value]) -> Value:
    if not items:
        return 0
    total = items[0]
    for item in items[1:]:
        if type(item) is not type(total):
            raise no_such_overload()
        total = _added(total, item)
    return total


def _added(left: Value, right: Value) -> Value:
    if isinstance(left, Span):
        return Span(whole(left.nanoseconds + right.nanoseconds))
    if isinstance(left, float):
        return left + right
    if isinstance(left, Unsigned):
        if left + right >= 1 << 64:
            raise CelEvaluationError("unsigned integer overflow")
        return Unsigned(left + right)
    return whole(left + right)


def _extreme(name: str, items: list[Value], sign: int) -> Value:
    if not items:
        raise CelEvaluationError(f"{name} called on empty list")
    best = items[0]
    for item in items[1:]:
        if compare(item, best) == sign:
            best = item
    return best


@computes(*(f"list({kind})::min() -> {kind}" for kind in _COMPARED))
def _min(_: Evaluation, items: list[Value]) -> Value:
    return _extreme("min", items, -1)


@computes(*(f"list({kind})::max() -> {kind}" for kind in _COMPARED))
def _max(_: Evaluation, items: list[Value]) -> Value:
    return _extreme("max", items, 1)


@computes("list(A)::indexOf(A) -> int")
def _index_in(evaluation: Evaluation, items: list[Value], item: Value) -> int:
    evaluation.charge(comparison_cost(items, items, evaluation.left))
    return next((index for index, each in enumerate(items) if same(each, item)), -1)


@computes("list(A)::lastIndexOf(A) -> int")
def _last_index_in(evaluation: Evaluation, items: list[Value], item: Value) -> int:
    evaluation.charge(comparison_cost(items, items, evaluation.left))
    found = [index for index, each in enumerate(items) if same(each, item)]
    return found[-1] if found else -1


@computes("dyn::includes(dyn) -> bool")
def _includes(evaluation: Evaluation, value: Value, wanted: Value) -> bool:
    """Kubernetes has this for attributes that are lists; it takes single values, too."""
    if not isinstance(value, list):
        return same(value, wanted)
    evaluation.charge(comparison_cost(value, value, evaluation.left))
    if any(same(item, wanted) for item in value[:_INCLUDED]):
        return True
    if len(value) > _INCLUDED:
        words = "'includes' function cannot be applied to lists longer than"
        raise CelEvaluationError(f"{words} {_INCLUDED} values")
    return False


@computes("list(A)::slice(int, int) -> list(A)")
def _slice(_: Evaluation, items: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        reason = "negative indexes not supported"
    elif start > end:
        reason = "start index must be less than or equal to end index"
    elif end > len(items):
        reason = f"list is length {len(items)}"
    else:
        return items[start:end]
    raise CelEvaluationError(f"cannot slice({start}, {end}), {reason}")


@computes("list(list(A))::flatten() -> list(A)", "list(dyn)::flatten(int) -> list(dyn)")
def _flatten(evaluation: Evaluation, items: list[Value], level: int = 1) -> list[Value]:
    if level < 0:
        raise CelEvaluationError("level must be non-negative")
    for _ in range(min(level, 64)):
        if not any(isinstance(item, list) for item in items):
            break
        evaluation.charge(sum(len(item) for item in items if isinstance(item, list)))
        items = [each for item in items for each in (item if isinstance(item, list) else (item,))]
    return items


@computes("list(A)::distinct() -> list(A)")
def _distinct(evaluation: Evaluation, items: list[Value]) -> list[Value]:
    evaluation.charge(len(items) * comparison_cost(items, items, evaluation.left))
    found: list[Value] = []
    for item in items:
        if not any(same(each, item) for each in found):
            found.append(item)
    return found


@computes("list(A)::reverse() -> list(A)")
def _reverse(_: Evaluation, items: list[Value]) -> list[Value]:
    return items[::-1]


@computes("lists.range(int) -> list(int)")
def _range(evaluation: Evaluation, count: int) -> list[int]:
    evaluation.charge(max(count, 0))
    return list(range(count))


def _holds(evaluation: Evaluation, items: list[Value], others: list[Value]) -> bool:
    evaluation.charge(len(others) * comparison_cost(items, items, evaluation.left))
    return all(any(same(item, each) for item in items) for each in others)


@computes("sets.contains(list(A), list(A)) -> bool")
def _set_contains(evaluation: Evaluation, items: list[Value], others: list[Value]) -> bool:
    return _holds(evaluation, items, others)


@computes("sets.equivalent(list(A), list(A)) -> bool")
def _set_equivalent(evaluation: Evaluation, items: list[Value], others: list[Value]) -> bool:
    return _holds(evaluation, items, others) and _holds(evaluation, others, items)


@computes("sets.intersects(list(A), list(A)) -> bool")
def _set_intersects(evaluation: Evaluation, items: list[Value], others: list[Value]) -> bool:
    evaluation.charge(len(others) * comparison_cost(items, items, evaluation.left))
    return any(same(item, each) for item in items for each in others)
