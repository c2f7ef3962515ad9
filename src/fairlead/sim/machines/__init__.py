"""GPU machines as they are sold, and the inventory that each reports.

The inventory is the node annotation `fairlead.dev/inventory`, the same that the node agent writes
on a real machine (`base/node_inventory.py` has its schema).

Links are X (itself), NVn (n bonded NVLinks), PIX, PXB, PHB, NODE or SYS. With "nvswitch" every GPU
reaches every other at the full rate at once; with "nvlink" only what the matrix says is there.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Literal
from uuid import UUID, uuid5

from fairlead.base.node_inventory import GpuEntry, Listing
from fairlead.model.lazy_dataclass import dataclass

_UUIDS = UUID("0f1e8b6e-6d38-4a39-9a52-2f2ad3c6d8c4")

Links = tuple[tuple[str, ...], ...]
Fabric = Literal["nvswitch", "nvlink", "pcie"]
GpuDriver = Literal["plugin", "whole", "mig", "example"]


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One model of GPU."""

    model: str
    memory_mib: int
    idle_w: int
    full_w: int
    family: str
    mig: bool = False


@dataclass(frozen=True, slots=True)
class MachineType:
    """One kind of machine. Its GPUs count from 0; `numa` and `links` follow that order."""

    kind: str
    short: str
    gpu: GpuModel
    cpus: int
    memory_gib: int
    numa: tuple[int, ...]
    links: Links
    fabric: Fabric

    @property
    def gpus(self) -> int:
        return len(self.numa)


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: a shape with a name and a place. `number` gives it an address of its own."""

    name: str
    shape: MachineType
    zone: str
    number: int
    #: What offers its GPUs: NVIDIA's device plugin; its DRA driver, which publishes whole GPUs or
    #: also each slice of MIG; or the example driver of Kubernetes.
    driver: GpuDriver = "plugin"


# -- how GPUs are wired ---------------------------------------------------------------------------


def _switched(nvlinks: int) -> Links:
    return _matrix(8, lambda *_: f"NV{nvlinks}")


def _bridged(gpus: int, near: str, per_numa: int) -> Links:
    """PCIe only: `near` between GPUs of one NUMA node, SYS across."""
    return _matrix(gpus, lambda a, b: near if a // per_numa == b // per_numa else "SYS")


# DGX-1V: two fully linked quads, joined GPU by GPU; the double links make a ring.
_CUBE_MESH: Mapping[tuple[int, int], int] = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
    (0, 4): 2, (1, 5): 2, (2, 6): 1, (3, 7): 1,
}  # fmt: skip


def _cube_mesh_link(a: int, b: int) -> str:
    nvlinks = _CUBE_MESH.get((min(a, b), max(a, b)))
    return f"NV{nvlinks}" if nvlinks else "SYS"


def _matrix(gpus: int, link: Callable[[int, int], str]) -> Links:
    across = range(gpus)
    return tuple(tuple("X" if a == b else link(a, b) for b in across) for a in across)


# -- what is sold ----------------------------------------------------------------------------------

_TWO_SOCKETS = (0, 0, 0, 0, 1, 1, 1, 1)

H200 = GpuModel("NVIDIA H200", 143771, idle_w=75, full_w=700, family="hopper", mig=True)
H100 = GpuModel("NVIDIA H100 80GB HBM3", 81559, idle_w=70, full_w=700, family="hopper", mig=True)
A100 = GpuModel("NVIDIA A100-SXM4-80GB", 81920, idle_w=60, full_w=400, family="ampere", mig=True)
V100 = GpuModel("Tesla V100-SXM2-32GB", 32768, idle_w=42, full_w=300, family="volta")
L40S = GpuModel("NVIDIA L40S", 46068, idle_w=33, full_w=350, family="ada-lovelace")
A10 = GpuModel("NVIDIA A10", 23028, idle_w=20, full_w=150, family="ampere")

HGX_H200 = MachineType(
    "hgx-h200-8", "h200", H200, 192, 2048, _TWO_SOCKETS, _switched(18), "nvswitch"
)
HGX_H100 = MachineType(
    "hgx-h100-8", "h100", H100, 192, 2048, _TWO_SOCKETS, _switched(18), "nvswitch"
)
HGX_A100 = MachineType(
    "hgx-a100-8", "a100", A100, 128, 1024, _TWO_SOCKETS, _switched(12), "nvswitch"
)
DGX_1V = MachineType(
    "dgx-1v", "dgx1v", V100, 80, 512, _TWO_SOCKETS, _matrix(8, _cube_mesh_link), "nvlink"
)
L40S_4 = MachineType("l40s-4", "l40s", L40S, 96, 768, (0, 0, 1, 1), _bridged(4, "NODE", 2), "pcie")
A10_4 = MachineType("a10-4", "a10", A10, 64, 256, (0, 0, 0, 0), _bridged(4, "PHB", 4), "pcie")

MACHINE_TYPES = (HGX_H100, HGX_H200, HGX_A100, DGX_1V, L40S_4, A10_4)
GPUS = {shape.gpu.model: shape.gpu for shape in MACHINE_TYPES}

#: A mixed cluster: 12 machines with 80 GPUs. The first six are all different.
_ROUND = (
    HGX_H100, L40S_4, HGX_H200, A10_4, HGX_A100, DGX_1V,
    HGX_H100, L40S_4, HGX_H200, A10_4, HGX_A100, HGX_H100,
)  # fmt: skip
DEFAULT_MACHINES = len(_ROUND)
_ZONES = ("zone-a", "zone-b", "zone-c")


def machines(count: int) -> list[Machine]:
    """A mix of machines, always the same for one count; names sort as they count."""
    shapes = list(itertools.islice(itertools.cycle(_ROUND), count))
    digits = max(2, len(str(count)))
    numbers = {shape.short: itertools.count(1) for shape in MACHINE_TYPES}
    return [
        Machine(
            f"{shape.short}-{next(numbers[shape.short]):0{digits}d}",
            shape,
            _ZONES[number % len(_ZONES)],
            number,
        )
        for number, shape in enumerate(shapes)
    ]


# -- what a machine says about itself --------------------------------------------------------------


def inventory(machine: Machine) -> Listing:
    """All GPUs well. UUIDs follow from the node's name, so a restart finds the same GPUs."""
    return Listing(list(_entries(machine)), fabric=machine.shape.fabric)


def _entries(machine: Machine) -> Iterator[GpuEntry]:
    shape = machine.shape
    for index, (numa, links) in enumerate(zip(shape.numa, shape.links, strict=True)):
        uuid = f"GPU-{uuid5(_UUIDS, f'{machine.name}/{index}')}"
        gpu = shape.gpu
        yield GpuEntry(
            index, uuid, gpu.model, gpu.memory_mib, numa=numa, links=list(links), mig=gpu.mig
        )
