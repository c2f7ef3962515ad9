"""How much of the cards is given away, and how much of that is at work: sums over columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.devices import CardMask, Devices
from fairlead.cluster.load import STALE_S, CardShares
from fairlead.model.gpus import WHOLE, MigProfile
from fairlead.model.nodes import GPU

STATES = ("free", "whole", "shared", "sliced", "lost")


@dataclass(frozen=True, slots=True)
class ModelSums:
    """The cards of one model; amounts in cards, parts counted."""

    #: By state, in the order of `STATES`.
    cards: tuple[int, ...]
    allocated: float
    #: Of what is allocated, that of which there are readings; what is at work, and what is not.
    measured: float
    used: float
    wasted: float


def booked(devices: Devices) -> CardShares:
    """The share of each card that somebody has: of compute, memory or slices, whichever is most."""
    taken = 1.0 - devices.milli_free / WHOLE
    memory = np.where(devices.memory > 0, 1.0 - devices.memory_free / devices.memory.clip(1), 0.0)
    lengths = np.array([_length(kinds) for kinds in devices.geometries] or [8])
    slices = np.bitwise_count(devices.slices_used) / lengths[devices.geometry]
    share = np.maximum.reduce([taken, memory, slices]).clip(0.0, 1.0)
    shares: CardShares = np.where(devices.known[:, None] & (devices.users > 0), share, 0.0)
    return shares


def states(devices: Devices) -> npt.NDArray[np.int64]:
    """What became of each card that is known one by one, as a position in `STATES`."""
    picks: list[CardMask] = [
        _listed(devices) & ~devices.there,
        devices.slices_used > 0,
        devices.wholes > 0,
        devices.users > 0,
    ]
    found: npt.NDArray[np.int64] = np.select(picks, [4, 3, 1, 2], 0)
    return found


def by_model(cluster: Cluster, now_s: float) -> Mapping[str, ModelSums]:
    """Every model that there is; cards that are only counted go by the model of their node."""
    devices, load = cluster.columns.devices, cluster.columns.load
    names = {code: name for name, code in devices.codes.items()} | {-1: ""}
    listed, share, state = _listed(devices), booked(devices), states(devices)
    fresh = now_s - load.taken_s < STALE_S
    counted = _counted(cluster)
    found = {}
    for code, name in names.items():
        of_model = listed & (devices.model == code)
        measured = of_model & fresh & (devices.users > 0)
        free, taken = counted.get(code, (0, 0))
        cards = [int((of_model & (state == n)).sum()) for n in range(len(STATES))]
        cards[0], cards[1] = cards[0] + free, cards[1] + taken
        if any(cards):
            found[name] = ModelSums(
                cards=tuple(cards),
                allocated=float(share[of_model].sum()) + taken,
                measured=float(share[measured].sum()),
                used=float(load.mean[measured].sum()),
                wasted=float((share - load.mean)[measured].clip(0.0).sum()),
            )
    return found


def freshness(cluster: Cluster, now_s: float) -> tuple[Mapping[str, int], float | None]:
    """Cards by how well they are known, and how long ago the latest word came."""
    devices, load = cluster.columns.devices, cluster.columns.load
    there, heard = _listed(devices) & devices.there, load.heard_s > -np.inf
    fresh = now_s - load.heard_s < STALE_S
    counts = {"fresh": there & fresh, "old": there & heard & ~fresh, "none": there & ~heard}
    latest = float(load.heard_s.max(initial=-np.inf))
    age_s = now_s - latest if latest > -np.inf else None
    return {state: int(cards.sum()) for state, cards in counts.items()}, age_s


def _listed(devices: Devices) -> CardMask:
    """Cards that are known one by one, in order or not."""
    mask: CardMask = devices.known[:, None] & (devices.model >= 0)
    return mask


def _counted(cluster: Cluster) -> dict[int, tuple[int, int]]:
    """Cards of nodes that only count them, free and taken, by model."""
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


@lru_cache(maxsize=256)
def _length(kinds: tuple[MigProfile, ...]) -> int:
    """Memory slices that a whole card has."""
    return max((kind.slices for kind in kinds), default=8)
