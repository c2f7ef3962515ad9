"""How many pods a gang lacks, and where pods of one gang contradict each other."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields

from fairlead.model.gangs import GangSpec, Group
from fairlead.model.pods import Pod


def lacking(spec: GangSpec, members: Mapping[str, int]) -> int:
    """How many more pods it needs, with so many members in each group; 0: it is satisfied."""
    short = spec.minimum - sum(members.values())
    if not spec.groups:
        return max(0, short)
    return max(0, short, _least(spec.groups, spec.least_groups, members))


def _least(groups: tuple[Group, ...], needed: int | None, members: Mapping[str, int]) -> int:
    """The groups that lack least are satisfied first."""
    if needed is None:
        return sum(_group_lacks(group, members) for group in groups)
    lacks = sorted(_group_lacks(group, members) for group in groups)
    return sum(lacks[:needed]) + max(0, needed - len(lacks))  # groups that are still to come


def _group_lacks(group: Group, members: Mapping[str, int]) -> int:
    if group.groups:
        return _least(group.groups, group.minimum, members)
    return max(0, group.minimum - members.get(group.name, 0))


class Lack:
    """How many pods a gang lacks with these members; counted again only after a change."""

    __slots__ = ("_lacks", "_spec", "members")

    def __init__(self) -> None:
        #: By group.
        self.members: Counter[str] = Counter()
        self._spec: GangSpec | None = None
        self._lacks = 0

    def add(self, group: str, change: int) -> None:
        self.members[group] += change
        self._spec = None

    def of(self, spec: GangSpec) -> int:
        if spec is not self._spec:
            self._spec, self._lacks = spec, lacking(spec, self.members)
        return self._lacks


def unsatisfied(spec: GangSpec, members: Mapping[str, int]) -> set[str]:
    """The groups of pods that are of no use, since they or the group around them lack pods."""
    return {name for group in spec.groups for name in _useless(group, members)}


def _useless(group: Group, members: Mapping[str, int]) -> set[str]:
    if _group_lacks(group, members):
        return _leaves(group)
    return {name for inner in group.groups for name in _useless(inner, members)}


def _leaves(group: Group) -> set[str]:
    inner = {name for each in group.groups for name in _leaves(each)}
    return inner or {group.name}


def spare_groups(spec: GangSpec, members: Mapping[str, int]) -> list[frozenset[str]]:
    """Groups of pods that may go, each as a whole, and all of them: the gang is satisfied then.

    The last come first. A leaf is one of them, or all leaves of a group that is evicted whole.
    """
    left, found = dict(members), list[frozenset[str]]()
    if spec.evicted_whole or lacking(spec, left):
        return found
    for leaves in reversed([each for group in spec.groups for each in _units(group)]):
        without = {name: n for name, n in left.items() if name not in leaves}
        if len(without) < len(left) and without and not lacking(spec, without):
            left = without
            found.append(leaves)
    return found


def _units(group: Group) -> list[frozenset[str]]:
    if group.evicted_whole or not group.groups:
        return [frozenset(_leaves(group))]
    return [each for inner in group.groups for each in _units(inner)]


def disagreement(one: GangSpec, other: GangSpec) -> str:
    """What two pods of a gang without an object say differently."""
    for field in fields(GangSpec):
        here, there = getattr(one, field.name), getattr(other, field.name)
        if here != there:
            return (
                f"pods of the gang {one.name} disagree: {field.name} is {_shown(here)} in some and "
                f"{_shown(there)} in others; give all pods the same"
            )
    return ""


def priority_problem(spec: GangSpec, pods: Iterable[int]) -> str:
    """Where the priority of the gang is not that of its pods.

    The queue goes by the one, quotas of namespaces by the other: none may be above its pods.
    """
    if spec.priority is None:
        return ""
    for priority in pods:
        if priority < spec.priority or (spec.exact_priority and priority != spec.priority):
            return (
                f"the gang {spec.name} has priority {spec.priority}, but pods of it have "
                f"{priority}; give both the same priorityClassName"
            )
    return ""


def member_problem(spec: GangSpec, pod: Pod) -> str:
    """Why a gang that needs this pod waits."""
    return f"the gang {spec.name} lacks a pod: {pod.name} cannot be placed: {pod.problem}"


def _shown(value: object) -> str:
    return f"{value!r:.64}"
