"""The device ledger: every GPU of every node, as columns of (row, slot).

A use is exclusive, a share (thousandths of compute and MiB of memory), or a MIG slice at a place.
Amounts are plain sums of what the holders on the row have, never cut off: if two of them have the
same GPU it is overdrawn until one of them goes, and nothing new is placed there meanwhile. A holder
is a pod, or what several pods refer to: it has its GPUs once, until the last reference is gone.

GPUs are known by uuid. A use of a GPU that the row does not have (lost, or not ours to choose)
counts against the row as one GPU that a device plugin picked.

Labels may say what kind of GPUs a row has, but not which (an inventory that is not `named`). Such
GPUs have a model and links, but they are not `there`: they are counted, never given one by one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.gpu_services import GpuServices
from fairlead.cluster.gpu_tenants import NO_TENANT, GpuTenants
from fairlead.cluster.interned import Interned
from fairlead.cluster.load import Load
from fairlead.cluster.model_match import ModelMatch
from fairlead.model.gpus import (
    PLAIN,
    WHOLE,
    Gpu,
    GpuUse,
    Grant,
    Inventory,
    Isolation,
    Links,
    MigProfile,
)
from fairlead.model.holders import Holder
from fairlead.model.map_slots import Member
from fairlead.model.pods import Pod
from fairlead.model.reservations import slot_name

Gpus = npt.NDArray[np.int64]  # (rows, slots) an amount of something
GpuMask = npt.NDArray[np.bool_]  # (rows, slots)

#: Kinds of pods by the GPUs they hold: with shares, with 1, 2, 3… whole GPUs.
KINDS = 17

_FILLERS = {
    "there": False, "model": -1, "memory": 0, "milli_free": 0, "memory_free": 0, "users": 0,
    "wholes": 0, "geometry": -1, "slices_used": 0, "sharers": 0, "first_fit_memory": 0, "room": 0,
    "unused": False, "shared": False, "cut_freely": False, "mps_limit": 0, "mps_users": 0,
    "tenant": NO_TENANT,
}  # fmt: skip
#: A bit that no dialect has.
_NO_DIALECT = 63
_MPS = Isolation.MPS  # looked at for every grant
_ROW_BITS = ("dialects", "one_at_a_time", "first_fit", "pending")


class Devices:
    """Plain storage and its arithmetic. `Cluster` keeps it in step with nodes and pods."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._slots = 8
        #: What the same GPUs are really doing.
        self.load = Load(rows, self._slots)
        shape = (rows, self._slots)
        self.there: GpuMask = np.zeros(shape, dtype=np.bool_)  # a GPU that is in order
        self.model: Gpus = np.full(shape, -1, dtype=np.int64)
        self.memory: Gpus = np.zeros(shape, dtype=np.int64)
        self.milli_free: Gpus = np.zeros(shape, dtype=np.int64)
        self.memory_free: Gpus = np.zeros(shape, dtype=np.int64)
        self.users: Gpus = np.zeros(shape, dtype=np.int64)
        self.wholes: Gpus = np.zeros(shape, dtype=np.int64)
        self.geometry: Gpus = np.full(shape, -1, dtype=np.int64)  # how MIG cuts it; -1: not
        #: Its agent creates slices as assigned; else it serves the slices that are there.
        self.cut_freely: GpuMask = np.zeros(shape, dtype=np.bool_)
        self.slices_used: Gpus = np.zeros(shape, dtype=np.int64)  # as bits
        self.sharers: Gpus = np.zeros(shape, dtype=np.int64)  # pods at once; 0: any number
        #: MPS clients that its daemon serves (0: it has none), and pods that are such clients.
        self.mps_limit: Gpus = np.zeros(shape, dtype=np.int64)
        self.mps_users: Gpus = np.zeros(shape, dtype=np.int64)
        #: Whether there ever was one of either, on any row.
        self.ever_mps = False
        #: Tenants that do not share GPUs, and whose pods each GPU has; None: all share.
        self.tenancy: GpuTenants | None = None
        self.tenant: Gpus = np.full(shape, NO_TENANT, dtype=np.int64)
        #: Service classes with terms about GPUs; None: no class has any.
        self.services: GpuServices | None = None
        #: As a first-fit device plugin counts.
        self.first_fit_memory: Gpus = np.zeros(shape, dtype=np.int64)
        #: GPUs in order that are not cut into slices: unused ones, and those that
        #: shares may go to.
        self.unused: GpuMask = np.zeros(shape, dtype=np.bool_)
        self.shared: GpuMask = np.zeros(shape, dtype=np.bool_)
        #: Thousandths that are free, of compute or of memory, whichever is less.
        self.room: Gpus = np.zeros(shape, dtype=np.int64)
        #: The sum of that on each row, and how many GPUs of it are free as a whole.
        self.free_milli: PerNode = np.zeros(rows, dtype=np.int64)
        self.full: PerNode = np.zeros(rows, dtype=np.int64)
        #: Pods with shares of GPUs (0), and with so many whole ones, by row.
        self.kinds: Gpus = np.zeros((rows, KINDS), dtype=np.int64)
        #: GPUs that pods hold and that a device plugin chose; and unused GPUs beyond those.
        self.elsewhere: PerNode = np.zeros(rows, dtype=np.int64)
        self.spare: PerNode = np.zeros(rows, dtype=np.int64)
        #: Rows where there are some.
        self.in_doubt: set[int] = set()
        #: Rows whose GPUs are known one by one.
        self.known = np.zeros(rows, dtype=np.bool_)
        #: Rows whose GPUs have slots: known one by one, or reserved by number.
        self.slotted = np.zeros(rows, dtype=np.bool_)
        #: Dialects of a row's device plugin, as bits.
        self.dialects: PerNode = np.zeros(rows, dtype=np.int64)
        #: Dialects that are served one pod at a time, and by first fit; and pods under way.
        self.one_at_a_time: PerNode = np.zeros(rows, dtype=np.int64)
        self.first_fit: PerNode = np.zeros(rows, dtype=np.int64)
        self.pending: PerNode = np.zeros(rows, dtype=np.int64)
        #: Rows with shares of GPUs that a device plugin may give to others, and how many.
        self.strays: Counter[int] = Counter()
        self._dialect_code: dict[str, int] = {}
        #: Dialects that were ever served in one of these ways, on any row.
        self.ever_one_at_a_time: set[str] = set()
        self.ever_first_fit: set[str] = set()
        #: What joins the GPUs of a row, as a number; -1 if it is not known.
        self.wiring: PerNode = np.full(rows, -1, dtype=np.int64)
        self._wirings: Interned[Links] = Interned()
        self.inventories: dict[int, Inventory] = {}
        self._slot_of: dict[int, dict[str, int]] = {}
        #: Names of models, by the numbers that `model` has for them.
        self.models: Interned[str] = Interned()
        self.match = ModelMatch(self.models)
        #: Ways to cut a GPU, by the numbers that `geometry` has for them.
        self.cuts: Interned[tuple[MigProfile, ...]] = Interned()
        self._grants: dict[int, dict[Holder, Grant]] = {}
        #: References to a holder beyond the first, by row.
        self._references: dict[int, Counter[Holder]] = {}
        #: Pods of one workload that have the same GPU by their map, by slot: it is taken once.
        self._sharing: dict[int, Counter[tuple[int, str]]] = {}

    # -- nodes -------------------------------------------------------------------------------

    def put(self, row: int, inventory: Inventory | None) -> bool:
        """The GPUs of a row now; says whether that changed anything."""
        if self.inventories.get(row) == inventory:
            return False
        grants, old = self._grants.get(row, {}), self._codes_on(row)
        self._blank(row)
        if inventory is not None and inventory.gpus:
            self._write(row, inventory)
        self._drop_codes(old)  # last, so that what stays keeps its number
        for grant in grants.values():
            self.charge(row, grant, +1)
        if self.tenancy is not None:
            self.mark_tenants(row)
        if self.services is not None:
            self.mark_services(row)
        return True

    def clear_row(self, row: int) -> None:
        old = self._codes_on(row)
        self._blank(row)
        self._drop_codes(old)
        self.kinds[row] = 0
        if self.tenancy is not None:
            self.tenancy.clear_row(row, self._grants.get(row, ()))
        if self.services is not None:
            self.services.clear_row(row, self._grants.get(row, ()))
        self._grants.pop(row, None)
        self._references.pop(row, None)

    def grow(self, rows: int) -> None:
        extra = rows - self._rows
        self._rows = rows
        for name, filler in _FILLERS.items():
            old = getattr(self, name)
            more = np.full((extra, self._slots), filler, dtype=old.dtype)
            setattr(self, name, np.concatenate([old, more]))
        self.kinds = np.concatenate([self.kinds, np.zeros((extra, KINDS), dtype=np.int64)])
        for name in ("elsewhere", "spare", "free_milli", "full"):
            tail = np.zeros(extra, dtype=np.int64)
            setattr(self, name, np.concatenate([getattr(self, name), tail]))
        for name in ("known", "slotted"):
            tail = np.zeros(extra, dtype=np.bool_)
            setattr(self, name, np.concatenate([getattr(self, name), tail]))
        for name in _ROW_BITS:
            more = np.zeros(extra, dtype=np.int64)
            setattr(self, name, np.concatenate([getattr(self, name), more]))
        self.wiring = np.concatenate([self.wiring, np.full(extra, -1, dtype=np.int64)])

    def make_slots(self, gpus: int) -> None:
        """Makes room for nodes with this many GPUs, listed or not."""
        while gpus > self._slots:
            self._widen()

    def code(self, model: str) -> int:
        """A number for the model, the same for equal names; -2 if no GPU is one."""
        return self.codes.get(model, -2)

    @property
    def codes(self) -> Mapping[str, int]:
        """Numbers of the models that some node has."""
        return self.models.code_of

    @property
    def wirings(self) -> Mapping[Links, int]:
        """What `wiring` has for each way in which the GPUs of some node are joined."""
        return self._wirings.code_of

    @property
    def geometries(self) -> Mapping[tuple[MigProfile, ...], int]:
        """What `geometry` has for each way to cut a GPU that some node has."""
        return self.cuts.code_of

    @property
    def listed(self) -> int:
        """How many rows have slots for their GPUs."""
        return len(self._slot_of)

    @property
    def slots(self) -> int:
        """GPUs that a row has place for."""
        return self._slots

    def slots_of(self, row: int) -> Mapping[str, int]:
        """Where each GPU of a row is, by uuid and by index as text; empty if not listed."""
        return self._slot_of.get(row, {})

    def gpus(self, row: int) -> Sequence[Gpu]:
        inventory = self.inventories.get(row)
        return inventory.gpus if inventory else ()

    def _write(self, row: int, inventory: Inventory) -> None:
        self.make_slots(len(inventory.gpus))
        self.inventories[row] = inventory
        self.known[row] = inventory.named
        self.slotted[row] = inventory.named or inventory.reservable
        self.dialects[row] = self._bits(inventory.dialects)
        self.one_at_a_time[row] = self._bits(inventory.one_at_a_time)
        self.first_fit[row] = self._bits(inventory.first_fit)
        self.ever_one_at_a_time |= inventory.one_at_a_time
        self.ever_first_fit |= inventory.first_fit
        if inventory.links:
            self.wiring[row] = self._wirings.take(inventory.links)
        for slot, gpu in enumerate(inventory.gpus):
            self.model[row, slot] = self.models.take(gpu.model)
            self.memory[row, slot] = gpu.memory_mib
        if self.slotted.item(row):
            self._write_gpus(row, inventory)

    def _write_gpus(self, row: int, inventory: Inventory) -> None:
        # Some dialects know a GPU by its index only.
        gpus = inventory.gpus
        other = slot_name if inventory.reservable else str
        by_index = {other(gpu.index): slot for slot, gpu in enumerate(gpus)}
        by_uuid = {gpu.uuid: slot for slot, gpu in enumerate(gpus)}
        self._slot_of[row] = by_index | by_uuid
        for slot, gpu in enumerate(gpus):
            self.there[row, slot] = gpu.healthy
            self.memory_free[row, slot] = gpu.memory_mib
            self.milli_free[row, slot] = WHOLE
            self.sharers[row, slot] = gpu.sharers
            self.cut_freely[row, slot] = bool(gpu.slots)
            self.mps_limit[row, slot] = gpu.mps
            self.ever_mps |= gpu.mps > 0
            if gpu.mig:
                self.geometry[row, slot] = self.cuts.take(gpu.mig)
            self._measure(row, slot)

    def _blank(self, row: int) -> None:
        for name, filler in _FILLERS.items():
            getattr(self, name)[row] = filler
        self.elsewhere[row] = self.spare[row] = self.free_milli[row] = self.full[row] = 0
        self.in_doubt.discard(row)
        self.strays.pop(row, None)
        self.known[row] = self.slotted[row] = False
        for name in _ROW_BITS:
            getattr(self, name)[row] = 0
        self.wiring[row] = -1
        self.inventories.pop(row, None)
        self._slot_of.pop(row, None)
        self._sharing.pop(row, None)

    def _codes_on(self, row: int) -> tuple[list[int], list[int], list[int]]:
        """The numbers in use there: of models, of ways to cut a GPU, of ways to join GPUs."""
        columns = self.model[row], self.geometry[row], self.wiring[row : row + 1]
        models, cuts, wirings = ([code for code in each.tolist() if code >= 0] for each in columns)
        return models, cuts, wirings

    def _drop_codes(self, codes: tuple[list[int], list[int], list[int]]) -> None:
        models, cuts, wirings = codes
        for code in models:
            self.models.drop(code)
        for code in cuts:
            self.cuts.drop(code)
        for code in wirings:
            self._wirings.drop(code)

    def _bits(self, dialects: Iterable[str]) -> int:
        codes = self._dialect_code
        return sum(1 << codes.setdefault(dialect, len(codes)) for dialect in sorted(dialects))

    def _widen(self) -> None:
        for name, filler in _FILLERS.items():
            old = getattr(self, name)
            more = np.full((self._rows, self._slots), filler, dtype=old.dtype)
            setattr(self, name, np.concatenate([old, more], axis=1))
        self._slots *= 2

    # -- holders -----------------------------------------------------------------------------

    def occupy(self, row: int, holder: Holder, grant: Grant, pod: Pod | None = None) -> None:
        """Something refers to the holder. With the first reference its grant is taken.

        `pod` is the one that refers to it, if it is known.
        """
        grants = self._grants.setdefault(row, {})
        if holder in grants:
            self._references.setdefault(row, Counter())[holder] += 1
            return
        grants[holder] = grant
        self.kinds[row, grant_kind(grant)] += 1
        self.charge(row, grant, +1)
        if self.tenancy is not None:
            self.tenancy.came(row, holder, pod.namespace if pod else "")
            self.mark_tenants(row)
        if self.services is not None and pod is not None:
            self.services.came(row, holder, pod, self.load.now_s or -inf)
            self.mark_services(row)

    def release(self, row: int, holder: Holder) -> None:
        """A reference is gone. With the last one its grant is free."""
        if self._references and self._drop_reference(row, holder):
            return
        grants = self._grants.get(row, {})
        grant = grants.pop(holder, None)
        if grant is not None:
            self.kinds[row, grant_kind(grant)] -= 1
            self.charge(row, grant, -1)
            if self.tenancy is not None:
                self.tenancy.left(row, holder)
                self.mark_tenants(row)
            if self.services is not None:
                self.services.left(row, holder)
                self.mark_services(row)
            if not grants:
                del self._grants[row]

    def mark_tenants(self, row: int) -> None:
        """Whose pods the GPUs of the row have."""
        assert self.tenancy is not None
        self.tenant[row] = NO_TENANT
        slot_of, grants = self._slot_of.get(row, {}), self._grants.get(row, {})
        for slot, code in self.tenancy.codes_on(row, slot_of, grants).items():
            self.tenant[row, slot] = code

    def mark_services(self, row: int) -> bool:
        """Which service classes have pods on the GPUs of the row; whether other pods are new."""
        assert self.services is not None
        slot_of, grants = self._slot_of.get(row, {}), self._grants.get(row, {})
        return self.services.mark(row, slot_of, grants, self.load)

    def follow_readings(self, rows: Rows) -> list[int]:
        """Rows where GPUs have become too busy for service classes, or quiet again."""
        if self.services is None:
            return []
        settled = [row for row in self.services.new_rows() if self.mark_services(row)]
        return sorted({*settled, *self.services.renew(rows, self.load)})

    def _drop_reference(self, row: int, holder: Holder) -> bool:
        """Whether there was one beyond the first."""
        counts = self._references.get(row)
        if counts is None or holder not in counts:
            return False
        counts[holder] -= 1
        if not counts[holder]:
            del counts[holder]
        if not counts:
            del self._references[row]
        return True

    def references(self, row: int) -> dict[Holder, int]:
        """How many references each holder has that has more than one."""
        return {holder: 1 + more for holder, more in self._references.get(row, {}).items()}

    def grants(self, row: int) -> Iterable[Grant]:
        """What each holder on the row has."""
        return self._grants.get(row, {}).values()

    def shares_on(self, row: int) -> dict[int, set[int]]:
        """The sizes of the shares on each GPU of the row, in thousandths.

        Where they are equal, no client of MPS can set itself a larger one: its daemon limits all
        clients to the largest.
        """
        found: dict[int, set[int]] = {}
        slot_of = self.slots_of(row)
        for grant in self.grants(row):
            for use in grant.uses:
                found.setdefault(slot_of.get(use.uuid, -1), set()).add(use.milli)
        return found

    def holders(self, row: int) -> tuple[Holder, ...]:
        """Who holds GPUs of the row, in the order in which they came."""
        return tuple(self._grants.get(row, ()))

    def reorder(self, row: int, holders: Iterable[Holder]) -> None:
        """Puts the holders of the row in this order: messages name the first that conflicts."""
        grants = self._grants.get(row)
        if grants:
            self._grants[row] = {each: grants[each] for each in holders if each in grants} | grants

    def charge(self, row: int, grant: Grant, sign: int) -> None:
        """Takes what the grant has of the row (+1), or frees it (-1)."""
        slot_of = self._slot_of.get(row, {})
        if grant.pending:
            self.pending[row] += sign
        told = grant.dialect in self.ever_first_fit and bool(
            self.spoken(grant.dialect, self.first_fit[row : row + 1])[0]
        )
        mps = grant.isolation is _MPS
        if mps:
            self.ever_mps = True
        for use in grant.uses:
            slot = slot_of.get(use.uuid)
            if slot is None:
                self.miss(row, sign)
                if use.uuid and not use.whole:
                    self._count_stray(row, sign)
                continue
            self.users[row, slot] += sign
            if mps:
                self.mps_users[row, slot] += sign
            if use.slices:
                self._cut(row, slot, use, sign)
            else:
                if told:
                    self.first_fit_memory[row, slot] += sign * use.memory_mib
                if not self._shares(row, slot, use, grant.member, sign):
                    self._take(row, slot, use, sign)
            self._measure(row, slot)

    def miss(self, row: int, more: int) -> None:
        """A GPU that the row does not have is one of those that it has; which one is not known."""
        self.elsewhere[row] += more
        self.spare[row] -= more
        if row in self._slot_of and self.elsewhere[row]:
            self.in_doubt.add(row)
        else:
            self.in_doubt.discard(row)

    def _count_stray(self, row: int, sign: int) -> None:
        """A share of a GPU that its device plugin may give to others: it is not reserved."""
        if not self.slotted.item(row) or self.known.item(row):
            return
        self.strays[row] += sign
        if not self.strays[row]:
            del self.strays[row]

    def _take(self, row: int, slot: int, use: GpuUse, sign: int) -> None:
        if use.whole:
            self.wholes[row, slot] += sign
            self.milli_free[row, slot] -= sign * WHOLE
            self.memory_free[row, slot] -= sign * self.memory.item(row, slot)
        else:
            self.milli_free[row, slot] -= sign * use.milli
            self.memory_free[row, slot] -= sign * use.memory_mib

    def _shares(
        self, row: int, slot: int, use: GpuUse, member: Member | None, sign: int
    ) -> bool:  # fmt: skip
        """Whether others of the workload have the GPU before this one comes, or still.

        A map gives whole GPUs. Parts, which an assignment may name, are added up like any other.
        """
        if member is None or not use.whole:
            return False
        counts = self._sharing.setdefault(row, Counter())
        counts[slot, member.workload] += sign
        left = counts[slot, member.workload]
        if not left:
            del counts[slot, member.workload]
        if not counts:
            del self._sharing[row]
        return left > (1 if sign > 0 else 0)

    def _measure(self, row: int, slot: int) -> None:
        """What follows from all the other columns, so that they are combined once."""
        at = row, slot
        free, mib = self.milli_free.item(at), self.memory.item(at)
        if mib:
            free = min(free, WHOLE * self.memory_free.item(at) // mib)
        uncut = self.there.item(at) and self.geometry.item(at) < 0
        unused = uncut and not self.users.item(at)
        shared = uncut and not self._closed(row, slot)
        before, after = self.room.item(at), max(free, 0) if shared else 0
        self.spare[row] += unused - self.unused.item(at)
        self.free_milli[row] += after - before
        self.full[row] += (after == WHOLE) - (before == WHOLE)
        self.unused[at], self.shared[at], self.room[at] = unused, shared, after

    def _closed(self, row: int, slot: int) -> bool:
        """No other pod may come: taken whole, overdrawn, or as many pods as are allowed.

        Slices that are left from an earlier division, or that were forged, close it as well.
        """
        at = row, slot
        if self.wholes.item(at) or self.slices_used.item(at) or self.memory_free.item(at) < 0:
            return True
        return 0 < self.sharers.item(at) <= self.users.item(at)

    def _cut(self, row: int, slot: int, use: GpuUse, sign: int) -> None:
        if sign > 0:
            self.slices_used[row, slot] |= use.mask
            return
        # Bits cannot be counted down: look at who is left.
        slot_of = self._slot_of[row]
        left = 0
        for other in self._grants.get(row, {}).values():
            for theirs in other.uses:
                left |= theirs.mask if slot_of.get(theirs.uuid) == slot else 0
        self.slices_used[row, slot] = left

    def can_spare(self, row: int, gpus: int, dialect: str) -> bool:
        """Does the row have so many unused GPUs to give to a pod that asks in this dialect?"""
        if dialect == PLAIN and not self.known.item(row):
            return row not in self.strays
        bit = 1 << self._dialect_code.get(dialect, _NO_DIALECT)
        if self.pending.item(row) and self.one_at_a_time.item(row) & bit:
            return False
        served = dialect == PLAIN or self.dialects.item(row) & bit > 0
        return served and self.spare.item(row) >= gpus

    def spoken(self, dialect: str, bits: PerNode) -> NodeMask:
        """Where the dialect is among those that the bits stand for."""
        code = self._dialect_code.get(dialect)
        if code is None:
            return np.zeros(len(bits), dtype=np.bool_)
        found: NodeMask = bits & (1 << code) > 0
        return found


def grant_kind(grant: Grant) -> int:
    """0 for shares and slices, else how many whole GPUs."""
    return min(len(grant.uses), KINDS - 1) if grant.uses and grant.uses[0].whole else 0
