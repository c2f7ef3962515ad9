"""PodGroups of KAI (scheduling.run.ai), which its podgrouper and Grove create.

The podgrouper names the gang of a pod after the pod was created, so pods under the scheduler names
that it serves wait for that. Subgroups form a tree by the name of their parent. Only the scheduling
conditions are written: the resources in the status, and the queues, are for KAI's controllers.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from fairlead.base.durations import seconds
from fairlead.kube.gangs.api import GangDefaults, GangKind, Json, PodWords, Standing
from fairlead.kube.gangs.limits import minimum_of, name_of
from fairlead.kube.gangs.ranks import rank_in_labels
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import (
    DEEPEST,
    MOST_GROUPS,
    GangSpec,
    GangState,
    GangStatus,
    Group,
    Membership,
    TopologyRule,
)

KAI = "kai"
POD_GROUP = "pod-group-name"
SUBGROUP = "kai.scheduler/subgroup-name"
#: On a pod that the podgrouper leaves alone.
SKIP = "kai.scheduler/skip-podgrouper"
#: The scheduler name that KAI's users write.
GROUPED = ("kai-scheduler",)
UNGROUPED = (
    "waiting for KAI's podgrouper to add the annotation pod-group-name; without it, remove the "
    "scheduler name of the pod from gangs.grouped in the configuration"
)
#: As KAI's scheduler does unless it is started with another.
STALE_AFTER_S = 60.0
_CONDITION = "UnschedulableOnNodePool"
_NODE_POOL = "default"


class _Topology(msgspec.Struct, rename="camel", gc=False):
    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


#: What is longer evicts nothing.
LONGEST_DELAY_S = 366 * 86_400.0


class _SubGroup(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology_constraint: _Topology | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    min_member: int | None = None
    min_sub_group: int | None = None
    queue: str = ""
    topology_constraint: _Topology | None = None
    sub_groups: list[_SubGroup] | None = None
    staleness_grace_period: str | None = None
    preemption_delay: str | None = None


_specs = msgspec.json.Decoder(_Spec)


class KaiGangs(GangDefaults):
    def __init__(self, grouped: Iterable[str] = GROUPED) -> None:
        self.grouped = tuple(grouped)

    name: ClassVar[str] = KAI
    annotation_keys: ClassVar[tuple[str, ...]] = (POD_GROUP,)
    kind: ClassVar[GangKind | None] = GangKind(
        "scheduling.run.ai",
        ("v2alpha2",),
        "podgroups",
        "PodGroup",
        "install the CustomResourceDefinitions of KAI",
    )

    def membership(self, pod: PodWords) -> Membership | None:
        if POD_GROUP not in pod.annotations:
            return _ungrouped(pod) if pod.scheduler in self.grouped else None
        name = name_of(POD_GROUP, pod.annotations[POD_GROUP])
        return Membership(
            f"{self.name}/{pod.namespace}/{name}",
            group=pod.labels.get(SUBGROUP, ""),
            rank=rank_in_labels(pod),
        )

    def spec(self, key: str, spec: bytes) -> GangSpec:
        wire = _specs.decode(spec)
        groups = _tree(wire.sub_groups or [])
        least = wire.min_sub_group
        return GangSpec(
            key,
            max(1, minimum_of("spec.minMember", wire.min_member or 0, least=0)),
            groups=groups,
            least_groups=None if least is None else _within("spec.minSubGroup", least, groups),
            topology=_rules(wire.topology_constraint),
            stale_after_s=_stale_after_s(wire.staleness_grace_period),
            eviction_delay_s=_eviction_delay_s(wire.preemption_delay),
            queue=f"{self.name}/{wire.queue}" if wire.queue else "",
        )

    def status(self, standing: Standing, status: GangStatus, now: str) -> Json | None:
        """Why no pod has a node; nothing once pods have nodes, as KAI's scheduler writes it."""
        found = standing.status.get("schedulingConditions")
        conditions = found if isinstance(found, list) else []
        before: Json = next((each for each in conditions if _is_ours(each)), {})
        wanted = _condition(status, before, now)
        if wanted == before:
            return None
        others = [each for each in conditions if not _is_ours(each)]
        return {"status": {"schedulingConditions": [*others, wanted] if wanted else others}}


def _ungrouped(pod: PodWords) -> Membership | None:
    if pod.annotations.get(SKIP) == "true":
        return None
    key = f"{KaiGangs.name}/{pod.namespace}/"
    return Membership(key, spec=GangSpec(key, 1, problem=UNGROUPED))


def _tree(found: list[_SubGroup]) -> tuple[Group, ...]:
    if len(found) > MOST_GROUPS:
        raise FairleadError(f"it has {len(found)} subgroups; the limit is {MOST_GROUPS}")
    inner: dict[str, list[_SubGroup]] = defaultdict(list)
    names = {name_of("spec.subGroups.name", each.name) for each in found}
    for each in found:
        inner[each.parent or ""].append(each)
        if each.parent and each.parent not in names:
            raise FairleadError(
                f"the subgroup {each.name[:64]!r} has the parent {each.parent[:64]!r}, which is "
                "not among spec.subGroups; add it"
            )
    groups = tuple(_group(each, inner, 1) for each in inner[""])
    if _count(groups) < len(found):
        raise FairleadError("some of its subgroups are parents of each other; break that circle")
    return groups


def _group(wire: _SubGroup, inner: dict[str, list[_SubGroup]], depth: int) -> Group:
    if depth > DEEPEST:
        raise FairleadError(f"its subgroups are nested {depth} deep; the limit is {DEEPEST}")
    groups = tuple(_group(each, inner, depth + 1) for each in inner.get(wire.name, ()))
    field = f"spec.subGroups[{wire.name[:64]}]"
    if not groups:
        minimum = minimum_of(f"{field}.minMember", wire.min_member or 0, least=0)
    elif wire.min_sub_group is None:
        minimum = len(groups)
    else:
        minimum = _within(f"{field}.minSubGroup", wire.min_sub_group, groups)
    return Group(wire.name, minimum, groups, topology=_rules(wire.topology_constraint))


def _within(field: str, least: int, groups: tuple[Group, ...]) -> int:
    if minimum_of(field, least, least=0) > len(groups):
        raise FairleadError(f"{field} is {least}, but there are {len(groups)} subgroups")
    return least


def _count(groups: tuple[Group, ...]) -> int:
    return sum(1 + _count(group.groups) for group in groups)


def _rules(topology: _Topology | None) -> tuple[TopologyRule, ...]:
    if topology is None:
        return ()
    levels = (topology.required_topology_level, True), (topology.preferred_topology_level, False)
    named = f"{KAI}/{topology.topology}" if topology.topology else ""
    return tuple(
        TopologyRule(level, required=required, topology=named)
        for level, required in levels
        if level
    )


def _stale_after_s(text: str | None) -> float | None:
    if text is None:
        return STALE_AFTER_S
    found = seconds(text[:32])
    if found is None:
        raise FairleadError(
            f"spec.stalenessGracePeriod is {text[:32]!r}; write a duration such as 60s"
        )
    return None if found < 0 else found


def _eviction_delay_s(text: str | None) -> float:
    found = seconds(text[:32]) if text else 0.0
    if found is None or found < 0:
        raise FairleadError(
            f"spec.preemptionDelay is {str(text)[:32]!r}; write a duration such as 5m"
        )
    return min(found, LONGEST_DELAY_S)


def _condition(status: GangStatus, before: Json, now: str) -> Json:
    if status.with_node or status.state not in (GangState.UNSCHEDULABLE, GangState.INVALID):
        return {}
    same = before.get("status") == "True"
    number = str(before.get("transitionID", ""))
    return {
        "type": _CONDITION,
        "nodePool": _NODE_POOL,
        "reason": "Unschedulable",
        "message": status.message,
        "transitionID": number if same and number else "1",
        "lastTransitionTime": before.get("lastTransitionTime", now) if same else now,
        "status": "True",
    }


def _is_ours(condition: Any) -> bool:
    return (
        isinstance(condition, dict)
        and condition.get("type") == _CONDITION
        and condition.get("nodePool", _NODE_POOL) == _NODE_POOL
    )
