"""The pod side of the simulated kubelets: every bound pod's way from Pending to its end."""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from fairlead.base.durations import DurationError, length_s
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.quantities import amount
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.clock import now_text, seconds_since
from fairlead.sim.apiserver.store import Change, StoredObject
from fairlead.sim.kubelets import pods as statuses
from fairlead.sim.kubelets.agenda import Agenda, Key, Step
from fairlead.sim.kubelets.claims import (
    NotPrepared,
    PreparedDevices,
    extended_resources,
    has_claims,
)
from fairlead.sim.kubelets.gpus import lot
from fairlead.sim.kubelets.hosts import Host, Hosts

log = logging.getLogger(__name__)
Object = dict[str, Any]

RUN_FOR = "fairlead.dev/run-for"
#: UUIDs that the scheduler chose; without it the lowest free GPUs are taken.
CHOSEN_GPUS = "fairlead.dev/gpus"
_REMOVAL_S = 0.3
#: Until a pod whose claims could not be prepared is started again.
_PREPARE_AGAIN_S = 1.0
_LEAST_START_S, _MOST_START_S = 0.3, 1.0


class _Metadata(msgspec.Struct, rename="camel"):
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    start_time: str | None = None


class _Glance(msgspec.Struct):
    """The little of a pod that says what its kubelet has to do."""

    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_glances = msgspec.json.Decoder(_Glance)


@dataclass(slots=True)
class PodCounts:
    """What became of pods so far."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    removed: int = 0


class PodWork:
    """Plans and performs. `speed` shortens everything that a pod takes."""

    def __init__(
        self,
        api: ApiState,
        agenda: Agenda[Key, Step],
        hosts: Hosts,
        speed: float,
        clock: Callable[[], float],
    ) -> None:
        self.counts = PodCounts()
        self._api, self._agenda, self._hosts = api, agenda, hosts
        self._speed, self._clock = speed, clock
        self._pods = api.kinds.plural("pods")
        self._addresses = 0
        self.prepared = PreparedDevices(api)

    # -- planning ----------------------------------------------------------------------------

    def on_change(self, change: Change) -> None:
        """Plans only: a write is still in progress."""
        entry = change.entry
        host = self._hosts.get(entry.fields["spec.nodeName"])
        if host is None:
            return
        if change.type == "DELETED":
            self._end(host, entry.key)
        else:
            self._plan(host, entry)

    def go_on(self, key: str) -> None:
        """The node is back: plans again what had to wait."""
        entry = self._api.store.get("pods", key)
        host = self._hosts.get(entry.fields["spec.nodeName"]) if entry else None
        if entry is not None and host is not None:
            self._plan(host, entry)

    def _plan(self, host: Host, entry: StoredObject) -> None:
        pod, phase = _glances.decode(entry.raw), entry.fields["status.phase"]
        if pod.metadata.deletion_timestamp:
            self._appoint(entry.key, Step.REMOVE, _REMOVAL_S)
        elif phase == "Pending":
            spread = (_MOST_START_S - _LEAST_START_S) * lot(entry.key, "start")
            self._appoint(entry.key, Step.START, _LEAST_START_S + spread)
        elif phase == "Running":
            self._plan_finish(host, entry, pod)
        else:
            self._end(host, entry.key)

    def _plan_finish(self, host: Host, entry: StoredObject, pod: _Glance) -> None:
        if not host.gpus.has(entry.key):  # it ran before we were here
            with suppress(NotPrepared):
                self._take_gpus(host, entry)
        try:
            run_for_s = length_s((pod.metadata.annotations or {})[RUN_FOR])
        except (KeyError, DurationError):
            return  # it runs until it is deleted
        # Its start is known to the second only, and no pod should end too early.
        ran_s = max(0.0, (seconds_since(pod.status.start_time) or 0.0) - 1.0) * self._speed
        self._appoint(entry.key, Step.FINISH, max(0.0, run_for_s - ran_s))

    def _appoint(self, key: str, step: Step, after_s: float) -> None:
        if self._agenda.get(("pod", key)) is not step:
            self._agenda.put(("pod", key), self._clock() + after_s / self._speed, step)

    def _end(self, host: Host, key: str) -> None:
        self._agenda.drop(("pod", key))
        self.prepared.unprepare(key)
        host.gpus.give_back(key)
        host.held.discard(key)

    # -- performing --------------------------------------------------------------------------

    def perform(self, step: Step, key: str) -> None:
        entry = self._api.store.get("pods", key)
        host = self._hosts.get(entry.fields["spec.nodeName"]) if entry else None
        if entry is None or host is None:
            return
        if host.down:
            host.held.add(key)
        elif step is Step.START:
            self._start(host, entry)
        elif step is Step.FINISH:
            self.counts.succeeded += 1
            self._write_status(entry, statuses.succeeded(entry.object(), now_text()))
        else:
            self._remove(entry)

    def fail(self, key: str, reason: str, message: str) -> None:
        entry = self._api.store.get("pods", key)
        if entry is not None:
            self.counts.failed += 1
            self._write_status(entry, statuses.failed(entry.object(), now_text(), reason, message))

    def _start(self, host: Host, entry: StoredObject) -> None:
        try:
            taken = self._take_gpus(host, entry)
        except NotPrepared as error:
            log.info("%s: %s", entry.key, error)
            self._appoint(entry.key, Step.START, _PREPARE_AGAIN_S)
            return
        if not taken:
            message = (
                f"Allocate failed due to requested number of devices unavailable for {GPU}. "
                f"Requested: {_gpus_asked(entry.object())}, Available: {len(host.gpus.free)}, "
                "which is unexpected"
            )
            self.fail(entry.key, "UnexpectedAdmissionError", message)
            return
        self.counts.started += 1
        status = statuses.running(entry.object(), now_text(), self._new_address(), host.address)
        self._write_status(entry, status)

    def _take_gpus(self, host: Host, entry: StoredObject) -> bool:
        pod = entry.object()
        if has_claims(pod):
            places = self.prepared.prepare(entry.key, pod)
            whole = not any(each.slices for each in places)
            uuids = [each.uuid for each in places]
            host.gpus.share(entry.key, uuids, self._clock(), is_whole=whole)
        chosen = (pod["metadata"].get("annotations") or {}).get(CHOSEN_GPUS, "").split(",")
        asked = 0 if GPU in extended_resources(pod) else _gpus_asked(pod)
        if not asked and chosen != [""]:
            host.gpus.share(entry.key, chosen, self._clock())
        return host.gpus.take(entry.key, asked, chosen, self._clock())

    def _remove(self, entry: StoredObject) -> None:
        pod = entry.object()
        metadata = pod["metadata"]
        if not metadata.get("finalizers"):
            self.counts.removed += 1
            self._api.store.remove(self._pods, entry.key)
        elif metadata.get("deletionGracePeriodSeconds"):
            metadata["deletionGracePeriodSeconds"] = 0  # only its finalizers keep it now
            self._api.store.put(self._pods, entry.key, pod)

    def _write_status(self, entry: StoredObject, status: Object) -> None:
        pod = entry.object()
        pod["status"] = status
        self._api.store.put(self._pods, entry.key, pod)

    def _new_address(self) -> str:
        self._addresses = (self._addresses + 1) % 2**22
        number = self._addresses
        return f"10.{128 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def _gpus_asked(pod: Object) -> int:
    asked = (
        ((each.get("resources") or {}).get("limits") or {}).get(GPU, "0")
        for each in pod["spec"]["containers"]
    )
    return sum(amount(GPU, str(each)) for each in asked)
