"""Shrinks a case on which the two sides differ, to what the difference needs.

Objects go first, half of them at a time and then one by one; then every field and every item of a
list. Whatever can go while a difference of the same kind stays, goes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from oracle.api import Refusal
from oracle.arena import Arena
from oracle.case import Case, Object, copied
from oracle.compare import Difference

REGRESSIONS = Path(__file__).with_name("regressions")

#: Without these an object is another one, or none.
_KEPT = {
    "kind", "apiVersion", "metadata", "name", "namespace", "spec", "nodeName", "schedulerName",
    "containers", "image",
}  # fmt: skip

Differs = Callable[[Case], bool]
#: Keys and positions that lead to a part of an object.
Path_ = tuple[str | int, ...]


def minimise(arena: Arena, case: Case, found: Difference) -> Case:
    """The smallest case that this finds for the difference."""

    def differs(smaller: Case) -> bool:
        try:
            result = arena.run(smaller, attempts=1)
        except Refusal:
            return False
        return found.kind in {d.kind for d in result.differences}

    smallest = replace(case, name=f"{case.name}-{found.kind.replace(' ', '-')}")
    smallest = replace(smallest, probes=[found.probe])
    smallest = _with_fewer_objects(smallest, differs)
    smallest = _with_fewer_fields(smallest, differs)
    return _with_fewer_objects(smallest, differs)


def _with_fewer_objects(case: Case, differs: Differs) -> Case:
    step = max(1, len(case.objects) // 2)
    while step:
        at = 0
        while at < len(case.objects):
            left = case.objects[:at] + case.objects[at + step :]
            smaller = replace(case, objects=left)
            if differs(smaller):
                case = smaller
            else:
                at += step
        step //= 2
    return case


def _with_fewer_fields(case: Case, differs: Differs) -> Case:
    """Parts nearer to the root go first, and take what is in them along."""
    whole: Object = {"objects": case.objects, "probes": case.probes}
    for path in sorted(_parts(whole), key=lambda path: (len(path), _last_first(path))):
        smaller = _without(whole, path)
        if smaller is not None and differs(replace(case, **smaller)):
            whole = smaller
    return replace(case, **whole)


def _parts(thing: object, path: Path_ = ()) -> Iterator[Path_]:
    items = (
        thing.items()
        if isinstance(thing, dict)
        else enumerate(thing)
        if isinstance(thing, list)
        else ()
    )
    for key, value in items:
        here = (*path, key)
        if len(here) > 2 and key not in _KEPT:  # objects themselves have had their turn
            yield here
        yield from _parts(value, here)


def _last_first(path: Path_) -> tuple[object, ...]:
    """Items of a list go from its end, so that those before keep their places."""
    return tuple(-part if isinstance(part, int) else part for part in path)


def _without(whole: Object, path: Path_) -> Object | None:
    """A copy without that part; None where it is gone already."""
    smaller = copied(whole)
    holder = smaller
    try:
        for part in path[:-1]:
            holder = holder[part]
        del holder[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return smaller
