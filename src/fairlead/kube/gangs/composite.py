"""CompositePodGroups of Kubernetes 1.37: groups of PodGroups, and of each other.

No pod names one. A PodGroup names the one that it is part of, and the whole tree is placed as one
gang: its leaves are PodGroups. As in kube-scheduler, conditions are written on these alone.
"""

from typing import ClassVar

import msgspec

from fairlead.kube.gangs.api import GangDefaults, GangKind, PodWords
from fairlead.kube.gangs.limits import minimum_of
from fairlead.kube.gangs.native import COMPOSITE, GroupSpec
from fairlead.model.gangs import GangSpec, Membership


class _Gang(msgspec.Struct, rename="camel", gc=False):
    min_group_count: int | None = None


class _Policy(msgspec.Struct, rename="camel", gc=False):
    gang: _Gang | None = None


class _Spec(GroupSpec, rename="camel", gc=False):
    scheduling_policy: _Policy | None = None


_specs = msgspec.json.Decoder(_Spec)


class Composite(GangDefaults):
    name: ClassVar[str] = COMPOSITE
    kind: ClassVar[GangKind | None] = GangKind(
        "scheduling.k8s.io",
        ("v1alpha3",),
        "compositepodgroups",
        "CompositePodGroup",
        "start kube-apiserver with the feature gate CompositePodGroup and with "
        "--runtime-config=scheduling.k8s.io/v1alpha3=true",
        is_built_in=True,
    )

    def membership(self, pod: PodWords) -> Membership | None:
        return None

    def spec(self, key: str, spec: bytes) -> GangSpec:
        wire = _specs.decode(spec)
        gang = (wire.scheduling_policy or _Policy()).gang
        field = "spec.schedulingPolicy.gang.minGroupCount"
        return GangSpec(
            key,
            minimum=1,
            priority=wire.priority,
            # One of the policy "basic" needs one group with a pod.
            least_groups=minimum_of(field, gang.min_group_count) if gang else 1,
            topology=wire.topology(),
            part_of=wire.part_of(key),
            evicted_whole=wire.evicted_whole(),
            preempts=wire.preempts(),
        )
