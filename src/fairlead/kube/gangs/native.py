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
    Counting,
    GangSpec,
    GangState,
    GangStatus,
    Membership,
    TopologyRule,
)

#: 1.37 renamed the condition.
_CONDITIONS = {"v1alpha2": "PodGroupScheduled"}
_CONDITION = "PodGroupInitiallyScheduled"
#: The forms of 1.36 and 1.37.
_WHOLE = ("PodGroup", "all")


class _Gang(msgspec.Struct, rename="camel", gc=False):
    min_count: int | None = None


class _Policy(msgspec.Struct, rename="camel", gc=False):
    gang: _Gang | None = None


class _Topology(msgspec.Struct, gc=False):
    key: str = ""


class _Constraints(msgspec.Struct, gc=False):
    topology: list[_Topology] | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    scheduling_policy: _Policy | None = None
    scheduling_constraints: _Constraints | None = None
    disruption_mode: str | dict[str, msgspec.Raw] | None = None
    priority: int | None = None
    parent_composite_pod_group_name: str = ""


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
        if wire.parent_composite_pod_group_name:
            raise FairleadError(
                "it is part of a CompositePodGroup, which Fairlead does not support yet; remove "
                "spec.parentCompositePodGroupName"
            )
        gang = (wire.scheduling_policy or _Policy()).gang
        field = "spec.schedulingPolicy.gang.minCount"
        return GangSpec(
            key,
            # A group of the policy "basic" needs no number of pods.
            minimum=minimum_of(field, gang.min_count) if gang else 1,
            priority=wire.priority,
            topology=_topology(wire.scheduling_constraints or _Constraints()),
            counting=Counting.ALIVE,
            evicted_whole=any(mode in _WHOLE for mode in _modes(wire.disruption_mode)),
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


def _topology(constraints: _Constraints) -> tuple[TopologyRule, ...]:
    rules = constraints.topology or ()
    if any(not rule.key for rule in rules):
        raise FairleadError(
            "spec.schedulingConstraints.topology has an empty key; write a node label"
        )
    return tuple(TopologyRule(rule.key) for rule in rules)


def _modes(mode: str | dict[str, msgspec.Raw] | None) -> tuple[str, ...]:
    return (mode,) if isinstance(mode, str) else tuple(mode or ())
