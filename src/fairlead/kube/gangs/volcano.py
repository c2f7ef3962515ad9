"""PodGroups of Volcano (scheduling.volcano.sh).

The controllers of Volcano create them for their Jobs, LeaderWorkerSet, KubeRay, Spark, Kubeflow
and Grove for theirs. The scheduler writes the status, with the object itself: the kind has no
status subresource. The controller of Jobs creates pods only once the phase is Inqueue.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from fairlead.kube.gangs.api import GangDefaults, GangKind, Json, PodWords, Standing
from fairlead.kube.gangs.conditions import Condition, with_condition
from fairlead.kube.gangs.limits import amounts_of, minimum_of, name_of, rank_of
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import (
    GangSpec,
    GangState,
    GangStatus,
    Group,
    Membership,
    TopologyRule,
)
from fairlead.model.topology import TIER

#: The scheduler of Volcano reads the first; Grove writes both.
GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
TASK = "volcano.sh/task-spec"
#: How pods are told apart by the policies of subgroups: those of Volcano's Jobs, and Grove's.
_ROLES = (TASK, "grove.io/podclique")
_INDEX = "volcano.sh/task-index"
_QUOTAS = ("requests.", "limits.", "count/")
_HAS_RUN = ("Running", "Unknown", "Completed")
_READY = "tasks in gang are ready to be scheduled"


class _Topology(msgspec.Struct, rename="camel", gc=False):
    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class _Selector(msgspec.Struct, rename="camel", gc=False):
    match_labels: dict[str, str] | None = None


class _SubGroups(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    network_topology: _Topology | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: _Selector | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str = ""
    min_resources: dict[str, str | int] | None = None
    network_topology: _Topology | None = None
    sub_group_policy: list[_SubGroups] | None = None


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


_specs = msgspec.json.Decoder(_Spec)
_statuses = msgspec.json.Decoder(_Status | None)


class VolcanoGangs(GangDefaults):
    name: ClassVar[str] = "volcano"
    annotation_keys: ClassVar[tuple[str, ...]] = GROUP_NAMES
    kind: ClassVar[GangKind | None] = GangKind(
        "scheduling.volcano.sh",
        ("v1beta1",),
        "podgroups",
        "PodGroup",
        "install the CustomResourceDefinitions of Volcano",
        has_status_subresource=False,
    )

    def membership(self, pod: PodWords) -> Membership | None:
        found = next((key for key in GROUP_NAMES if key in pod.annotations), None)
        if found is None:
            return None
        name = name_of(found, pod.annotations[found])
        role = next(filter(None, _said(pod, *_ROLES)), "")
        return Membership(
            f"{self.name}/{pod.namespace}/{name}",
            group=role,
            rank=rank_of(next(filter(None, _said(pod, _INDEX)), None)),
        )

    def spec(self, key: str, spec: bytes) -> GangSpec:
        wire = _specs.decode(spec)
        minimum = max(1, minimum_of("spec.minMember", wire.min_member, least=0))
        return GangSpec(
            key,
            minimum,
            groups=_groups(wire, minimum),
            topology=_rules(wire.network_topology),
            least_resources=amounts_of("spec.minResources", _amounts(wire.min_resources or {})),
            admitted_by="volcano",
            queue=f"{self.name}/{wire.queue or 'default'}",
        )

    def has_run(self, status: bytes) -> bool:
        return _phase_in(status) in _HAS_RUN

    def status(self, standing: Standing, status: GangStatus, now: str) -> Json | None:
        """The phase as Volcano's scheduler would write it, its condition, and the counts."""
        before = standing.status
        wanted: Json = {
            "phase": _phase(str(before.get("phase") or ""), status),
            "running": status.with_node,
            "succeeded": status.finished,
            "failed": status.failed,
        }
        changed = {name: value for name, value in wanted.items() if before.get(name, 0) != value}
        for condition in _conditions(status, before):
            found = with_condition({**before, **changed}, condition, now)
            changed |= found["status"] if found else {}
        return {"status": changed} if changed else None


def _phase_in(status: bytes) -> str:
    """What another wrote there, and makes no sense, is no phase."""
    try:
        found = _statuses.decode(status) if status else None
    except UNREADABLE:
        return ""
    return found.phase if found else ""


def _said(pod: PodWords, *keys: str) -> Iterator[str]:
    """What the pod says of itself, by annotation or by label."""
    for key in keys:
        yield pod.annotations.get(key) or pod.labels.get(key) or ""


def _amounts(found: Mapping[str, str | int]) -> Mapping[str, str | int]:
    """Without the names of quotas, which the controllers of Volcano write beside the others."""
    return {name: text for name, text in found.items() if not name.startswith(_QUOTAS)}


def _groups(wire: _Spec, minimum: int) -> tuple[Group, ...]:
    tasks = {name: least for name, least in (wire.min_task_member or {}).items() if least > 0}
    policies = {_role(policy): policy for policy in wire.sub_group_policy or ()}
    # As in Volcano: a minimum below the sum leaves open which pods are the ones that start.
    if minimum < sum(tasks.values()):
        tasks = {}
    names = [*tasks, *(name for name in policies if name not in tasks)]
    return tuple(_group(name, tasks.get(name, 0), policies.get(name)) for name in names)


def _group(name: str, minimum: int, policy: _SubGroups | None) -> Group:
    if policy is None:
        return Group(name, minimum_of(f"spec.minTaskMember[{name[:64]}]", minimum))
    size = minimum_of("spec.subGroupPolicy.subGroupSize", _or(policy.sub_group_size, 1))
    least = minimum_of("spec.subGroupPolicy.minSubGroups", policy.min_sub_groups or 0, least=0)
    return Group(
        name,
        max(minimum, minimum_of("spec.subGroupPolicy", size * least, least=0)),
        set_size=size,
        set_topology=_rules(policy.network_topology),
    )


def _role(policy: _SubGroups) -> str:
    """By what the pods of the policy say which group is theirs."""
    labels = (policy.label_selector or _Selector()).match_labels or {}
    return next((labels[key] for key in _ROLES if labels.get(key)), "") or name_of(
        "spec.subGroupPolicy.name", policy.name
    )


def _rules(topology: _Topology | None) -> tuple[TopologyRule, ...]:
    if topology is None or not (topology.highest_tier_name or topology.highest_tier_allowed):
        return ()
    if topology.mode not in ("", "hard", "soft"):
        raise FairleadError(f"networkTopology.mode is {topology.mode[:32]!r}; write hard or soft")
    level = topology.highest_tier_name or f"{TIER}{topology.highest_tier_allowed}"
    return (TopologyRule(level, required=topology.mode != "soft"),)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _phase(before: str, status: GangStatus) -> str:
    match status.state:
        case GangState.SCHEDULED:
            return "Running" if status.with_node else "Completed"
        case GangState.GATHERING:
            # A controller that may create pods keeps that right, however many there are now.
            return "Inqueue" if status.members or before in ("", "Pending") else before
        case GangState.UNSCHEDULABLE if status.with_node:
            return "Unknown"
        case _:
            # Without pods it is not admitted, or not any more: its controller creates none.
            return "Inqueue" if before == "Inqueue" and status.members else "Pending"


def _conditions(status: GangStatus, before: Mapping[str, object]) -> Iterator[Condition]:
    match status.state:
        case GangState.SCHEDULED:
            if _is_unschedulable(before):
                yield Condition("Unschedulable", "False", "Scheduled", "")
            yield Condition("Scheduled", "True", _READY, "")
        case GangState.UNSCHEDULABLE | GangState.INVALID:
            yield Condition("Unschedulable", "True", "NotEnoughResources", _message(status))
        case _:
            return


def _is_unschedulable(before: Mapping[str, object]) -> bool:
    conditions = before.get("conditions")
    found = conditions if isinstance(conditions, list) else []
    return any(isinstance(each, dict) and each.get("type") == "Unschedulable" for each in found)


def _message(status: GangStatus) -> str:
    if status.state is GangState.INVALID or not status.members:
        return status.message
    short = max(0, status.needed - status.with_node - status.finished)
    return f"{short}/{status.members} tasks in gang unschedulable: {status.message}"
