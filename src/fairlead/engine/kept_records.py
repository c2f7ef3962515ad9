"""What is kept for units, written on their pods, and found there by the next scheduler.

The record goes into the status of the pods, with their nominated nodes. It is a hint: a claim
counts only while it is being freed, and a device only if it is free.

A scheduler reads the records when it decides for the first time: at its start, or when it takes
over, until when it may have stood by for long. Those that it writes itself it does not read again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import chain

from fairlead.cluster.cluster import Cluster
from fairlead.engine.held_room import HeldRoom, Hold
from fairlead.model.claims import AllocatedDevice, ResourceClaim
from fairlead.model.kept_record import MOST_DEVICES, KeptClaim, KeptDevice, KeptRecord
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Unit

#: Devices of records that are looked at in one turn.
_MOST_IN_TURN = 512


class KeptRecords:
    """Records of pending pods that other schedulers wrote."""

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, held: HeldRoom) -> None:
        self._cluster, self._queue, self._held = cluster, queue, held
        #: Nothing was decided yet: it is another scheduler that writes records.
        self._stands_by = True
        #: Records that are still to be read, by the uid of the pod.
        self.unread: dict[str, KeptRecord] = {}

    def __bool__(self) -> bool:
        """Whether to call `restore` before anything is decided."""
        return self._stands_by or bool(self.unread)

    def seen(self, pod: Pod, *, is_new: bool) -> None:
        """A pending pod, as it is now; of its records the newest counts."""
        by_others = is_new or self._stands_by or pod.uid in self.unread
        if pod.kept is not None and pod.nominated and by_others:
            self.unread[pod.uid] = pod.kept
        else:
            self.unread.pop(pod.uid, None)

    def restore(self, now: float) -> Unit | None:
        """Keeps what is still to be kept, before anything is decided; the unit it stopped at.

        None: nothing is left to do.
        """
        self._stands_by = False
        turn = self._taken()
        known = self._allocated_claims(record for _, record in turn)
        for entry, record in turn:
            self._restore(entry, record, known, now)
        return turn[-1][0].unit if turn and self.unread else None

    def _taken(self) -> list[tuple[Entry, KeptRecord]]:
        """The records of one turn, each with the entry of its pod."""
        turn, looked = list[tuple[Entry, KeptRecord]](), 0
        while self.unread and looked <= _MOST_IN_TURN:
            uid, record = next(iter(self.unread.items()))
            del self.unread[uid]
            if (entry := self._queue.get(uid)) is not None:
                turn.append((entry, record))
                looked += 1 + len(record.devices) + sum(len(each.devices) for each in record.claims)
        return turn

    def _allocated_claims(self, records: Iterable[KeptRecord]) -> dict[str, ResourceClaim]:
        wanted = {each.uid for record in records for each in record.claims}
        if not wanted:
            return {}
        return {claim.uid: claim for claim in self._cluster.claims.claims.values()
                if claim.uid in wanted and claim.allocation is not None}  # fmt: skip

    def _restore(
        self, entry: Entry, record: KeptRecord, known: Mapping[str, ResourceClaim], now: float
    ) -> None:
        """`known`: claims that have devices, by uid."""
        found = [known[each.uid] for each in record.claims if each.uid in known]
        claims = [claim for claim in found if self._is_being_freed(claim)]
        gone = (each.devices for each in record.claims if each.uid not in known)
        devices = [*record.devices, *chain.from_iterable(gone)]
        nodes = {pod.uid: (pod, pod.nominated) for pod in entry.unit.pods if pod.nominated}
        if nodes and (claims or devices):
            self._held.restore(entry.unit.key, nodes, record.evicted, claims, now)
            self._held.keep_again(entry.unit.key, map(_allocated, devices))

    def _is_being_freed(self, claim: ResourceClaim) -> bool:
        """Whether all pods that use it are being deleted, or are gone."""
        return not any(
            user.is_group or user.uid in self._queue or not self._is_leaving(user.uid)
            for user in claim.reserved_for
        )

    def _is_leaving(self, uid: str) -> bool:
        held = self._cluster.holdings.get(uid)
        return held is None or held.pod.deleting


def records_of(hold: Hold, cluster: Cluster) -> dict[str, KeptRecord]:
    """What is to be written on the pods of the unit, by uid: not too much on each."""
    key, state = hold.key, cluster.claims
    if key not in state.kept:
        return {}
    parts = _parts(
        [KeptClaim(uid, tuple(map(_kept, state.held[uid])))
         for uid in state.kept.claims_for(key) if uid in state.held],
        tuple(map(_kept, state.kept.devices(key))),
    )  # fmt: skip
    return {uid: replace(part, evicted=hold.evicted)
            for uid, part in zip(hold.nodes, parts, strict=False)}  # fmt: skip


def _parts(claims: Iterable[KeptClaim], devices: tuple[KeptDevice, ...]) -> Iterator[KeptRecord]:
    """At least one; a claim is in one of them."""
    part, room = KeptRecord(devices=devices[:MOST_DEVICES]), MOST_DEVICES - len(devices)
    for start in range(MOST_DEVICES, len(devices), MOST_DEVICES):
        yield part
        part = KeptRecord(devices=devices[start : start + MOST_DEVICES])
        room = MOST_DEVICES - len(part.devices)
    for claim in claims:
        if len(claim.devices) > room:
            yield part
            part, room = KeptRecord(), MOST_DEVICES
        part = replace(part, claims=(*part.claims, claim))
        room -= len(claim.devices)
    yield part


def _kept(device: AllocatedDevice) -> KeptDevice:
    amounts = tuple((name, str(amount)) for name, amount in device.consumed_capacity or ())
    shared = device.share_id is not None
    return KeptDevice(
        device.driver, device.pool, device.device, device.share_id, amounts if shared else ()
    )


def _allocated(kept: KeptDevice) -> AllocatedDevice:
    amounts = tuple((name, _exact(amount)) for name, amount in kept.amounts)
    shared = kept.share is not None
    return AllocatedDevice(
        "", kept.driver, kept.pool, kept.device,
        share_id=kept.share, consumed_capacity=amounts if shared else None,
    )  # fmt: skip


def _exact(text: str) -> int | Fraction:
    found = Fraction(text)
    return found.numerator if found.denominator == 1 else found
