"""The GPUs of some nodes: as columns of (node, slot), and what they could do for a pod.

Nothing here changes anything; `cluster/devices.py` keeps the book.
"""

from collections.abc import Mapping
from typing import TypeGuard

import numpy as np

from fairlead.cluster import link_topology
from fairlead.cluster.arrays import NodeMask, NodeScores, PerNode, RowPick, sealed
from fairlead.cluster.devices import Devices, GpuMask, Gpus
from fairlead.cluster.gpu_tenants import NO_TENANT
from fairlead.model.gpus import PLAIN, WHOLE, GpuRequest, Isolation, MigProfile, Overcommit
from fairlead.model.sizes import remembered


def _is_one(pick: RowPick) -> TypeGuard[slice]:
    """After each placement one node is asked about again; plain numbers are faster then."""
    return isinstance(pick, slice) and pick.stop - pick.start == 1


class GpuRows:
    """The GPUs as a rule sees them, read-only. A slot without a GPU is not `there`."""

    __slots__ = ("_devices", "_pick")

    def __init__(self, devices: Devices, pick: RowPick) -> None:
        self._devices = devices
        self._pick = pick

    def there(self) -> GpuMask:
        """GPUs in order."""
        return sealed(self._devices.there[self._pick])

    def known(self) -> NodeMask:
        """Nodes whose GPUs are known one by one."""
        return sealed(self._devices.known[self._pick])

    def slotted(self) -> NodeMask:
        """Nodes whose GPUs can be shared: known one by one, or to be reserved."""
        return sealed(self._devices.slotted[self._pick])

    @property
    def any_astray(self) -> bool:
        return bool(self._devices.strays)

    def astray(self) -> NodeMask:
        """Nodes of a device plugin with shares of a GPU that is not reserved."""
        found = np.zeros(len(self._devices.known), dtype=np.bool_)
        found[list(self._devices.strays)] = True
        return found[self._pick]

    def unused(self) -> GpuMask:
        """GPUs that no pod is known to have."""
        return sealed(self._devices.unused[self._pick])

    def any_listed(self) -> NodeMask:
        """Nodes of which at least one GPU is known, by name or by label."""
        listed: PerNode = (self._devices.model[self._pick] >= 0).sum(axis=1)
        return listed > 0

    def milli_free(self) -> Gpus:
        return sealed(self._devices.milli_free[self._pick])

    def memory(self) -> Gpus:
        return sealed(self._devices.memory[self._pick])

    def memory_free(self) -> Gpus:
        return sealed(self._devices.memory_free[self._pick])

    def users(self) -> Gpus:
        """Pods on each GPU."""
        return sealed(self._devices.users[self._pick])

    def wholes(self) -> Gpus:
        """Pods that have the GPU to themselves: 0 or 1, unless it was given twice."""
        return sealed(self._devices.wholes[self._pick])

    def slices_used(self) -> Gpus:
        """MIG memory slices in use, as bits."""
        return sealed(self._devices.slices_used[self._pick])

    def model(self) -> Gpus:
        """The model of each GPU as a number of `codes`."""
        return sealed(self._devices.model[self._pick])

    def codes(self) -> Mapping[str, int]:
        """Numbers of all models by name."""
        return self._devices.codes

    def all(self) -> NodeMask:
        return np.ones(len(self._devices.known[self._pick]), dtype=np.bool_)

    def elsewhere(self) -> PerNode:
        """GPUs held by pods whose GPUs are not known."""
        return sealed(self._devices.elsewhere[self._pick])

    def kinds(self) -> Gpus:
        """(nodes, kinds) pods by what they hold: shares first, then 1, 2, 3… whole GPUs."""
        return sealed(self._devices.kinds[self._pick])

    # -- what they could do ------------------------------------------------------------------

    def usable(self, ask: GpuRequest) -> GpuMask:
        """GPUs that could serve one part of the ask, alone and as things are."""
        book, pick = self._devices, self._pick
        if ask.sliced:
            fits: GpuMask = book.there[pick] & (self.room_for(ask) > 0)
            fits = fits & self._only_cut() & self.cut_for(ask)
        elif ask.whole:
            fits = sealed(book.unused[pick])
            if ask.by_memory:
                fits = fits & (book.memory[pick] >= self.memory_asked(ask))
        else:
            fits = book.shared[pick] & (self.milli_open(ask) >= ask.milli)
            if ask.by_memory:
                fits = fits & (book.memory_free[pick] >= self.memory_asked(ask))
            if book.ever_mps or ask.isolation is Isolation.MPS:
                fits = fits & self.offer(ask) & self.unmixed(ask) & self.clients_left(ask)
        if ask.dialect in book.ever_first_fit and not ask.profile:
            fits = fits & self._predicted(ask)
        if ask.particular:
            fits = fits & self.wanted(ask)
        if ask.tenant is not None:
            fits = fits & self.of_tenant(ask)
        if ask.service is not None:
            fits = fits & self.quiet_for(ask) & self.open_to(ask)
        return fits

    def quiet_for(self, ask: GpuRequest) -> GpuMask:
        """GPUs that are quiet enough for the service class of the ask."""
        book, pick = self._devices, self._pick
        if book.services is None or ask.service is None:
            return np.ones_like(book.there[pick])
        return book.services.quiet(ask.service, pick, book.load)

    def open_to(self, ask: GpuRequest) -> GpuMask:
        """GPUs without pods of a service class that the pod may not join now."""
        book, pick = self._devices, self._pick
        if book.services is None or ask.service is None or ask.whole:
            return np.ones_like(book.there[pick])
        return book.services.open_to(ask.service, pick, book.load)

    def with_like(self, ask: GpuRequest) -> GpuMask:
        """GPUs with pods of the service class of the ask, if these share GPUs first."""
        book, pick = self._devices, self._pick
        services, name = book.services, ask.service
        terms = services.terms.get(name) if services is not None and name else None
        if services is None or name is None or terms is None or not terms.packed:
            return np.zeros_like(book.there[pick])
        return services.with_pods_of(name, pick, book.load)

    def service_on(self, slot: int, ask: GpuRequest) -> str:
        """Why the pod may not join those on a GPU of the first node, in words."""
        services = self._devices.services
        return services.guards(slot, ask.service or "", self._pick) if services else ""

    def of_tenant(self, ask: GpuRequest) -> GpuMask:
        """GPUs without pods of other tenants, where that matters to the ask."""
        tenancy, found = self._devices.tenancy, self._devices.tenant[self._pick]
        if tenancy is None or ask.tenant is None or (ask.sliced and not tenancy.terms.slices):
            return np.ones_like(found, dtype=np.bool_)
        mine: GpuMask = (found == NO_TENANT) | (found == tenancy.code(ask.tenant))
        return mine

    def tenant_on(self, slot: int) -> str:
        """Whose pods a GPU of the first node has, in words."""
        tenancy, code = self._devices.tenancy, int(self._devices.tenant[self._pick][0, slot])
        return tenancy.name(code) if tenancy else ""

    def milli_open(self, ask: GpuRequest, *, if_quiet: bool = False) -> Gpus:
        """Thousandths of each GPU that such an ask may have; or could, if all were quiet."""
        free: Gpus = self._devices.milli_free[self._pick]
        if ask.overcommit is None:
            return free
        beyond: Gpus = free + (ask.overcommit.limit_milli - WHOLE)
        return beyond if if_quiet else np.where(self.quiet(ask.overcommit), beyond, free)

    def quiet(self, overcommit: Overcommit) -> GpuMask:
        """GPUs that were measured just now to have room beyond what is booked."""
        load, pick = self._devices.load, self._pick
        quiet: GpuMask = load.busiest[pick] < overcommit.high_water
        return quiet & (load.fresh[pick] > 0)

    def unmixed(self, ask: GpuRequest) -> GpuMask:
        """GPUs without a pod that such a share would not be kept apart from.

        MPS does not limit a process that is not its client.
        """
        book, pick = self._devices, self._pick
        clients = book.mps_users[pick]
        if ask.isolation is Isolation.MPS:
            clients = clients - book.users[pick]
        unmixed: GpuMask = clients == 0
        return unmixed

    def undivided(self) -> GpuMask:
        """GPUs that are not divided into MIG slices."""
        undivided: GpuMask = self._devices.geometry[self._pick] < 0
        return undivided

    def offer(self, ask: GpuRequest) -> GpuMask:
        """GPUs that offer the isolation of the share: where MPS is offered, shares are clients."""
        serves: GpuMask = self._devices.mps_limit[self._pick] > 0
        return serves if ask.isolation is Isolation.MPS else ~serves

    def clients_left(self, ask: GpuRequest) -> GpuMask:
        """GPUs whose MPS daemon serves one more client, where the share is to be one."""
        book, pick = self._devices, self._pick
        if ask.isolation is not Isolation.MPS:
            return np.ones_like(book.there[pick])
        left: GpuMask = self.free_clients() > 0
        return left & ask.mps_injected

    def free_clients(self) -> Gpus:
        """MPS clients that the daemon of each GPU can still serve."""
        free: Gpus = self._devices.mps_limit[self._pick] - self._devices.mps_users[self._pick]
        return free

    def cut_for(self, ask: GpuRequest) -> GpuMask:
        """GPUs by what divides them: a device plugin serves only the slices that are there."""
        freely = self._devices.cut_freely[self._pick]
        return ~freely if ask.dialect == PLAIN else freely

    def _only_cut(self) -> GpuMask:
        """GPUs of which no pod has a part from before they were divided."""
        book, pick = self._devices, self._pick
        only: GpuMask = book.milli_free[pick] == WHOLE
        only &= book.memory_free[pick] == book.memory[pick]
        return only

    def _predicted(self, ask: GpuRequest) -> GpuMask:
        """GPUs that the device plugin would not overrule, where it has the last word."""
        book, pick = self._devices, self._pick
        steered = book.spoken(ask.dialect, book.first_fit[pick])
        if not steered.any():
            return np.ones_like(book.there[pick])
        enough = book.memory[pick] - book.first_fit_memory[pick] >= self.memory_asked(ask)
        enough &= book.memory[pick] > 0
        first: GpuMask = enough & (np.cumsum(enough, axis=1) == 1)
        return first | ~steered[:, None]

    def memory_asked(self, ask: GpuRequest) -> Gpus:
        """MiB that a part of the ask would take of each GPU."""
        book, pick = self._devices, self._pick
        asked: Gpus = ask.memory_mib + book.memory[pick] * ask.memory_milli // WHOLE
        return asked

    def serve(self, ask: GpuRequest) -> NodeMask:
        """Nodes whose device plugin understands the ask; whole GPUs are understood everywhere."""
        book, pick = self._devices, self._pick
        if ask.dialect == PLAIN:
            return np.ones_like(book.known[pick])
        return book.spoken(ask.dialect, book.dialects[pick])

    def busy(self, ask: GpuRequest) -> NodeMask:
        """Nodes whose device plugin is still at another pod and must not be confused."""
        book, pick = self._devices, self._pick
        pending: NodeMask = book.pending[pick] > 0
        return pending & book.spoken(ask.dialect, book.one_at_a_time[pick])

    def enough(self, ask: GpuRequest) -> NodeMask:
        """Nodes that could serve the whole ask; GPUs that are not known are not counted here."""
        book, pick = self._devices, self._pick
        if _is_one(pick) and self._all_alike(ask) and not ask.linked:
            return np.array([book.can_spare(pick.start, ask.gpus, ask.dialect)])
        found: NodeMask = self.hold_enough(ask)
        if ask.dialect in book.ever_one_at_a_time:
            found &= ~self.busy(ask)
        if ask.dialect == PLAIN:
            found = np.where(book.known[pick], found, self.of_kind(ask))
        else:
            found &= self.serve(ask)
        if book.strays:
            found = found & ~self.astray()
        return found & self.joined(ask) if ask.linked else found

    def of_kind(self, ask: GpuRequest) -> NodeMask:
        """Nodes whose GPUs are of the requested kind, as far as their kind is known."""
        book, pick = self._devices, self._pick
        if not ask.particular:
            return np.ones_like(book.known[pick])
        of_kind: PerNode = (self.wanted(ask) & (book.model[pick] >= 0)).sum(axis=1)
        return of_kind > 0

    def joined(self, ask: GpuRequest, *, among: GpuMask | None = None) -> NodeMask:
        """Nodes where NVLink joins as many of the usable GPUs (or of these) as are asked for.

        Where a device plugin chooses the GPUs, any that many of them have to be joined.
        """
        book, pick = self._devices, self._pick
        usable = self.usable(ask) if among is None else among
        wiring, known = book.wiring[pick], book.known[pick]
        found: NodeMask = np.zeros_like(known)
        for links, code in book.wirings.items():
            counted = (wiring == code) & ~known
            listed = (wiring == code) & known
            if counted.any():
                found[counted] = link_topology.always_joined(links, ask.gpus)
            if listed.any():
                found[listed] = link_topology.joined(links, usable[listed], ask.gpus)
        return found

    def ring_quality(self, ask: GpuRequest) -> NodeScores:
        """The best ring that a node could give now, as a share of the best that it ever could."""
        book, pick = self._devices, self._pick
        wiring, known = book.wiring[pick], book.known[pick]
        found = np.ones(len(known))
        usable = self.usable(ask)
        for links, code in book.wirings.items():
            rows = (wiring == code) & known
            if rows.any():
                found[rows] = link_topology.quality(links, usable[rows], ask.together)
        return found

    def hold_enough(self, ask: GpuRequest) -> NodeMask:
        """Nodes with the GPUs for the whole request, in any dialect."""
        book, pick = self._devices, self._pick
        if self._all_alike(ask):
            spare: NodeMask = book.spare[pick] >= ask.gpus
            return spare
        usable = self.usable(ask)
        if ask.sliced:
            slices = np.where(usable, self.room_for(ask), 0).sum(axis=1)
            room: NodeMask = slices >= ask.gpus
            return room
        held = book.elsewhere[pick]
        if not (book.in_doubt and held.any()):
            plenty: NodeMask = usable.sum(axis=1) >= ask.gpus
            return plenty
        unused = book.unused[pick]
        # Some of the unused GPUs are held by pods that we do not know the GPUs of.
        shared = (usable & ~unused).sum(axis=1)
        fresh = np.clip(np.minimum((usable & unused).sum(axis=1), book.spare[pick]), 0, None)
        found: NodeMask = shared + fresh >= ask.gpus
        return found

    def _all_alike(self, ask: GpuRequest) -> bool:
        """Whether any unused GPU serves the request."""
        if not ask.whole or ask.profile or ask.by_memory or ask.particular:
            return False
        if ask.service is not None:
            return False
        return ask.dialect not in self._devices.ever_first_fit

    def wanted(self, ask: GpuRequest) -> GpuMask:
        """GPUs of the kind that is asked for."""
        book, pick = self._devices, self._pick
        wanted: GpuMask = np.ones_like(book.there[pick])
        if ask.models or ask.like or ask.unlike:
            wanted = book.match.of(ask)[book.model[pick]]
        if ask.only or ask.never:
            wanted = wanted & self._by_name(ask)
        return wanted

    def _by_name(self, ask: GpuRequest) -> GpuMask:
        """For the few who name GPUs: looked up GPU by GPU."""
        book, pick = self._devices, self._pick
        named = np.zeros_like(book.there[pick])
        rows = range(pick.start, pick.stop) if isinstance(pick, slice) else pick.tolist()
        for place, row in enumerate(rows):
            inventory = book.inventories.get(row)
            for slot, gpu in enumerate(inventory.gpus if inventory else ()):
                wanted = not ask.only or gpu.uuid in ask.only
                named[place, slot] = wanted and gpu.uuid not in ask.never
        return named

    def room_for(self, ask: GpuRequest, *, emptied: bool = False) -> Gpus:
        """How many more of the slices each GPU has room for; or had, without any pod."""
        book, pick = self._devices, self._pick
        geometry = book.geometry[pick]
        used = book.slices_used[pick] * (not emptied)
        room = np.zeros_like(used)
        for kinds, code in book.geometries.items():
            profile = ask.profile_of(kinds)
            room = np.where(geometry == code, _room_by_use(kinds, profile)[used], room)
        return room


@remembered(4 << 20)
def _room_by_use(kinds: tuple[MigProfile, ...], profile: str) -> PerNode:
    """For each set of slices in use, how many more of the profile fit."""
    room = np.zeros(256, dtype=np.int64)
    for kind in kinds:
        if kind.name != profile:
            continue
        for used in range(256):
            taken = used
            for mask in kind.masks():
                if not taken & mask:
                    taken |= mask
                    room[used] += 1
    return room
