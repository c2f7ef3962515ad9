"""Grants of many pods that leave the device ledger together, and come back together.

The sums are those of `Devices`, grant by grant; they are added up first, and written once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairlead.cluster.arrays import Rows
from fairlead.cluster.devices import Devices, GpuMask, grant_kind
from fairlead.model.gpus import WHOLE, GpuUse, Grant, Isolation
from fairlead.model.holders import Holder, pod_holder

if TYPE_CHECKING:
    from fairlead.cluster.holdings import Holding

_MPS = Isolation.MPS  # looked at for every grant


class GpuBatch:
    """What these pods have of the GPUs of their rows, each by itself."""

    def __init__(
        self, devices: Devices, rows: Sequence[int], pods: Sequence["Holding"]
    ) -> None:  # fmt: skip
        self._devices = devices
        taken = zip(rows, pods, strict=True)
        self._taken = [(row, held, held.grant) for row, held in taken if held.grant]
        #: Whether holders of the ledger are more than what they have.
        self._one_by_one = bool(
            devices._references or devices.tenancy is not None or devices.services is not None
        )
        #: The grants of each row, as they were.
        self._before: dict[int, dict[Holder, Grant]] = {}
        self._kinds: Counter[tuple[int, int]] = Counter()
        self._missed: Counter[int] = Counter()
        #: Uses of GPUs by row and slot that are plain amounts, and grants that are not.
        self._uses: list[tuple[int, int, GpuUse]] = []
        self._others: list[tuple[int, Grant]] = []

    def release(self) -> None:
        devices = self._devices
        if self._one_by_one:
            self._before = {row: dict(devices._grants[row]) for row, _, _ in self._taken}
            for row, held, _ in self._taken:
                devices.release(row, pod_holder(held.pod.uid))
            return
        gone = {pod_holder(held.pod.uid) for _, held, _ in self._taken}
        for row, _, grant in self._taken:
            if row not in self._before:
                self._take_from(row, gone)
            self._kinds[row, grant_kind(grant)] += 1
            self._add(row, grant)
        self._charge(-1)

    def occupy(self) -> None:
        """All that was released is as it was before."""
        devices = self._devices
        if self._one_by_one:
            for row, held, grant in reversed(self._taken):
                devices.occupy(row, pod_holder(held.pod.uid), grant, held.pod)
            for row, grants in self._before.items():
                devices.reorder(row, grants)
            return
        devices._grants.update(self._before)
        self._charge(+1)

    def _take_from(self, row: int, gone: set[Holder]) -> None:
        grants = self._before[row] = self._devices._grants.pop(row)
        left = {holder: grant for holder, grant in grants.items() if holder not in gone}
        if left:
            self._devices._grants[row] = left

    def _add(self, row: int, grant: Grant) -> None:
        slot_of = self._devices.slots_of(row)
        if not self._is_plain(grant, slot_of):
            self._others.append((row, grant))
            return
        for use in grant.uses:
            slot = slot_of.get(use.uuid)
            if slot is None:
                self._missed[row] += 1
            else:
                self._uses.append((row, slot, use))

    def _is_plain(self, grant: Grant, slot_of: Mapping[str, int]) -> bool:
        """Whether all that it takes are amounts."""
        if grant.pending or grant.member is not None or grant.isolation is _MPS:
            return False
        for use in grant.uses:
            if use.slices or not (use.whole or use.uuid in slot_of):
                return False
        return grant.dialect not in self._devices.ever_first_fit

    def _charge(self, sign: int) -> None:
        devices = self._devices
        for (row, kind), count in self._kinds.items():
            devices.kinds[row, kind] += sign * count
        for row, count in self._missed.items():
            devices.miss(row, sign * count)
        for row, grant in self._others:
            devices.charge(row, grant, sign)
        if self._uses:
            self._charge_slots(sign)

    def _charge_slots(self, sign: int) -> None:
        devices = self._devices
        rows = np.array([row for row, _, _ in self._uses], dtype=np.intp)
        slots = np.array([slot for _, slot, _ in self._uses], dtype=np.intp)
        at, whole = (rows, slots), np.array([use.whole for _, _, use in self._uses], dtype=np.bool_)
        milli = np.array([use.milli for _, _, use in self._uses], dtype=np.int64)
        memory = np.array([use.memory_mib for _, _, use in self._uses], dtype=np.int64)
        np.add.at(devices.users, at, sign)
        np.add.at(devices.wholes, at, sign * whole)
        np.subtract.at(devices.milli_free, at, sign * np.where(whole, WHOLE, milli))
        np.subtract.at(devices.memory_free, at, sign * np.where(whole, devices.memory[at], memory))
        places = np.unique(rows * devices.slots + slots)
        _measure(devices, places // devices.slots, places % devices.slots)


def _measure(devices: Devices, rows: Rows, slots: Rows) -> None:
    """What follows from all the other columns, for different GPUs at once."""
    at = rows, slots
    mib, milli_free, memory_free = (
        devices.memory[at],
        devices.milli_free[at],
        devices.memory_free[at],
    )
    by_memory = np.minimum(milli_free, WHOLE * memory_free // np.maximum(mib, 1))
    free = np.maximum(np.where(mib != 0, by_memory, milli_free), 0)
    users, uncut = devices.users[at], devices.there[at] & (devices.geometry[at] < 0)
    unused, shared = uncut & (users == 0), uncut & ~_closed(devices, rows, slots)
    before, after = devices.room[at], np.where(shared, free, 0)
    np.add.at(devices.spare, rows, unused.astype(np.int64) - devices.unused[at])
    np.add.at(devices.free_milli, rows, after - before)
    np.add.at(devices.full, rows, (after == WHOLE).astype(np.int64) - (before == WHOLE))
    devices.unused[at], devices.shared[at], devices.room[at] = unused, shared, after


def _closed(devices: Devices, rows: Rows, slots: Rows) -> GpuMask:
    """Where no other pod may come, as `Devices` says it of one GPU."""
    at = rows, slots
    sharers = devices.sharers[at]
    taken = (devices.wholes[at] != 0) | (devices.slices_used[at] != 0)
    full = (sharers > 0) & (sharers <= devices.users[at])
    found: GpuMask = taken | full | (devices.memory_free[at] < 0)
    return found
