"""How much each of several queues should have of one resource, if all use what they ask for.

1. Each has what it is guaranteed, as far as it asks for it. Where the guarantees together exceed
   what there is, all are reduced in proportion.
2. What is left is divided by weight, and none has more than it asks for or its limit. The weight of
   a queue that has used more than its part in the past is reduced. Queues of weight 0 share equally
   what all the others leave.

Shares are real numbers and have no jumps: a small change of what is asked, guaranteed, limited or
there changes no share by more than that. One pass over the queues in the order in which they are
satisfied gives the exact result.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: A weight that is so much less than the greatest is none.
_NO_WEIGHT = 1e-12


class QueueDemand(NamedTuple):
    """One of the queues among which a resource is divided."""

    #: What its units use and ask for, at most its limit.
    most: float
    guaranteed: float = 0.0
    weight: float = 1.0
    #: What it used in the past, as a fraction of the cluster.
    past: float = 0.0
    priority: int = 0
    created_s: float = 0.0
    uid: str = ""


#: The share of each queue, in the order of the queues.
Division = Callable[[float, Sequence[QueueDemand]], list[float]]


def continuous(total: float, queues: Sequence[QueueDemand]) -> list[float]:
    """The rule of this module."""
    if not queues:
        return []
    columns = tuple(zip(*queues, strict=True))
    return divide(total, *columns[:4])


def divide(
    total: float,
    most: Sequence[float],
    guaranteed: Sequence[float],
    weights: Sequence[float],
    past: Sequence[float],
) -> list[float]:
    """The same for columns, one value for each queue."""
    asked = np.array(most, dtype=float)
    shares = np.minimum(np.array(guaranteed, dtype=float), asked)
    promised = float(shares.sum())
    if promised >= total:
        shares *= total / promised if promised else 1.0
    else:
        corrected = corrected_weights(np.array(weights, dtype=float), np.array(past, dtype=float))
        shares += fill(total - promised, asked - shares, corrected)
    return list(shares.tolist())


def corrected_weights(weights: Floats, past: Floats) -> Floats:
    """Half the weight for a queue that used its part, by weight, of the whole cluster in the past.

    All queues count for what that part is, also those that ask for nothing now: so no share jumps
    when a queue begins to ask.
    """
    if not past.any():
        return weights
    whole = float(weights.sum())
    part = np.divide(weights, whole, out=np.zeros_like(weights), where=weights > 0.0)
    reduced = np.divide(part, part + past, out=np.zeros_like(weights), where=part > 0.0)
    return weights * reduced


def fill(amount: float, room: Floats, weights: Floats) -> Floats:
    """Divides by weight, and gives none more than it has room for.

    Those without a weight share equally what the others leave.
    """
    greatest = float(weights.max(initial=0.0))
    weights = weights / (greatest or 1.0)
    filled, weighted = room.copy(), weights > _NO_WEIGHT
    left = amount
    if weighted.any():
        filled[weighted], left = _fill_weighted(amount, room[weighted], weights[weighted])
    if not weighted.all():
        rest = room[~weighted]
        filled[~weighted], _ = _fill_weighted(left, rest, np.ones_like(rest))
    return filled


def _fill_weighted(amount: float, room: Floats, weights: Floats) -> tuple[Floats, float]:
    """What each gets, and what is left over."""
    order = np.argsort(room / weights, kind="stable")
    needed, heavy = room[order], weights[order]
    #: If all before it are satisfied: what each and those after it get for one unit of weight.
    left = np.maximum(0.0, amount - np.concatenate(([0.0], np.cumsum(needed)[:-1])))
    levels = left / np.cumsum(heavy[::-1])[::-1]
    unmet = needed > levels * heavy
    if not unmet.any():
        return room, max(0.0, amount - float(room.sum()))
    return np.minimum(room, levels[unmet.argmax()] * weights), 0.0
