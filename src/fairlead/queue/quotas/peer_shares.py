"""How other schedulers divide a resource among queues, for the queues that are written for them."""

from collections.abc import Sequence
from math import floor

from fairlead.queue.quotas.fair_share import QueueDemand

#: KAI divides whole GPUs, of which amounts count thousandths.
GPU_MILLI = 1000.0


def kai(total: float, queues: Sequence[QueueDemand], unit: float = 1.0) -> list[float]:
    """KAI's: guarantees, never reduced, then the surplus by tiers of priority in whole units.

    What a queue used in the past is taken off its part of the weights, down to nothing.
    """
    shares = [min(queue.guaranteed, queue.most) / unit for queue in queues]
    left = total / unit - sum(shares)
    for tier in sorted({queue.priority for queue in queues}, reverse=True):
        if left <= 0.0:
            break
        members = [index for index, queue in enumerate(queues) if queue.priority == tier]
        left, fractions = _divide_whole_units(left, queues, shares, members, unit)
        for index in sorted(fractions, key=lambda each: _by_fraction(fractions, queues, each)):
            more = min(1.0, left)
            shares[index] += more
            left -= more
    return [share * unit for share in shares]


def _by_fraction(
    fractions: dict[int, float], queues: Sequence[QueueDemand], index: int
) -> tuple[float, float, str]:
    return -fractions[index], queues[index].created_s, queues[index].uid


def _divide_whole_units(
    left: float, queues: Sequence[QueueDemand], shares: list[float], tier: list[int], unit: float
) -> tuple[float, dict[int, float]]:
    """Rounds, until no queue asks for less than its part; the fractions that were not given."""
    fractions: dict[int, float] = {}
    while True:
        lacking = [
            (index, queues[index].most / unit - shares[index])
            for index in tier
            if queues[index].most / unit > shares[index]
        ]
        parts = _parts([queues[index] for index, _ in lacking])
        whole, amount, satisfied = sum(parts), left, False
        if not whole:
            return left, fractions
        for (index, asked), part in zip(lacking, parts, strict=True):
            if not left or not queues[index].weight:
                continue
            due = amount * (part / whole)
            given = asked if asked <= due else float(floor(due))
            fractions.pop(index, None)
            if given < asked and due > given:
                fractions[index] = due - given
            shares[index] += given
            left -= given
            satisfied = satisfied or asked < due
        if not satisfied or not left:
            return left, fractions


def _parts(queues: Sequence[QueueDemand]) -> list[float]:
    whole = sum(queue.weight for queue in queues)
    if not whole:
        return [0.0] * len(queues)
    parts = [queue.weight / whole for queue in queues]
    return [max(0.0, part + (part - queue.past)) for part, queue in zip(parts, queues, strict=True)]


def proportion(total: float, queues: Sequence[QueueDemand]) -> list[float]:
    """Volcano's plugin `proportion`: by weight in rounds, at least what is guaranteed.

    Guarantees are kept also for queues that ask for less.
    """
    held = sum(queue.guaranteed for queue in queues)
    most = [min(queue.most, total - held + queue.guaranteed) for queue in queues]
    shares, left, unmet = [0.0] * len(queues), total, list(range(len(queues)))
    while left > 0.0 and (whole := sum(queues[index].weight for index in unmet)):
        amount, before, still = left, sum(shares), list[int]()
        for index in unmet:
            queue, due = queues[index], shares[index] + amount * queues[index].weight / whole
            shares[index] = max(min(due, most[index]), queue.guaranteed)
            if due < most[index]:
                still.append(index)
        left -= sum(shares) - before
        if len(still) == len(unmet):
            break
        unmet = still
    return shares


def runtime(total: float, queues: Sequence[QueueDemand]) -> list[float]:
    """Koordinator's runtime quota: the minimum of each, then by shared weight in whole units."""
    shares = [int(min(queue.guaranteed, queue.most)) for queue in queues]
    left = int(total) - sum(shares)
    unmet = [index for index, queue in enumerate(queues) if queue.most > queue.guaranteed]
    while left > 0 and unmet and any(queues[index].weight > 0 for index in unmet):
        still, over = list[int](), 0
        given = _largest_remainders(left, [queues[index] for index in unmet])
        for index, more in zip(unmet, given, strict=True):
            shares[index] += more
            if shares[index] < queues[index].most:
                still.append(index)
            else:
                most = int(queues[index].most)
                over, shares[index] = over + shares[index] - most, most
        left, unmet = over, still
    return [float(share) for share in shares]


def _largest_remainders(amount: int, queues: Sequence[QueueDemand]) -> list[int]:
    """Whole units by weight; those that rounding leaves go to the largest remainders."""
    weights = [max(0, int(queue.weight)) for queue in queues]
    whole = sum(weights) or 1
    given = [weight * amount // whole for weight in weights]
    order = sorted(
        (index for index, weight in enumerate(weights) if weight),
        key=lambda index: (-(weights[index] * amount % whole), queues[index].uid),
    )
    for index in order[: amount - sum(given)]:
        given[index] += 1
    return given


def first_come(total: float, queues: Sequence[QueueDemand]) -> list[float]:
    """Volcano's plugin `capacity`: what the object says, and beyond that the first that asks."""
    return [min(queue.guaranteed, queue.most) for queue in queues]
