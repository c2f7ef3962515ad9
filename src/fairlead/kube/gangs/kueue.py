"""Groups of plain pods that Kueue admits together.

Kueue keeps the pods back with a gate until all of them are admitted; the gang is placed then. With
topology-aware scheduling it decides the domain of each pod and lifts the gates one by one: there
is nothing to place together.
"""

from typing import ClassVar

from fairlead.kube.gangs.api import GangDefaults, PodWords
from fairlead.kube.gangs.limits import minimum_of, name_of, whole_number_of
from fairlead.kube.gangs.ranks import rank_in_labels
from fairlead.model.gangs import GangSpec, Membership

_PREFIX = "kueue.x-k8s.io/"
POD_GROUP, TOTAL = f"{_PREFIX}pod-group-name", f"{_PREFIX}pod-group-total-count"
#: Pods that are admitted before the others exist, or that come and go.
_LOOSE = (f"{_PREFIX}pod-group-fast-admission", f"{_PREFIX}pod-group-serving")
_BY_TOPOLOGY = (
    f"{_PREFIX}workload",
    f"{_PREFIX}podset-required-topology",
    f"{_PREFIX}podset-preferred-topology",
    f"{_PREFIX}podset-unconstrained-topology",
    f"{_PREFIX}podset-slice-required-topology",
)


class Kueue(GangDefaults):
    name: ClassVar[str] = "kueue"
    label_keys: ClassVar[tuple[str, ...]] = (POD_GROUP,)
    gives_way: ClassVar[bool] = True

    def membership(self, pod: PodWords) -> Membership | None:
        group, total = pod.labels.get(POD_GROUP), pod.annotations.get(TOTAL)
        if group is None or total is None or _is_loose(pod):
            return None
        key = f"{self.name}/{pod.namespace}/{name_of(POD_GROUP, group)}"
        spec = GangSpec(key, minimum_of(TOTAL, whole_number_of(TOTAL, total)))
        return Membership(key, rank=rank_in_labels(pod), spec=spec)


def _is_loose(pod: PodWords) -> bool:
    said = pod.annotations
    return any(said.get(key) == "true" for key in _LOOSE) or any(
        key in said for key in _BY_TOPOLOGY
    )
