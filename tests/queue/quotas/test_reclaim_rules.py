"""KAI's published scenarios of reclaim: who may take from whom, by given shares."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from fairlead.model.queues import GPUS, QueueSpec, Sharing
from fairlead.queue.quotas.reclaim import Reclaim
from fairlead.queue.quotas.share_node import ShareNode
from fairlead.queue.quotas.sums import TreeSums
from fairlead.queue.quotas.tree import QueueTree

#: Parent, quota, fair share and use, in GPUs.
Queue = tuple[str, int, float, int]


class GivenShares:
    """Shares as a scenario states them."""

    totals: Mapping[str, float]

    def __init__(self, tree: QueueTree, shares: Mapping[str, float]) -> None:
        self.totals = {GPUS: 100.0}
        self._shares = shares
        root = ShareNode(QueueSpec(""), None)
        root.rule = Sharing.KAI
        self._nodes: dict[str, ShareNode] = {}
        for key in tree:
            spec, above = tree.get(key), tree.lineage(key)[1:]
            assert spec is not None
            self._nodes[key] = ShareNode(spec, self._nodes[above[0]] if above else root)
            self._nodes[key].rule = Sharing.KAI

    def node(self, key: str) -> ShareNode | None:
        return self._nodes.get(key)

    def of(self, key: str) -> dict[str, float]:
        return {GPUS: self._shares[key]}


def reclaim(queues: Mapping[str, Queue], asked: int, multiplier: float = 1.0) -> Reclaim:
    """For a unit of the queue `us` that asks for so many GPUs."""
    tree = QueueTree()
    for name, (parent, quota, _, _) in queues.items():
        guaranteed = ((GPUS, quota),) if quota else ()
        tree.put(
            QueueSpec(
                name,
                parent,
                guaranteed,
                sharing=Sharing.KAI,
                saturation_multiplier=multiplier,
            )
        )
    used = TreeSums(tree)
    for name, (_, _, _, uses) in queues.items():
        if not tree.children(name):
            used.add(name, ((GPUS, uses),), +1)
    shares = GivenShares(tree, {name: share for name, (_, _, share, _) in queues.items()})
    return Reclaim(tree, shares, used, "us", {GPUS: asked}, 0)  # type: ignore[arg-type]


#: Queues, what is asked for, what the victim has, and whether it may go.
CASES: dict[str, tuple[Mapping[str, Queue], int, int, bool]] = {
    "below the share, from one above its own": (
        {"us": ("", 2, 4, 2), "them": ("", 2, 4, 6)}, 2, 2, True,
    ),
    "below the share, from one at its own": (
        {"us": ("", 2, 4, 2), "them": ("", 2, 4, 4)}, 1, 1, False,
    ),
    "below the quota, from one above its quota within its share": (
        {"us": ("", 4, 4, 2), "them": ("", 2, 6, 6)}, 2, 2, True,
    ),
    "beyond the share with the unit": (
        {"us": ("", 2, 4, 4), "them": ("", 2, 4, 6)}, 1, 1, False,
    ),
    "to exactly the share": (
        {"us": ("", 2, 4, 3), "them": ("", 2, 4, 6)}, 1, 1, True,
    ),
    "quotas that exceed the cluster: neither from the other": (
        {"us": ("", 60, 60, 59), "them": ("", 60, 60, 41)}, 1, 1, False,
    ),
    "departments: the other goes below its share": (
        {"d": ("", 0, 5, 3), "us": ("d", 1, 5, 3), "e": ("", 5, 5, 5), "them": ("e", 1, 3, 5)},
        1, 1, False,
    ),
    "departments: below its quota, the other above its own within its share": (
        {"d": ("", 5, 5, 3), "us": ("d", 1, 5, 3), "e": ("", 3, 6, 6), "them": ("e", 1, 6, 6)},
        1, 1, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_may_take_from_whom(case: str) -> None:
    queues, asked, loss, expected = CASES[case]
    assert reclaim(queues, asked).allows("them", 0, ((GPUS, loss),)) is expected


def test_each_unit_is_compared_after_those_that_went_before() -> None:
    queues = {"us": ("", 4, 4, 0), "them": ("", 2, 4, 6)}
    found = reclaim(queues, 4)
    gone = 0
    while found.allows("them", 0, ((GPUS, 1),)):
        found.take("them", ((GPUS, 1),), +1)
        gone += 1
    assert gone == 4, "down to its quota"


@pytest.mark.parametrize(
    ("multiplier", "left", "expected"),
    [
        (1.0, 15, True),  # 1.2 is below 1.4
        (1.0, 13, False),  # 1.2 is not below 1.2
        (1.1, 15, True),  # 1.32 is below 1.4
        (1.2, 15, False),  # 1.44 is not
        (2.0, 15, False),
    ],
)
def test_a_department_above_its_share_takes_from_one_that_is_more_above(
    multiplier: float, left: int, expected: bool
) -> None:
    """The department `d` would use 12 of a share of 10, the other uses `left` of 10 before."""
    queues = {
        "d": ("", 0, 10, 11), "us": ("d", 0, 5, 4), "more": ("d", 0, 5, 7),
        "e": ("", 0, 10, left), "them": ("e", 0, 10, left),
    }  # fmt: skip
    found = reclaim(queues, 1, multiplier)
    assert found.allows("them", 0, ((GPUS, 1),)) is expected


#: As in KAI's own tests: `preemptMinRuntime` and `reclaimMinRuntime` in seconds; 0: unset.
RUN_TIMES = {
    "prod": ("", 300, 600), "us": ("prod", 0, 0), "prod-2": ("prod", 120, 30),
    "dev": ("", 60, 60), "dev-1": ("dev", 0, 45), "dev-2": ("dev", 0, 0),
}  # fmt: skip


def timed(sharing: Sharing, us: str = "us") -> Reclaim:
    tree = QueueTree()
    for name, (parent, within, other) in RUN_TIMES.items():
        spec = QueueSpec(name, parent, sharing=sharing)
        tree.put(replace(spec, min_run_s=within, min_run_reclaim_s=other))
    shares = GivenShares(tree, dict.fromkeys(RUN_TIMES, 1.0))
    return Reclaim(tree, shares, TreeSums(tree), us, {GPUS: 1}, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("us", "them", "least_s"),
    [
        ("us", "us", 300),  # within the queue: the nearest above it that says one
        ("prod-2", "prod-2", 120),
        ("us", "prod-2", 30),  # siblings: that of the sibling
        ("us", "dev-1", 60),  # others: that of the first queue where the paths differ
        ("us", "dev-2", 60),
        ("dev-1", "prod-2", 600),
        ("dev-1", "dev-2", 60),  # none is said there: the next above
    ],
)
def test_the_least_time_that_a_unit_runs_for_kai(us: str, them: str, least_s: float) -> None:
    assert timed(Sharing.KAI, us).least_run_s(them) == least_s


def test_for_queues_of_ours_the_nearest_to_the_unit_counts() -> None:
    found = timed(Sharing.CONTINUOUS)
    assert found.least_run_s("dev-1") == 45
    assert found.least_run_s("dev-2") == 60
