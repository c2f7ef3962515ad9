"""The node annotation `fairlead.dev/inventory`: the GPUs of a node as its agent lists them.

    {"version": 2,
     "fabric": "nvswitch",            # or "nvlink" (GPU to GPU) or "pcie"
     "clique": "1a2b….0",             # nodes with the same one share an NVLink domain
     "driver": "580.159.04", "cuda": "13.0", "toolkit": "1.17.8",   # versions, where known
     "plugin": true,                  # a device plugin hands out the GPUs, and picks them itself
     "picked": {"6a0c…": ["GPU-1a2b…"], …},   # which, by the uid of the pod, as the kubelet says
     "confirms": true,                # it says when the processes of pods that are gone have ended
     "released": ["6a0c…", …],        # they have, of the pods with these uids; the last ones only
     "gpus": [
       {"index": 0,                   # as nvidia-smi counts
        "uuid": "GPU-6a0c…",          # what CUDA_VISIBLE_DEVICES takes
        "model": "NVIDIA H200",       # as NVML spells it
        "memoryMib": 143771,          # in all, as NVML says
        "numa": 0,
        "links": ["X", "NV18", …],    # to each GPU in turn, as `nvidia-smi topo -m` says
        "mig": true,                  # can be cut up; left out where it cannot
        "slices": [                   # MIG is on: how it can be cut, and where
          {"name": "1g.18gb", "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6], "mib": 16384}, …],
        "cut": "free", "slots": 8,    # the agent cuts it where it is told; memory slices in all
        "mps": 48,                    # its MPS daemon is healthy, and serves so many clients
        "note": "…",                  # for operators; it has no effect
        "health": "lost"}]}           # what is wrong with it; left out while the GPU is well

Readers skip keys that they do not know. A version that they do not know they do not read.
"""

from typing import Annotated

import msgspec

from fairlead.model.limits import MOST_GPUS

KEY = "fairlead.dev/inventory"
VERSION = 2
WELL = "ok"
#: Pods that an agent names as released at once, at most.
MOST_RELEASED = 64
#: Pods whose GPUs a device plugin picked, at most.
MOST_PICKED = 256
#: The cut of a GPU that belongs to the agent.
FREE = "free"


_Uid = Annotated[str, msgspec.Meta(max_length=64)]
_Uuids = Annotated[list[str], msgspec.Meta(max_length=MOST_GPUS)]


class Slice(msgspec.Struct, omit_defaults=True):
    """One way to cut a GPU: its length in memory slices, where it may start, and its memory."""

    name: str
    size: int
    starts: list[int]
    mib: int = 0


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
    mps: int = 0
    note: str = ""
    health: str = WELL


class Listing(msgspec.Struct, omit_defaults=True):
    """All of the annotation."""

    gpus: list[GpuEntry]
    fabric: str = ""
    clique: str = ""
    driver: str = ""
    cuda: str = ""
    toolkit: str = ""
    plugin: bool = False
    confirms: bool = False
    released: Annotated[list[str], msgspec.Meta(max_length=MOST_RELEASED)] = []
    #: Absent where the kubelet is not asked.
    picked: Annotated[dict[_Uid, _Uuids], msgspec.Meta(max_length=MOST_PICKED)] | None = None
    version: int = VERSION


class ListingVersion(msgspec.Struct):
    """What lists of all versions have."""

    version: int = VERSION


decoder = msgspec.json.Decoder(Listing)
versions = msgspec.json.Decoder(ListingVersion)


def write(listing: Listing) -> str:
    """Equal lists give equal texts, and the version is always in it."""
    text = msgspec.json.encode(listing).decode()
    return f'{{"version":{VERSION},{text[1:]}'
