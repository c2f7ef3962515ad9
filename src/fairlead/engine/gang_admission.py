"""Gangs without pods: whether there is room for them, so that their controller creates the pods.

Nothing is held for a gang that is admitted. Its pods are placed whole or not at all once they are
there, so admitting one too many costs objects, not GPUs.
"""

from collections.abc import Collection

import numpy as np

from fairlead.cluster.changes import NEVER
from fairlead.cluster.cluster import Cluster
from fairlead.model.gangs import GangSpec, GangState, GangStatus
from fairlead.model.quantities import shown

#: How often gangs that were not admitted are looked at again, if anything has changed.
EVERY_S = 1.0


class GangAdmissions:
    def __init__(self, cluster: Cluster, schedulers: Collection[str]) -> None:
        self._cluster = cluster
        self._schedulers = schedulers
        self._admitted: set[str] = set()
        #: Those without room, and what they lacked when that was found out.
        self._waiting: dict[str, tuple[GangSpec, str]] = {}
        self._due_s = 0.0
        self._mark = NEVER

    def concerns(self, spec: GangSpec) -> bool:
        """Whether it is for us to admit this gang."""
        return spec.admitted_by in self._schedulers

    def forget(self, key: str) -> None:
        self._admitted.discard(key)
        self._waiting.pop(key, None)

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
        if self._cluster.changes.mark == self._mark:
            return []
        self._mark = self._cluster.changes.mark
        free: dict[str, int] = {}
        found = [
            key
            for key, (spec, _) in self._waiting.items()
            if not shortage(self._cluster, spec, free)
        ]
        for key in found:
            del self._waiting[key]
        self._admitted.update(found)
        return found

    def _lack(self, spec: GangSpec) -> str:
        if spec.key in self._admitted or not self.concerns(spec):
            return ""
        known, lack = self._waiting.get(spec.key, (None, ""))
        if known != spec:
            lack = shortage(self._cluster, spec, {})
            self._waiting.pop(spec.key, None)
            if lack:
                self._waiting[spec.key] = spec, lack
            else:
                self._admitted.add(spec.key)
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
