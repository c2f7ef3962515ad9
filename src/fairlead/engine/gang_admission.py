"""Gangs without pods: whether there is room for them, so that their controller creates the pods.

Nothing is held for a gang that is admitted, unless its queue is charged from then on. Its pods are
placed whole or not at all once they are there, so admitting one too many costs objects, not GPUs.
An admission after which no pod comes is revoked. The gang is admitted again after a pause that gets
longer each time, so that it charges its queue for a small part of the time only.
"""

import itertools
import math
from collections.abc import Collection, Iterable
from typing import Protocol

import numpy as np

from fairlead.cluster.changes import NEVER
from fairlead.cluster.cluster import Cluster
from fairlead.model.gangs import GangSpec, GangState, GangStatus
from fairlead.model.quantities import shown
from fairlead.queue.quotas.admitted import LONGEST_S

#: How often gangs that were not admitted are looked at again, if anything has changed.
EVERY_S = 1.0
#: The longest time after which a gang is admitted again whose admission was revoked.
LONGEST_PAUSE_S = 3600.0

REVOKED = (
    "the admission of the gang was revoked because no pod was created for it in "
    f"{LONGEST_S / 60:g} minutes; its controller says why. It is admitted again later"
)


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
        #: Admitted gangs without pods, and since when; the first has waited longest.
        self._empty_since: dict[str, float] = {}
        #: Those whose admission was revoked: until when, and for how long.
        self._pauses: dict[str, tuple[float, float]] = {}
        #: Those without room, and what they lacked when that was found out.
        self._waiting: dict[str, tuple[GangSpec, str]] = {}
        self._due_s = 0.0
        self._mark = NEVER, 0
        self._pause_ends_s = math.inf

    def concerns(self, spec: GangSpec) -> bool:
        """Whether it is for us to admit this gang."""
        return spec.admitted_by in self._schedulers

    def forget(self, key: str) -> None:
        self._admitted.discard(key)
        self._empty_since.pop(key, None)
        self._pauses.pop(key, None)
        self._waiting.pop(key, None)
        self._quota.forget(key)

    def has_pods(self, key: str) -> None:
        """Its controller has created some: what it was admitted for has begun."""
        if self._empty_since:
            self._empty_since.pop(key, None)
        if self._pauses:
            self._pauses.pop(key, None)

    def status(self, spec: GangSpec, now: float) -> GangStatus | None:
        """Of a gang without pods. None: it is for others."""
        if spec.admitted_by and not self.concerns(spec):
            return None
        lack = self._lack(spec, now)
        state = GangState.UNSCHEDULABLE if lack else GangState.GATHERING
        return GangStatus(state, 0, spec.minimum, 0, 0, lack)

    def due_s(self) -> float | None:
        due = [self._due_s] if self._waiting else []
        due += [since + LONGEST_S for since in self._first_empty()]
        return min(due, default=None)

    def _first_empty(self) -> Iterable[float]:
        return itertools.islice(self._empty_since.values(), 1)

    def revoked(self, now: float) -> list[str]:
        """Gangs whose admission has ended just now, because they have no pods."""
        found = []
        for key, since in self._empty_since.items():
            if since + LONGEST_S > now:
                break
            found.append(key)
        for key in found:
            self._revoke(key, now)
        return found

    def _revoke(self, key: str, now: float) -> None:
        del self._empty_since[key]
        self._admitted.discard(key)
        self._quota.forget(key)
        _, before = self._pauses.get(key, (0.0, LONGEST_S / 2))
        pause_s = min(2 * before, LONGEST_PAUSE_S)
        self._pauses[key] = now + pause_s, pause_s

    def admitted(self, now: float) -> list[str]:
        """Gangs for which there is room now."""
        if now < self._due_s or not self._waiting:
            return []
        self._due_s = now + EVERY_S
        mark = self._cluster.changes.mark, self._quota.version
        if mark == self._mark and now < self._pause_ends_s:
            return []
        self._mark = mark
        free: dict[str, int] = {}
        found = []
        for key, (spec, _) in list(self._waiting.items()):
            if self._is_paused(key, now):
                continue
            if not shortage(self._cluster, spec, free) and not self._quota.beyond_quota(spec):
                self._admit(spec, now)
                found.append(key)
        ends = (until for key, (until, _) in self._pauses.items() if key in self._waiting)
        self._pause_ends_s = min((until for until in ends if until > now), default=math.inf)
        return found

    def _is_paused(self, key: str, now: float) -> bool:
        return now < self._pauses.get(key, (0.0, 0.0))[0]

    def _admit(self, spec: GangSpec, now: float) -> None:
        self._waiting.pop(spec.key, None)
        self._admitted.add(spec.key)
        self._empty_since[spec.key] = now
        self._quota.admitted(spec)

    def _lack(self, spec: GangSpec, now: float) -> str:
        if spec.has_run or not self.concerns(spec):
            return ""
        if spec.key in self._admitted:
            self._empty_since.setdefault(spec.key, now)
            return ""
        if self._is_paused(spec.key, now):
            self._pause_ends_s = min(self._pause_ends_s, self._pauses[spec.key][0])
            self._waiting[spec.key] = spec, REVOKED
            return REVOKED
        known, lack = self._waiting.get(spec.key, (None, ""))
        if known != spec:
            lack = shortage(self._cluster, spec, {}) or self._quota.beyond_quota(spec)
            if lack:
                self._waiting[spec.key] = spec, lack
            else:
                self._admit(spec, now)
        return lack


def shortage(cluster: Cluster, spec: GangSpec, free: dict[str, int]) -> str:
    """What it needs more of than is free on all nodes together; `free` is a memory of sums."""
    for name, needed in spec.least_resources:
        if cluster.claims.classes and cluster.claims.extended.class_of(name):
            continue  # devices of a class may stand in for it
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
