"""What would become of a gang now: which members have or would get nodes, and what would help.

Everything is found in trials that are undone, so that nothing changes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from fairlead.cluster.claim_details import asked_claims
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_claims import DeviceClaims
from fairlead.engine.gang_messages import gathering_message, refusal_message
from fairlead.engine.gang_trials import Filling
from fairlead.model.gangs import GangSpec, Group, TopologyRule
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.quantities import shown
from fairlead.placement.gang_part import has_many_parts
from fairlead.queue.units import Gang

#: How a gang is tried; what it changes is undone.
Tried = Callable[[Gang], Filling]

#: Larger gangs are not tried to explain them: that would take too long in one turn.
MOST_MEMBERS = 400


@dataclass(frozen=True, slots=True)
class MemberOutlook:
    """One member that has not finished."""

    pod: Pod
    #: The node that it has, or would get now; empty if there is none.
    node: str
    has_node: bool


@dataclass(frozen=True, slots=True)
class GangOutlook:
    spec: GangSpec
    #: invalid, gathering, scheduled, fits, unschedulable, or pending (not tried).
    state: str
    message: str
    members: tuple[MemberOutlook, ...]
    finished: int
    #: How many more members must get nodes.
    needed: int
    #: Changes that would let it run, the smallest first.
    remedies: tuple[str, ...] = ()


def outlook(gang: Gang, cluster: Cluster, tried: Tried) -> GangOutlook:
    """Of a gang that is not being placed at the moment."""
    known = _known(gang, cluster)
    if known is not None:
        return _as_it_is(gang, cluster, *known)
    filling = tried(gang)
    found = {member.pod.uid: member.placed.node for member in filling.placed}
    if filling.succeeded:
        message = f"gang {gang.spec.name} fits now: {len(found)} pod(s) would get nodes"
        return _as_it_is(gang, cluster, "fits", message, found)
    there = _as_it_is(gang, cluster, "unschedulable", refusal_message(filling), found)
    return replace(there, remedies=tuple(_remedies(gang, filling, tried, cluster.claims)))


def _known(gang: Gang, cluster: Cluster) -> tuple[str, str] | None:
    """State and message where no trial is needed, or where it would take too long."""
    if gang.problem:
        return "invalid", gang.problem
    if gang.missing:
        return "gathering", gathering_message(gang)
    if not gang.pods:
        with_node = len(gang.placed) - len(gang.finished)
        return "scheduled", f"gang {gang.spec.name}: {with_node} pod(s) have nodes, none waits"
    if len(gang.pods) > MOST_MEMBERS or has_many_parts(gang.spec, len(cluster)):
        message = f"gang {gang.spec.name} has {len(gang.pods)} pending pods, too many to try here"
        return "unschedulable" if gang.refusal else "pending", gang.refusal or message
    return None


def _as_it_is(
    gang: Gang, cluster: Cluster, state: str, message: str, found: Mapping[str, str] | None = None
) -> GangOutlook:
    held = [cluster.holdings[uid] for uid in gang.placed if uid in cluster.holdings]
    members = [MemberOutlook(each.pod, each.node, has_node=True) for each in held]
    found = found or {}
    members += [MemberOutlook(pod, found.get(pod.uid, ""), has_node=False) for pod in gang.pending]
    members.sort(key=_by_rank)
    return GangOutlook(gang.spec, state, message, tuple(members), len(gang.finished), gang.needed)


def _by_rank(member: MemberOutlook) -> tuple[float, str]:
    rank = member.pod.gang.rank if member.pod.gang else None
    return (float("inf") if rank is None else rank), member.pod.name


# -- what would help ---------------------------------------------------------------------------


def _remedies(
    gang: Gang, filling: Filling, tried: Tried, claims: DeviceClaims
) -> Iterator[str]:  # fmt: skip
    spec = gang.spec
    levels = sorted({rule.level for rule in _rules(spec) if rule.required})
    if levels and _fits_as(_relaxed(spec), gang, tried):
        yield f"it fits now if {' and '.join(levels)} is preferred instead of required"
    least = len(gang.placed) + len(filling.placed)
    if not spec.groups and 0 < least < spec.minimum:
        yield f"it fits now with a minimum of {least} instead of {spec.minimum}"
    if filling.first is not None:
        yield _room(gang, filling, filling.first[0].request, claims)


def _room(gang: Gang, filling: Filling, request: PodRequest, claims: DeviceClaims) -> str:
    short = gang.needed_with(filling.counts)
    asked = [f"{shown(name, n)} {name}" for name, n in request.resources]
    asked += [each.asks for each in asked_claims(request.claims, claims) if each.asks]
    each = f" with {', '.join(asked)} each" if asked else ""
    where = "in the same domain " if gang.spec.topology else ""
    return f"it fits once there is room {where}for {short} more pod(s){each}"


def _fits_as(spec: GangSpec, gang: Gang, tried: Tried) -> bool:
    own, gang.spec = gang.spec, spec
    try:
        return tried(gang).succeeded
    finally:
        gang.spec = own


def _rules(spec: GangSpec) -> Iterator[TopologyRule]:
    yield from spec.topology
    for group in spec.groups:
        yield from _rules_of(group)


def _rules_of(group: Group) -> Iterator[TopologyRule]:
    yield from (*group.topology, *group.set_topology)
    for inner in group.groups:
        yield from _rules_of(inner)


def _relaxed(spec: GangSpec) -> GangSpec:
    """The same with no topology required."""
    groups = tuple(map(_relaxed_group, spec.groups))
    return replace(spec, topology=_preferred(spec.topology), groups=groups)


def _relaxed_group(group: Group) -> Group:
    return replace(
        group,
        topology=_preferred(group.topology),
        set_topology=_preferred(group.set_topology),
        groups=tuple(map(_relaxed_group, group.groups)),
    )


def _preferred(rules: tuple[TopologyRule, ...]) -> tuple[TopologyRule, ...]:
    return tuple(replace(rule, required=False) for rule in rules)
