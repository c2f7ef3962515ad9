"""PodGroups of scheduler-plugins (scheduling.x-k8s.io), which its coscheduling plugin reads.

Kubeflow's Trainer, the MPI operator, KubeRay and users create them. The status is written by the
controller that comes with the plugins, never by the scheduler.
"""

from typing import ClassVar

import msgspec

from fairlead.kube.gangs.api import GangDefaults, GangKind, PodWords
from fairlead.kube.gangs.limits import amounts_of, minimum_of, name_of
from fairlead.kube.gangs.ranks import rank_in_labels
from fairlead.model.gangs import LONGEST_PART_S, GangSpec, Membership

POD_GROUP = "scheduling.x-k8s.io/pod-group"


class PodGroupSpec(msgspec.Struct, rename="camel", gc=False):
    """Also that of Koordinator."""

    min_member: int | None = None
    min_resources: dict[str, str | int] | None = None
    schedule_timeout_seconds: int | None = None


_specs = msgspec.json.Decoder(PodGroupSpec)


def read_spec(key: str, spec: bytes) -> GangSpec:
    wire = _specs.decode(spec)
    timeout_s = wire.schedule_timeout_seconds or 0
    return GangSpec(
        key,
        minimum=minimum_of("spec.minMember", wire.min_member),
        least_resources=amounts_of("spec.minResources", wire.min_resources or {}),
        longest_part_s=float(timeout_s) if timeout_s > 0 else LONGEST_PART_S,
    )


class Coscheduling(GangDefaults):
    name: ClassVar[str] = "scheduler-plugins"
    label_keys: ClassVar[tuple[str, ...]] = (POD_GROUP,)
    kind: ClassVar[GangKind | None] = GangKind(
        "scheduling.x-k8s.io",
        ("v1alpha1",),
        "podgroups",
        "PodGroup",
        "install the CustomResourceDefinitions of scheduler-plugins",
    )

    def membership(self, pod: PodWords) -> Membership | None:
        name = pod.labels.get(POD_GROUP)
        if name is None:
            return None
        key = f"{self.name}/{pod.namespace}/{name_of(POD_GROUP, name)}"
        return Membership(key, rank=rank_in_labels(pod))

    def spec(self, key: str, spec: bytes) -> GangSpec:
        return read_spec(key, spec)
