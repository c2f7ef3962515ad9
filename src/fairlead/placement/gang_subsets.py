"""Fewer pods of a gang, which are still enough for it, where not all of them fit."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fairlead.model.gang_needs import lacking, unsatisfied
from fairlead.model.gangs import GangSpec, Group
from fairlead.model.pods import Pod

#: Groups that are left out, one after another.
_MOST_LEFT_OUT = 8


def subsets(
    spec: GangSpec,
    pods: Sequence[Pod],
    placed: Counter[str],
    has_room: Callable[[Pod], bool],
    needed: int,
) -> Iterator[list[Pod]]:
    """First without pods that no node has room for, then without groups, then the fewest.

    `placed`: members that count, by group; `needed`: how many more the gang needs.
    """
    if not needed and not spec.groups:  # it is satisfied, whatever its members are counted as
        spec = replace(spec, minimum=placed.total() + 1)
    left = _useful(spec, [pod for pod in pods if has_room(pod)], placed)
    if len(left) < len(pods) and not _lacks(spec, left, placed):
        yield left
    for _ in range(_MOST_LEFT_OUT if spec.groups else 0):
        smaller = _without_a_group(spec, left, placed)
        if not smaller:
            break
        left = smaller
        yield left
    least = _useful(spec, _fewest(spec, left, placed), placed)
    if len(least) < len(left) and not _lacks(spec, least, placed):
        yield least


def _useful(spec: GangSpec, pods: list[Pod], placed: Counter[str]) -> list[Pod]:
    """Without pods of groups that lack others."""
    useless = unsatisfied(spec, placed + _counts(pods))
    return [pod for pod in pods if _group(pod) not in useless]


def _lacks(spec: GangSpec, pods: list[Pod], placed: Counter[str]) -> int:
    return lacking(spec, placed + _counts(pods)) if pods else 1


def _without_a_group(spec: GangSpec, pods: list[Pod], placed: Counter[str]) -> list[Pod]:
    """Without the group with most pods that is not needed; empty if all are."""
    for group, _ in _counts(pods).most_common():
        left = _useful(spec, [pod for pod in pods if _group(pod) != group], placed)
        if not _lacks(spec, left, placed):
            return left
    return []


def _fewest(spec: GangSpec, pods: list[Pod], placed: Counter[str]) -> list[Pod]:
    """Of each group no more pods than it needs, and as many as the gang needs."""
    least, counts = dict(_leaves(spec.groups)), Counter(placed)
    kept: list[Pod] = []
    more: list[Pod] = []
    for pod in pods:
        counts[_group(pod)] += 1
        (kept if counts[_group(pod)] <= least.get(_group(pod), 0) else more).append(pod)
    needed = max(1, spec.minimum - placed.total())
    return kept + more[: max(0, needed - len(kept))]


def _leaves(groups: tuple[Group, ...]) -> Iterator[tuple[str, int]]:
    for group in groups:
        if group.groups:
            yield from _leaves(group.groups)
        else:
            yield group.name, group.minimum


def _counts(pods: Sequence[Pod]) -> Counter[str]:
    return Counter(map(_group, pods))


def _group(pod: Pod) -> str:
    return pod.gang.group if pod.gang else ""
