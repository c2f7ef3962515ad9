"""Gangs in Fairlead's own words: labels or annotations of the pods, and no object.

They go into the pod template of a Job, an Indexed Job, a StatefulSet or any other controller, or
on plain pods. Controllers number the pods of an Indexed Job and of a StatefulSet by a label.

The template of a LeaderWorkerSet serves several groups, so it cannot name a gang. There each group
with a topology rule is a gang by itself, of all of its pods.
"""

from dataclasses import replace
from typing import ClassVar

from fairlead.kube.dialects.fairlead import PREFIX
from fairlead.kube.gangs.api import GangDefaults, PodWords
from fairlead.kube.gangs.limits import minimum_of, name_of, rank_of, whole_number_of
from fairlead.kube.gangs.topology_words import rules_of
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import GangSpec, Group, Membership
from fairlead.model.leader_groups import (
    EXCLUSIVE_TOPOLOGY,
    GROUP_INDEX,
    SET_NAME,
    WORKER_INDEX,
    group_size,
)
from fairlead.model.sizes import remembered

GANG = PREFIX + "gang"
MINIMUM = PREFIX + "gang-min"
MAXIMUM = PREFIX + "gang-max"
TOPOLOGY = PREFIX + "gang-topology"
KEYS = (GANG, MINIMUM, MAXIMUM)
#: Labels cannot have the characters of the last one.
ANNOTATION_KEYS = (*KEYS, TOPOLOGY)

_RANKS = (
    "batch.kubernetes.io/job-completion-index",
    WORKER_INDEX,
    "apps.kubernetes.io/pod-index",
)


class FairleadGangs(GangDefaults):
    name: ClassVar[str] = "fairlead"
    label_keys: ClassVar[tuple[str, ...]] = KEYS
    annotation_keys: ClassVar[tuple[str, ...]] = ANNOTATION_KEYS

    def membership(self, pod: PodWords) -> Membership | None:
        name, minimum, maximum = (_said(pod, key) for key in KEYS)
        topology = pod.annotations.get(TOPOLOGY)
        if name is None and topology is not None and SET_NAME in pod.labels:
            name, minimum = _leader_group(pod, minimum)
        if name is None:
            if minimum is None and maximum is None and topology is None:
                return None
            raise FairleadError(f"{GANG} is missing; write the name of the gang")
        key = f"{self.name}/{pod.namespace}/{name_of(GANG, name)}"
        spec = _spec(key, minimum, maximum, pod.priority, topology)
        return Membership(key, rank=_rank(pod), spec=spec)


def _leader_group(pod: PodWords, minimum: str | None) -> tuple[str, str]:
    """The name of the gang, and how many pods it needs."""
    if EXCLUSIVE_TOPOLOGY in pod.annotations:
        raise FairleadError(
            f"{TOPOLOGY} and {EXCLUSIVE_TOPOLOGY} exclude each other: with the latter, workers are "
            "created only when their leader has a node; remove one of them"
        )
    index, size = pod.labels.get(GROUP_INDEX, ""), group_size(pod.annotations)
    if not index or not size:
        raise FairleadError(f"{GANG} is missing; write the name of the gang")
    return f"{pod.labels[SET_NAME]}-{index}", minimum or str(size)


def _said(pod: PodWords, key: str) -> str | None:
    return pod.annotations.get(key, pod.labels.get(key))


def _rank(pod: PodWords) -> int | None:
    ranks = (rank_of(pod.labels.get(label)) for label in _RANKS)
    return next((rank for rank in ranks if rank is not None), None)


@remembered(4 << 20)
def _spec(
    key: str, minimum: str | None, maximum: str | None, priority: int, topology: str | None
) -> GangSpec:
    """The same for all pods of a gang that say the same."""
    least = minimum_of(MINIMUM, None if minimum is None else whole_number_of(MINIMUM, minimum))
    most = None if maximum is None else whole_number_of(MAXIMUM, maximum)
    if most is not None and most < least:
        raise FairleadError(f"{MAXIMUM} is {most}; write {least} or more, as {MINIMUM} says")
    spec = GangSpec(key, least, priority=priority, maximum=most)
    return spec if topology is None else _with_topology(spec, topology)


def _with_topology(spec: GangSpec, text: str) -> GangSpec:
    rules, size, of_sets = rules_of(TOPOLOGY, text)
    sets = Group("", spec.minimum, set_size=size, set_topology=of_sets)
    return replace(spec, topology=rules, groups=(sets,) if of_sets else ())
