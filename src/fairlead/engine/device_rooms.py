"""Pods are evicted for one whose claims cannot be allocated, where its profile allows that.

The devices belong to claims: they are free after the pods are gone *and* their claims are
deallocated. Until then the pod waits, and no others are evicted for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.engine.gang_rooms import GangRooms
from fairlead.engine.held_room import Hold
from fairlead.engine.instructions import AnnounceFailure, Instruction
from fairlead.engine.kept_records import records_of
from fairlead.engine.reasons import UNSCHEDULABLE
from fairlead.engine.requeuer import Requeuer
from fairlead.engine.room_searches import UselessSearches
from fairlead.model.claims import ClaimObject, ResourceClaim
from fairlead.model.pods import Pod
from fairlead.placement.device_room import DeviceRoomSearch, PlannedDevices
from fairlead.placement.making_room import RoomOutcome, RoomPlan
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Refused
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue

#: What is done otherwise with a pod that no node fits.
Refuse = Callable[[Entry, Refused, float], list[Instruction]]


class DeviceRooms:
    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        requeuer: Requeuer,
        rooms: GangRooms,
        placements: Mapping[str, Placement],
    ) -> None:
        self._cluster, self._queue, self._requeuer = cluster, queue, requeuer
        self._rooms, self._placements = rooms, placements
        self._useless: UselessSearches[PlannedDevices] = UselessSearches()

    def refuse(
        self, entry: Entry, refused: Refused, now: float, otherwise: Refuse
    ) -> list[Instruction]:
        """The pod waits for devices of others, or for what it would have waited for otherwise."""
        pod, held = entry.unit.pod, self._rooms.held
        if not self._may_search(entry, refused):
            return otherwise(entry, refused, now)
        if (hold := held.get(pod.uid)) is not None and self._rooms.is_awaited(entry):
            self._park(entry, refused, now)
            return [self._awaiting(pod, hold)]
        held.drop(pod.uid)
        found = self._search(entry, now)
        if found.plan is None:
            made = otherwise(entry, refused, now)
            if found.cut_short and pod.uid in self._queue:
                self._queue.postpone(entry, "ScheduleAttemptFailure")
            return [_with_reason(each, found.why) for each in made]
        self._park(entry, refused, now)
        return self._begin(pod, found.plan, now)

    def would_evict(self, entry: Entry, now: float) -> tuple[Pod, ...]:
        """For a pod that waits, and that may evict others for devices; nothing changes."""
        if entry.pool is Pool.NONE or self._rooms.held.get(entry.unit.key):
            return ()
        with self._rooms.asked(entry.unit):
            plan = self._searched(entry, now).plan
        units = plan.units if plan else ()
        return tuple(pod for unit in units if not unit.is_leaving for pod in unit.pods)

    def claim_seen(self, about: ClaimObject, now: float) -> None:
        """A claim has changed or is gone: pods may have waited for its devices."""
        if not isinstance(about, ResourceClaim) or about.uid not in self._rooms.held.goes_for:
            return
        if about.uid not in self._cluster.claims.held:
            self._rooms.held.victim_gone(about.uid, now)

    def _may_search(self, entry: Entry, refused: Refused) -> bool:
        if refused.eviction is not None or refused.frees is not None or refused.unfinished:
            return False
        return bool(entry.unit.pod.request.claims) and self._rooms.evicts_for_devices(entry.unit)

    def _search(self, entry: Entry, now: float) -> RoomOutcome[PlannedDevices]:
        if why := self._rooms.ineligible_pod(entry.unit, now):
            return RoomOutcome(None, why)
        class_, state = self._requeuer.class_of(entry.unit), self._rooms.state()
        found = self._useless.get(class_, state, now)
        if found is None:
            found = self._searched(entry, now)
            self._useless.put(class_, found, now)
        return found

    def _searched(self, entry: Entry, now: float) -> RoomOutcome[PlannedDevices]:
        unit = entry.unit

        def search() -> DeviceRoomSearch:
            units = self._rooms.units_for(unit, now)
            return DeviceRoomSearch(
                self._cluster, units, unit.pod, self._placements[unit.pod.scheduler]
            )

        return self._rooms.paced(f"{unit.key}#devices", search, now)

    def _begin(self, pod: Pod, plan: RoomPlan[PlannedDevices], now: float) -> list[Instruction]:
        placed, devices = plan.placed.placed, plan.placed.devices
        made = self._rooms.begin(pod.uid, [(pod, placed)], plan.units, now, devices)
        hold = self._rooms.held.get(pod.uid)
        assert hold is not None
        return [self._awaiting(pod, hold), *made]

    def _awaiting(self, pod: Pod, hold: Hold) -> Instruction:
        message = (
            f"{hold.evicted} pod(s) that have devices which its claims ask for are evicted for it; "
            "it has the devices when the claims of these pods are deallocated."
        )
        kept = records_of(hold, self._cluster).get(pod.uid)
        return AnnounceFailure(pod, UNSCHEDULABLE, message, hold.nodes[pod.uid], kept)

    def _park(self, entry: Entry, refused: Refused, now: float) -> None:
        class_ = self._requeuer.class_of(entry.unit)
        self._queue.park(entry, class_, woken_by=refused.woken_by, now=now)


def _with_reason(made: Instruction, why: str) -> Instruction:
    if not isinstance(made, AnnounceFailure) or not why:
        return made
    return replace(made, message=f"{made.message} Evicting pods for devices does not help: {why}.")
