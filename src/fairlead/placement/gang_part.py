"""The pods of a gang by their topology rules: a tree of parts with rules in common."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fairlead.model.gangs import GangSpec, Group, TopologyRule
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

#: Groups times nodes that are planned in one turn.
_MOST_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class GangPart:
    """Pods with topology rules in common, and parts of them with rules of their own."""

    rules: tuple[TopologyRule, ...]
    pods: tuple[Pod, ...]
    parts: tuple["GangPart", ...] = ()
    set_size: int = 0
    set_rules: tuple[TopologyRule, ...] = ()
    #: Names of the groups that it has, for those of its members that have nodes.
    groups: frozenset[str] = frozenset()

    @property
    def every_pod(self) -> tuple[Pod, ...]:
        return (*self.pods, *(pod for part in self.parts for pod in part.every_pod))

    @property
    def count(self) -> int:
        """Parts without parts of their own."""
        return sum(part.count for part in self.parts) or 1

    def levels(self, depth: int = 0) -> dict[str, int]:
        """The levels that rules name, and how deep the parts with these rules are nested."""
        found = dict.fromkeys((rule.level for rule in self.set_rules), depth + 1)
        for part in self.parts:
            found = {**part.levels(depth + 1), **found}
        return {**found, **dict.fromkeys((rule.level for rule in self.rules), depth)}

    @property
    def every_rule(self) -> Iterator[TopologyRule]:
        yield from self.rules
        yield from self.set_rules
        for part in self.parts:
            yield from part.every_rule


def has_many_parts(spec: GangSpec, nodes: int) -> bool:
    """Whether a plan for all of its groups takes longer than a turn may."""
    if not spec.groups or not has_topology(spec):
        return False
    return sum(map(_leaf_count, spec.groups)) * nodes > _MOST_AT_ONCE


def _leaf_count(group: Group) -> int:
    return sum(map(_leaf_count, group.groups)) or 1


def has_topology(spec: GangSpec) -> bool:
    """Whether any rule says where its pods go."""
    return bool(spec.topology) or any(map(_group_has_rules, spec.groups))


def _group_has_rules(group: Group) -> bool:
    sets = bool(group.set_size and group.set_topology)
    return bool(group.topology) or sets or any(map(_group_has_rules, group.groups))


def gang_part_of(spec: GangSpec, pods: Sequence[Pod]) -> GangPart:
    """The pods by their rules; groups without rules are no parts of their own."""
    by_group: dict[str, list[Pod]] = {}
    for pod in pods:
        by_group.setdefault(pod.gang.group if pod.gang else "", []).append(pod)
    whole = Group("", 0, spec.groups, spec.topology)
    part = _part(whole, by_group)
    rest = [pod for group in by_group.values() for pod in group]  # of groups that it does not have
    return replace(part, pods=(*part.pods, *_ranked(rest)), groups=frozenset())


def _part(group: Group, by_group: dict[str, list[Pod]]) -> GangPart:
    pods = _ranked(by_group.pop(group.name, []) if not group.groups else [])
    parts: list[GangPart] = []
    names = {group.name}
    for inner in group.groups:
        part = _part(inner, by_group)
        names |= part.groups
        if _group_has_rules(inner):
            parts.append(part)
        else:
            pods = (*pods, *part.pods)
    return GangPart(
        group.topology, tuple(pods), tuple(parts), group.set_size, group.set_topology,
        frozenset(names),
    )  # fmt: skip


def _ranked(pods: list[Pod]) -> tuple[Pod, ...]:
    return tuple(sorted(pods, key=_rank))


def _rank(pod: Pod) -> float:
    rank = pod.gang.rank if pod.gang else None
    return float("inf") if rank is None else rank
