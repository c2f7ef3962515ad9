"""Gangs without pods: whether there is room for them, so that their controller creates the pods.

Nothing is held for a gang that is admitted, unless its queue is charged from then on. Its pods are
placed whole or not at all once they are there, so admitting one too many costs objects, not GPUs.
"""

from collections.abc import Collection
from typing import Protocol

import numpy as np

from fairlead.cluster.changes import NEVER
from fairlead.cluster.cluster import Cluster
from fairlead.model.gangs import GangSpec, GangState, GangStatus
from fairlead.model.quantities import shown

#: How often gangs that were not admitted are looked at again, if anything has changed.
EVERY_S = 1.0


class AdmissionQuota(Protocol):
    """What queues of teams say of a gang without pods."""

    def beyond_quota(self, spec: GangSpec) -> str:
        """Why it is not admitted; empty if it may be."""
        ...

    def admitted(self, spec: GangSpec) -> None: ...

    def forget(self, gang: str) -> None:
        """It is not there any more."""
        ...

    @property
    def version(self) -> int:
        """Grows when the answer may be another one."""
        ...


class GangAdmissions:
    def __init__(
        self, cluster: Cluster, schedulers: Collection[str], quota: AdmissionQuota
    ) -> None:
        self._cluster = cluster
        self._quota = quota
        self._schedulers = schedulers
        self._admitted: set[str] = set()
        #: Those without room, and what they lacked when that was found out.
        self._waiting: dict[str, tuple[GangSpec, str]] = {}
        self._due_s = 0.0
        self._mark = NEVER, 0

    def concerns(self, spec: GangSpec) -> bool:
        """Whether it is for us to admit this gang."""
        return spec.admitted_by in self._schedulers

    def forget(self, key: str) -> None:
        self._admitted.discard(key)
        self._waiting.pop(key, None)
        self._quota.forget(key)

    def status(self, spec: GangSpec) -> GangStatus | None:
        """Of a gang without pods; a gang that is admitted stays so. None: it is for others."""
        if spec.admitted_by and not self.concerns(spec):
            return None
        lack = self._lack(spec)
        state = GangState.UNSCHEDULABLE if lack else GangState.GATHERING
        return GangStatus(state, 0, spec.minimum, 0, 0, lack)

    def due_s(self) -> float | None:
        return self._due_s if self._waiting else None

    def admitted(self, now: float) -> list[str]:
        """Gangs for which there is room now."""
        if now < self._due_s or not self._waiting:
            return []
        self._due_s = now + EVERY_S
        mark = self._cluster.changes.mark, self._quota.version
        if mark == self._mark:
            return []
        self._mark = mark
        free: dict[str, int] = {}
        found = []
        for key, (spec, _) in list(self._waiting.items()):
            if not shortage(self._cluster, spec, free) and not self._quota.beyond_quota(spec):
                self._admit(spec)
                found.append(key)
        return found

    def _admit(self, spec: GangSpec) -> None:
        self._waiting.pop(spec.key, None)
        self._admitted.add(spec.key)
        self._quota.admitted(spec)

    def _lack(self, spec: GangSpec) -> str:
        if spec.key in self._admitted or not self.concerns(spec):
            return ""
        known, lack = self._waiting.get(spec.key, (None, ""))
        if known != spec:
            lack = shortage(self._cluster, spec, {}) or self._quota.beyond_quota(spec)
            if lack:
                self._waiting[spec.key] = spec, lack
            else:
                self._admit(spec)
        return lack


def shortage(cluster: Cluster, spec: GangSpec, free: dict[str, int]) -> str:
    """What it needs more of than is free on all nodes together; `free` is a memory of sums."""
    for name, needed in spec.least_resources:
        if name not in free:
            free[name] = _free(cluster, name)
        if needed > free[name]:
            return (
                f"the gang needs {shown(name, needed)} of {name}, "
                f"and {shown(name, free[name])} is free"
            )
    return ""


def _free(cluster: Cluster, resource: str) -> int:
    nodes = cluster.nodes
    return int(np.maximum(nodes.free(resource), 0)[~nodes.cordoned()].sum())
