"""How much of the GPUs is given away, and how much of that is at work: sums over columns."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.devices import Devices, GpuMask
from fairlead.cluster.load import STALE_S, GpuShares
from fairlead.model.gpus import WHOLE, MigProfile
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.sizes import remembered

STATES = ("free", "whole", "shared", "sliced", "lost")


@dataclass(frozen=True, slots=True)
class ModelSums:
    """The GPUs of one model; amounts in GPUs, parts counted."""

    #: By state, in the order of `STATES`.
    gpus: tuple[int, ...]
    allocated: float
    #: Of what is allocated, that of which there are readings; what is at work, and what is not.
    measured: float
    used: float
    wasted: float


def booked(devices: Devices) -> GpuShares:
    """The share of each GPU that pods hold: of compute, memory or slices, whichever is most."""
    taken: GpuShares = 1.0 - devices.milli_free / WHOLE
    by_memory = np.where(
        devices.memory > 0, 1.0 - devices.memory_free / devices.memory.clip(1), 0.0
    )
    np.maximum(taken, by_memory, out=taken)
    if devices.geometries:
        lengths = np.array([_length(kinds or ()) for kinds in devices.cuts.values])
        slices = np.bitwise_count(devices.slices_used) / lengths[devices.geometry]
        np.maximum(taken, slices, out=taken)
    taken *= devices.slotted[:, None] & (devices.users > 0)
    return taken.clip(0.0, 1.0, out=taken)


def states(devices: Devices) -> npt.NDArray[np.int64]:
    """What became of each GPU that is known one by one, as a position in `STATES`."""
    picks: list[GpuMask] = [
        _listed(devices) & ~devices.there,
        devices.slices_used > 0,
        devices.wholes > 0,
        devices.users > 0,
    ]
    found: npt.NDArray[np.int64] = np.select(picks, [4, 3, 1, 2], 0)
    return found


def by_model(cluster: Cluster, now_s: float) -> Mapping[str, ModelSums]:
    """Every model that there is; GPUs that are only counted go by the model of their node."""
    devices, load = cluster.columns.devices, cluster.columns.load
    share, mean = booked(devices), load.mean
    measured = (now_s - load.taken_s < STALE_S) & (devices.users > 0)
    # Slots without a GPU go to the end, which is not read.
    code = np.where(_listed(devices), devices.model, devices.models.width).ravel()

    def summed(amounts: GpuShares) -> GpuShares:
        return np.bincount(code, amounts.ravel(), devices.models.width + 1)  # type: ignore[return-value]

    by_state = np.bincount(code * len(STATES) + states(devices).ravel(), minlength=_most(devices))
    amounts = [
        summed(share),
        summed(share * measured),
        summed(mean * measured),
        summed((share - mean).clip(0.0) * measured),
    ]
    counted = _counted(cluster)
    found = {}
    for name, number in devices.codes.items():
        gpus = by_state[number * len(STATES) : (number + 1) * len(STATES)].tolist()
        allocated, *rest = (float(each[number]) for each in amounts)
        free, taken = counted.pop(number, (0, 0))
        found[name] = ModelSums(
            (gpus[0] + free, gpus[1] + taken, *gpus[2:]), allocated + taken, *rest
        )
    for free, taken in counted.values():  # of no known model
        found[""] = ModelSums((free, taken, 0, 0, 0), taken, 0.0, 0.0, 0.0)
    return {name: sums for name, sums in found.items() if any(sums.gpus)}


def _most(devices: Devices) -> int:
    return (devices.models.width + 1) * len(STATES)


def freshness(cluster: Cluster, now_s: float) -> tuple[Mapping[str, int], float | None]:
    """GPUs by how well they are known, and how long ago the latest word came."""
    devices, load = cluster.columns.devices, cluster.columns.load
    there, heard = _listed(devices) & devices.there, load.heard_s > -np.inf
    fresh = now_s - load.heard_s < STALE_S
    counts = {"fresh": there & fresh, "old": there & heard & ~fresh, "none": there & ~heard}
    latest = float(load.heard_s.max(initial=-np.inf))
    age_s = now_s - latest if latest > -np.inf else None
    return {state: int(gpus.sum()) for state, gpus in counts.items()}, age_s


def _listed(devices: Devices) -> GpuMask:
    """GPUs that are known one by one, in order or not."""
    mask: GpuMask = devices.known[:, None] & (devices.model >= 0)
    return mask


def _counted(cluster: Cluster) -> dict[int, tuple[int, int]]:
    """GPUs of nodes that only count them, free and taken, by model."""
    nodes, devices = cluster.nodes, cluster.columns.devices
    size = cluster.columns.size
    rows = ~devices.known[:size] & nodes.present()
    total, held = nodes.allocatable(GPU), nodes.requested(GPU)
    model = devices.model[:size, 0]
    found = {}
    for code in np.unique(model[rows]).tolist():
        these = rows & (model == code)
        taken = int(np.minimum(held, total)[these].sum())
        found[int(code)] = (int(total[these].sum()) - taken, taken)
    return found


@remembered(1 << 20)
def _length(kinds: tuple[MigProfile, ...]) -> int:
    """Memory slices that a whole GPU has."""
    return max((kind.slices for kind in kinds), default=8)
