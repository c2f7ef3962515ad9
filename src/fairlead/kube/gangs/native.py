"""PodGroups of Kubernetes itself: scheduling.k8s.io, v1alpha2 in 1.36 and v1beta1 in 1.37.

A pod names its group in `spec.schedulingGroup`. An API server whose feature gate GenericWorkload
is off drops that field, and the pod is an ordinary one.
"""

from typing import ClassVar

import msgspec

from fairlead.kube.gangs.api import GangDefaults, GangKind, Json, PodWords, Standing
from fairlead.kube.gangs.conditions import Condition, with_condition
from fairlead.kube.gangs.limits import minimum_of, name_of
from fairlead.kube.gangs.ranks import rank_in_labels
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import (
    GangSpec,
    GangState,
    GangStatus,
    GroupClaim,
    GroupClaims,
    Membership,
    TopologyRule,
)

#: 1.37 renamed the condition.
_CONDITIONS = {"v1alpha2": "PodGroupScheduled"}
_CONDITION = "PodGroupInitiallyScheduled"
#: The forms of 1.36 and 1.37.
_WHOLE = ("PodGroup", "all")
#: The name of the dialect of CompositePodGroups.
COMPOSITE = "composite"


class _Gang(msgspec.Struct, rename="camel", gc=False):
    min_count: int | None = None


class _Policy(msgspec.Struct, rename="camel", gc=False):
    gang: _Gang | None = None


class _Topology(msgspec.Struct, gc=False):
    key: str = ""


class _Constraints(msgspec.Struct, gc=False):
    topology: list[_Topology] | None = None


class GroupSpec(msgspec.Struct, rename="camel", gc=False):
    """What PodGroups and CompositePodGroups have in common."""

    scheduling_constraints: _Constraints | None = None
    disruption_mode: str | dict[str, msgspec.Raw] | None = None
    priority: int | None = None
    preemption_policy: str = ""
    parent_composite_pod_group_name: str = ""

    def topology(self) -> tuple[TopologyRule, ...]:
        rules = (self.scheduling_constraints or _Constraints()).topology or ()
        if any(not rule.key for rule in rules):
            raise FairleadError(
                "spec.schedulingConstraints.topology has an empty key; write a node label"
            )
        return tuple(TopologyRule(rule.key) for rule in rules)

    def evicted_whole(self) -> bool:
        mode = self.disruption_mode
        modes = (mode,) if isinstance(mode, str) else tuple(mode or ())
        return any(mode in _WHOLE for mode in modes)

    def preempts(self) -> bool:
        return self.preemption_policy != "Never"

    def part_of(self, key: str) -> str:
        """The key of its CompositePodGroup, given its own; empty if it is not part of one."""
        parent = self.parent_composite_pod_group_name
        return f"{COMPOSITE}/{key.split('/')[1]}/{parent}" if parent else ""


class _ClaimEntry(msgspec.Struct, rename="camel", gc=False):
    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class _Spec(GroupSpec, rename="camel", gc=False):
    scheduling_policy: _Policy | None = None
    resource_claims: list[_ClaimEntry] | None = None

    def claims(self) -> GroupClaims | None:
        """The reader of the object adds its uid."""
        found = (
            GroupClaim(each.name, each.resource_claim_name, each.resource_claim_template_name)
            for each in self.resource_claims or ()
        )
        return GroupClaims("", tuple(found)) if self.resource_claims else None


_specs = msgspec.json.Decoder(_Spec)


class Native(GangDefaults):
    name: ClassVar[str] = "native"
    kind: ClassVar[GangKind | None] = GangKind(
        "scheduling.k8s.io",
        ("v1beta1", "v1alpha3", "v1alpha2"),
        "podgroups",
        "PodGroup",
        "start kube-apiserver with the feature gate GenericWorkload and with "
        "--runtime-config=scheduling.k8s.io/v1beta1=true (v1alpha2 in 1.36)",
        is_built_in=True,
    )

    def membership(self, pod: PodWords) -> Membership | None:
        if pod.scheduling_group is None:
            return None
        name = name_of("spec.schedulingGroup.podGroupName", pod.scheduling_group)
        return Membership(f"{self.name}/{pod.namespace}/{name}", rank=rank_in_labels(pod))

    def spec(self, key: str, spec: bytes) -> GangSpec:
        wire = _specs.decode(spec)
        gang = (wire.scheduling_policy or _Policy()).gang
        field = "spec.schedulingPolicy.gang.minCount"
        return GangSpec(
            key,
            # A group of the policy "basic" needs no number of pods.
            minimum=minimum_of(field, gang.min_count) if gang else 1,
            priority=wire.priority,
            topology=wire.topology(),
            part_of=wire.part_of(key),
            evicted_whole=wire.evicted_whole(),
            preempts=wire.preempts(),
            claims=wire.claims(),
        )

    def status(self, standing: Standing, status: GangStatus, now: str) -> Json | None:
        """As kube-scheduler writes it; True stays, whatever becomes of the group later."""
        match status.state:
            case GangState.SCHEDULED:
                wanted = ("True", "Scheduled", "")
            case GangState.UNSCHEDULABLE:
                wanted = ("False", "Unschedulable", status.message)
            case GangState.INVALID:
                wanted = ("False", "SchedulerError", status.message)
            case _:
                return None
        name = _CONDITIONS.get(standing.api_version, _CONDITION)
        condition = Condition(name, *wanted, standing.generation)
        return with_condition(standing.status, condition, now, true_stays=True)
