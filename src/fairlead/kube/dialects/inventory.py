"""Reads the node annotation `fairlead.dev/inventory` (`base.node_inventory` has its schema)."""

from fairlead.base.node_inventory import (
    FREE,
    KEY,
    VERSION,
    WELL,
    GpuEntry,
    Listing,
    Slice,
    decoder,
    versions,
)
from fairlead.kube.dialects.api import KAI, checked, decoded
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import FAIRLEAD, Gpu, Inventory, Links, MigProfile
from fairlead.model.machines import link_gbps

#: Memory slices of a GPU that is cut, at most, and the numbers of them that there are.
_SLICES = 8
_SLOTS = frozenset({4, 8})
_SELF = "X"
#: Clients of one MPS daemon, at most; a larger number is an error of its author.
_MOST_CLIENTS = 1024


def read(text: str) -> Inventory:
    """Raises FairleadError: the agent writes this, but a node's annotations can be edited.

    Where a device plugin picks the GPUs they are only counted: what we named would not be what a
    pod gets.
    """
    found = _listing(text)
    gpus = checked([_gpu(entry) for entry in found.gpus], KEY)
    links = _links(found.gpus)
    if found.plugin:
        return Inventory(gpus, links, found.clique, named=False, picked=_picked(found))
    return Inventory(
        gpus,
        links,
        found.clique,
        frozenset({FAIRLEAD, KAI}),
        confirms=found.confirms,
        released=frozenset(found.released),
    )


def _listing(text: str) -> Listing:
    try:
        found = decoded(decoder, text, KEY)
    except FairleadError:
        # A list of another version may lack what this one requires: its version is the reason.
        _check_version(_version_of(text))
        raise
    _check_version(found.version)
    return found


def _version_of(text: str) -> int:
    try:
        return decoded(versions, text, KEY).version
    except FairleadError:
        return VERSION


def _check_version(version: int) -> None:
    if version != VERSION:
        raise FairleadError(
            f"{KEY} has version {version} and this Fairlead reads {VERSION}; "
            "install the same version of both"
        )


def _picked(found: Listing) -> dict[str, tuple[str, ...]] | None:
    if found.picked is None:
        return None
    listed = {entry.uuid for entry in found.gpus}
    return {uid: tuple(filter(listed.__contains__, gpus)) for uid, gpus in found.picked.items()}


def _gpu(entry: GpuEntry) -> Gpu:
    if entry.cut == FREE and entry.slots not in _SLOTS:
        raise FairleadError(f"{KEY} has a GPU with {entry.slots} slots; write 4 or 8")
    slots = entry.slots if entry.cut == FREE else 0
    mig = tuple(_profile(cut, slots, entry.memory_mib) for cut in entry.slices)
    if not all(map(_fits, mig)):
        raise FairleadError(f"{KEY} has a MIG profile that fits on no GPU")
    return Gpu(
        entry.uuid,
        entry.index,
        entry.model,
        entry.memory_mib,
        entry.numa,
        entry.health == WELL,
        mig=mig,
        slots=slots,
        mps=_clients(entry),
    )


def _profile(cut: Slice, slots: int, gpu_mib: int) -> MigProfile:
    """Agents of earlier versions do not list the memory of a slice: a tenth less than its part."""
    part_mib = gpu_mib * cut.size // slots * 9 // 10 if slots else 0
    return MigProfile(cut.name, cut.size, tuple(cut.starts), cut.mib or part_mib, slots)


def _clients(entry: GpuEntry) -> int:
    """0 for a GPU of unknown size: the memory of its clients cannot be limited."""
    if not 0 <= entry.mps <= _MOST_CLIENTS:
        raise FairleadError(f"{KEY} has a GPU with {entry.mps} MPS clients")
    return entry.mps if entry.memory_mib else 0


def _fits(cut: MigProfile) -> bool:
    if not 0 < cut.slices <= _SLICES or not cut.starts:
        return False
    return all(0 <= start <= _SLICES - cut.slices for start in cut.starts)


def _links(entries: list[GpuEntry]) -> Links:
    """Empty where no GPU lists any."""
    if not any(entry.links for entry in entries):
        return ()
    if {len(entry.links) for entry in entries} != {len(entries)}:
        raise FairleadError(f"{KEY} has links that do not match its {len(entries)} GPUs")
    return tuple(
        tuple(0 if path == _SELF else link_gbps(path, entry.model) for path in entry.links)
        for entry in entries
    )
