"""Gangs of Koordinator: PodGroups of scheduling.sigs.k8s.io, or annotations of the pods alone."""

from dataclasses import replace
from typing import ClassVar

import msgspec

from fairlead.base.durations import length_s
from fairlead.kube.gangs.api import GangDefaults, GangKind, Json, PodWords, Standing
from fairlead.kube.gangs.coscheduling import read_spec
from fairlead.kube.gangs.limits import minimum_of, name_of, whole_number_of
from fairlead.kube.gangs.ranks import rank_in_labels
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import (
    LONGEST_PART_S,
    Counting,
    GangSpec,
    GangState,
    GangStatus,
    Membership,
)

#: The label that names a PodGroup, and the older pair of labels that needs none.
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
LIGHT_NAME, LIGHT_MINIMUM = f"{POD_GROUP}/name", f"{POD_GROUP}/min-available"
_PREFIX = "gang.scheduling.koordinator.sh/"
NAME, MINIMUM = f"{_PREFIX}name", f"{_PREFIX}min-available"
_GROUPS, _WAIT, _POLICY = f"{_PREFIX}groups", f"{_PREFIX}waiting-time", f"{_PREFIX}match-policy"
_COUNTING = {
    "once-satisfied": Counting.ONCE,
    "only-waiting": Counting.ALIVE,
    "waiting-and-running": Counting.ALIVE,
}
_PHASES = {GangState.UNSCHEDULABLE: "Scheduling", GangState.SCHEDULED: "Scheduled"}

_names = msgspec.json.Decoder(list[str])


class Koordinator(GangDefaults):
    name: ClassVar[str] = "koordinator"
    label_keys: ClassVar[tuple[str, ...]] = (POD_GROUP, LIGHT_NAME)
    annotation_keys: ClassVar[tuple[str, ...]] = (NAME,)
    kind: ClassVar[GangKind | None] = GangKind(
        "scheduling.sigs.k8s.io",
        ("v1alpha1",),
        "podgroups",
        "PodGroup",
        "install the CustomResourceDefinitions of Koordinator",
    )

    def membership(self, pod: PodWords) -> Membership | None:
        if POD_GROUP in pod.labels:
            key = self._key(pod, POD_GROUP, pod.labels[POD_GROUP])
            return Membership(key, rank=rank_in_labels(pod))
        if NAME in pod.annotations:
            key = self._key(pod, NAME, pod.annotations[NAME])
            spec = _of_annotations(key, pod)
            return Membership(key, rank=rank_in_labels(pod), spec=spec)
        if LIGHT_NAME in pod.labels:
            key = self._key(pod, LIGHT_NAME, pod.labels[LIGHT_NAME])
            least = _least(LIGHT_MINIMUM, pod.labels.get(LIGHT_MINIMUM))
            spec = GangSpec(key, least, counting=Counting.ONCE)
            return Membership(key, rank=rank_in_labels(pod), spec=spec)
        return None

    def spec(self, key: str, spec: bytes) -> GangSpec:
        return replace(read_spec(key, spec), counting=Counting.ONCE)

    def status(self, standing: Standing, status: GangStatus, now: str) -> Json | None:
        wanted = {
            "phase": _PHASES.get(status.state, "Pending"),
            "scheduled": status.with_node + status.finished,
        }
        changed = {name: said for name, said in wanted.items() if standing.status.get(name) != said}
        return {"status": changed} if changed else None

    def _key(self, pod: PodWords, field: str, name: str) -> str:
        return f"{self.name}/{pod.namespace}/{name_of(field, name)}"


def _of_annotations(key: str, pod: PodWords) -> GangSpec:
    said = pod.annotations
    _refuse_groups(said.get(_GROUPS), key)
    policy = said.get(_POLICY, "once-satisfied")
    if policy not in _COUNTING:
        known = ", ".join(_COUNTING)
        raise FairleadError(f"{_POLICY} is {policy[:32]!r}; write one of {known}")
    return GangSpec(
        key,
        _least(MINIMUM, said.get(MINIMUM)),
        counting=_COUNTING[policy],
        longest_part_s=(length_s(said[_WAIT]) if said.get(_WAIT) else 0.0) or LONGEST_PART_S,
    )


def _least(field: str, text: str | None) -> int:
    return minimum_of(field, None if text is None else whole_number_of(field, text))


def _refuse_groups(text: str | None, key: str) -> None:
    """Gangs that wait for each other, perhaps those of another tenant, are not supported."""
    if not text:
        return
    try:
        others = set(_names.decode(text)) - {key.partition("/")[2]}
    except (msgspec.DecodeError, ValueError) as error:
        raise FairleadError(f"{_GROUPS} cannot be read: {error}") from error
    if others:
        raise FairleadError(
            f"{_GROUPS} names other gangs, and gangs that wait for each other are not supported; "
            "make them one gang"
        )
