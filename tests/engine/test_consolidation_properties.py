"""Plans against an exhaustive search on small clusters."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod, an_engine, see
from consolidation_world import plan_for, running
from examples import examples
from fairlead.engine.consolidation.plans import ConsolidationPlan
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen
from fairlead.model.consolidation import MoveLimits
from gang_world import a_gang

LIMITS = MoveLimits(horizon_s=1e9, most_gpu_seconds=1e9)


@dataclass(frozen=True)
class SmallCluster:
    """Free GPUs and pool of each node; GPUs, node and pool (or any) of each running pod."""

    free: tuple[int, ...]
    pools: tuple[str, ...]
    pods: tuple[tuple[int, int, str], ...]
    asked: int
    pool: str
    #: Pods that wait together.
    count: int = 1

    def fits(self, node: int, pool: str) -> bool:
        return pool in ("", self.pools[node])

    def engine(self) -> Engine:
        engine = an_engine()
        for number, (free, pool) in enumerate(zip(self.free, self.pools, strict=True)):
            used = sum(gpus for gpus, node, _ in self.pods if node == number)
            node = a_node(f"n{number}", gpus=free + used, labels={"pool": pool})
            engine.handle(NodeSeen(node), now=0.0)
        for number, (gpus, node, pool) in enumerate(self.pods):
            selector = (("pool", pool),) if pool else ()
            see(engine, running(f"p{number}", gpus, f"n{node}", node_selector=selector))
        return engine

    def least_moved(self) -> int | None:
        """GPUs that must move at least, by moves of up to two pods."""
        found = (
            sum(self.pods[number][0] for number in moved)
            for size in (1, 2)
            for moved in combinations(range(len(self.pods)), size)
            if any(self._ends(moved))
        )
        return min(found, default=None)

    def _ends(self, moved: tuple[int, ...]) -> Iterator[bool]:
        nodes = range(len(self.free))
        for places in product(nodes, repeat=self.count + len(moved)):
            free = list(self.free)
            asks = [(self.asked, self.pool)] * self.count
            for number in moved:
                free[self.pods[number][1]] += self.pods[number][0]
                asks.append((self.pods[number][0], self.pods[number][2]))
            for (gpus, pool), node in zip(asks, places, strict=True):
                free[node] -= gpus if self.fits(node, pool) else 1000
            yield min(free) >= 0


@st.composite
def small_clusters(draw: st.DrawFn, count: int = 1) -> SmallCluster:
    nodes = draw(st.integers(2, 4))
    pods = draw(
        st.lists(
            st.tuples(
                st.sampled_from([1, 1, 1, 2, 2, 3, 4]),
                st.integers(0, nodes - 1),
                st.sampled_from(["", "", "", "a", "b"]),
            ),
            min_size=1,
            max_size=7,
        )
    )
    pools = tuple(draw(st.sampled_from("ab")) for _ in range(nodes))
    pods = [(gpus, node, pool and pools[node]) for gpus, node, pool in pods]
    free = tuple(draw(st.integers(0, 3)) for _ in range(nodes))
    asked = draw(st.integers(2, 6 if count == 1 else 4))
    return SmallCluster(free, pools, tuple(pods), asked, draw(st.sampled_from(["", "a"])), count)


@examples(120)
@given(small_clusters())
def test_what_two_moves_can_do_is_found_and_no_more_gpus_move(small: SmallCluster) -> None:
    selector = (("pool", small.pool),) if small.pool else ()
    engine = small.engine()
    found = plan_for(
        engine, a_pod("big", gpus=small.asked, node_selector=selector), limits=LIMITS
    )  # fmt: skip
    _check(small, found, engine)


@examples(60)
@given(small_clusters(count=2))
def test_the_same_for_a_gang_of_two(small: SmallCluster) -> None:
    selector = (("pool", small.pool),) if small.pool else ()
    engine = small.engine()
    found = plan_for(
        engine, *a_gang("train", 2, gpus=small.asked, node_selector=selector), limits=LIMITS
    )  # fmt: skip
    _check(small, found, engine)


def _check(small: SmallCluster, found: object, engine: Engine) -> None:
    if not isinstance(found, ConsolidationPlan):
        fits = any(small._ends(()))
        assert fits or small.least_moved() is None, found
        return
    least = small.least_moved()
    assert least is None or found.moved_milli <= least * 1000
    free = dict(zip((f"n{n}" for n in range(len(small.free))), small.free, strict=True))
    for move in found.moves:
        free[move.node] += move.milli // 1000
        free[move.target] -= move.milli // 1000
        node = engine.cluster.node_named(move.target)
        assert node is not None
        assert all(node.labels.get(k) == v for k, v in move.pod.request.node_selector)
    for start in found.starts:
        free[start.node] -= small.asked
    assert len(found.starts) == small.count
    assert min(free.values()) >= 0
