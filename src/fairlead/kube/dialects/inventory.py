"""The node annotation `fairlead.dev/inventory`: the GPUs of a node as its agent lists them.

    {"version": 1,
     "fabric": "nvswitch",            # or "nvlink" (GPU to GPU) or "pcie"
     "clique": "1a2b….0",             # nodes with the same one share an NVLink domain
     "driver": "580.159.04", "cuda": "13.0", "toolkit": "1.17.8",   # versions, where known
     "plugin": true,                  # a device plugin hands out the GPUs, and picks them itself
     "confirms": true,                # it says when the processes of pods that are gone have ended
     "released": ["6a0c…", …],        # they have, of the pods with these uids; the last ones only
     "GPUs": [
       {"index": 0,                   # as nvidia-smi counts
        "uuid": "GPU-6a0c…",          # what CUDA_VISIBLE_DEVICES takes
        "model": "NVIDIA H200",       # as NVML spells it
        "memoryMib": 143771,          # in all, as NVML says
        "numa": 0,
        "links": ["X", "NV18", …],    # to each GPU in turn, as `nvidia-smi topo -m` says
        "mig": true,                  # can be cut up; left out where it cannot
        "slices": [                   # MIG is on: how it can be cut, and where
          {"name": "1g.18gb", "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]}, …],
        "cut": "free", "slots": 8,    # the agent cuts it where it is told; memory slices in all
        "note": "…",                  # what its operator should know; nobody acts on it
        "health": "lost"}]}           # what is wrong with it; left out while the GPU is well

Readers skip keys that they do not know. A version that they do not know they do not read.
"""

from typing import Annotated

import msgspec

from fairlead.kube.dialects.api import KAI, checked, decoded
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import Gpu, Inventory, Links, MigProfile
from fairlead.model.machines import link_gbps

KEY = "fairlead.dev/inventory"
VERSION = 1
WELL = "ok"
OURS = "fairlead"
#: Memory slices of a GPU that is cut, at most, and the numbers of them that there are.
_SLICES = 8
_SLOTS = frozenset({4, 8})
#: Pods that an agent names as released at once, at most.
MOST_RELEASED = 64
#: The cut of a GPU that belongs to the agent.
FREE = "free"
_SELF = "X"


class Slice(msgspec.Struct):
    """One way to cut a GPU: its length in memory slices, and where it may start."""

    name: str
    size: int
    starts: list[int]


class GpuEntry(msgspec.Struct, rename="camel", omit_defaults=True):
    """One GPU of an inventory."""

    index: int
    uuid: str
    model: str = ""
    memory_mib: int = 0
    numa: int = -1
    links: list[str] = []
    mig: bool = False
    slices: list[Slice] = []
    cut: str = ""
    slots: int = 0
    note: str = ""
    health: str = WELL


class Listing(msgspec.Struct, omit_defaults=True):
    """All of the annotation."""

    gpus: list[GpuEntry] = msgspec.field(name="cards")
    fabric: str = ""
    clique: str = ""
    driver: str = ""
    cuda: str = ""
    toolkit: str = ""
    plugin: bool = False
    confirms: bool = False
    released: Annotated[list[str], msgspec.Meta(max_length=MOST_RELEASED)] = []
    version: int = VERSION


_listings = msgspec.json.Decoder(Listing)


def read(text: str) -> Inventory:
    """Raises FairleadError: the agent writes this, but a node's annotations can be edited.

    Where a device plugin picks the GPUs they are only counted: what we named would not be what a
    pod gets.
    """
    found = decoded(_listings, text, KEY)
    if found.version != VERSION:
        raise FairleadError(
            f"{KEY} has version {found.version} and this Fairlead reads {VERSION}; "
            "install the same version of both"
        )
    gpus = checked([_gpu(entry) for entry in found.gpus], KEY)
    links = _links(found.gpus)
    if found.plugin:
        return Inventory(gpus, links, found.clique, named=False)
    return Inventory(
        gpus,
        links,
        found.clique,
        frozenset({OURS, KAI}),
        confirms=found.confirms,
        released=frozenset(found.released),
    )


def write(listing: Listing) -> str:
    """The same list always gives the same text; the version is always in it."""
    text = msgspec.json.encode(listing).decode()
    return f'{{"version":{VERSION},{text[1:]}'


def _gpu(entry: GpuEntry) -> Gpu:
    mig = tuple(MigProfile(cut.name, cut.size, tuple(cut.starts)) for cut in entry.slices)
    if not all(map(_fits, mig)):
        raise FairleadError(f"{KEY} has a MIG profile that fits on no GPU")
    if entry.cut == FREE and entry.slots not in _SLOTS:
        raise FairleadError(f"{KEY} has a GPU with {entry.slots} slots; write 4 or 8")
    return Gpu(
        entry.uuid,
        entry.index,
        entry.model,
        entry.memory_mib,
        entry.numa,
        entry.health == WELL,
        mig=mig,
        slots=entry.slots if entry.cut == FREE else 0,
    )


def _fits(cut: MigProfile) -> bool:
    if not 0 < cut.slices <= _SLICES or not cut.starts:
        return False
    return all(0 <= start <= _SLICES - cut.slices for start in cut.starts)


def _links(entries: list[GpuEntry]) -> Links:
    """Empty where no GPU says anything."""
    if not any(entry.links for entry in entries):
        return ()
    if {len(entry.links) for entry in entries} != {len(entries)}:
        raise FairleadError(f"{KEY} has links that do not match its {len(entries)} GPUs")
    return tuple(
        tuple(0 if path == _SELF else link_gbps(path, entry.model) for path in entry.links)
        for entry in entries
    )
