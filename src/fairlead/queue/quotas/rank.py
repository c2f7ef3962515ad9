"""Which of several queues of one parent has its next unit tried first: the smallest rank."""

from collections.abc import Mapping
from typing import Any

from fairlead.model.queues import GPUS, Sharing
from fairlead.queue.quotas.share_node import ShareNode

Rank = tuple[Any, ...]

_NEAR = 1e-6


def rank(
    node: ShareNode,
    used: Mapping[str, int],
    asked: Mapping[str, int],
    totals: Mapping[str, float],
    came: Rank,
) -> Rank:
    """Of a queue that uses so much, and whose next unit asks for so much and came in that order.

    Queues that are not over their share first; those whose unit is within what is guaranteed; the
    higher priority; those that would have least beyond their guarantee, for their weight; the unit
    that waited longest.
    """
    if node.parent is not None and node.parent.rule is Sharing.KAI:
        return *_kai_rank(node, used, asked), *came
    over, level, shares, guaranteed = False, 0.0, node.shares, node.guaranteed
    listed = within = False
    divisor = None if node.has_weights else node.divisor("")
    for name, more in asked.items():
        total = totals.get(name)
        if not total:
            continue
        has = used.get(name, 0)
        over = over or has > shares.get(name, has) + _NEAR
        beyond = has + more
        if name in guaranteed:  # a resource that it does not list is not guaranteed, and not asked
            beyond -= guaranteed[name]
            within = beyond <= 0 and (within or not listed)
            listed = True
        if beyond > 0:
            level = max(level, beyond / total / (divisor or node.divisor(name)))
    return over, not within, -node.spec.priority, level, *came


def is_over(shares: Mapping[str, float], used: Mapping[str, int], asked: Mapping[str, int]) -> bool:
    """Whether the queue uses more than its share of anything that the unit asks for."""
    for name in asked:
        share = shares.get(name)
        if share is not None and used.get(name, 0) > share + _NEAR:
            return True
    return False


def outside_rank(
    parent: ShareNode,
    used: Mapping[str, int],
    asked: Mapping[str, int],
    totals: Mapping[str, float],
    came: Rank,
) -> Rank:
    """Of units without a queue, or of a queue that has children: weight 1, nothing guaranteed."""
    level = 0.0
    for name, more in asked.items():
        total = totals.get(name)
        if total:
            level = max(level, (used.get(name, 0) + more) / total)
    if parent.rule is Sharing.KAI:
        return False, True, 0, False, level, level, 0.0, float("inf"), "", *came
    return False, True, 0, level, *came


def _kai_rank(node: ShareNode, used: Mapping[str, int], asked: Mapping[str, int]) -> Rank:
    """As KAI orders queues."""
    over, shareless, after, before = False, False, 0.0, 0.0
    for name, share in node.shares.items():
        has, more = used.get(name, 0), asked.get(name, 0)
        over = over or has > share + _NEAR
        most = _allocatable(node, name)
        if most > 0.0:
            after, before = max(after, (has + more) / most), max(before, has / most)
        else:
            shareless = shareless or has + more > 0
    quota = node.guaranteed
    within = all(used.get(name, 0) + more <= quota.get(name, 0) for name, more in asked.items()
                 if name in node.shares)  # fmt: skip
    spec = node.spec
    order = shareless, after, before, _allocatable(node, GPUS), spec.created_s, spec.uid
    return over, not within, -spec.priority, *order


def _allocatable(node: ShareNode, name: str) -> float:
    most = max(node.guaranteed.get(name, 0), node.shares.get(name, 0.0))
    return min(most, node.limit.get(name, most))
