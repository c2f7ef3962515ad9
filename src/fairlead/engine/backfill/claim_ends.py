"""When resource claims are deallocated: with the last of the pods that use them.

The devices of a claim of a PodGroup, or of a claim that no pod uses, do not become free.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

from fairlead.claims.pools import PoolKey
from fairlead.cluster.claim_room import keepers_of
from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.ends import Ends
from fairlead.model.pods import Pod

#: What it costs to look at a claim (see `Work.spent`).
_WORK = 5


class ClaimEnds:
    """It looks, and changes nothing."""

    def __init__(self, cluster: Cluster, ends: Ends, is_pending: Callable[[str], bool]) -> None:
        """`is_pending`: whether a pod waits for a node."""
        self._cluster = cluster
        self._ends = ends
        self._is_pending = is_pending

    def end_s(
        self, uid: str, now: float, planned: Pod, staying: Container[str] = ()
    ) -> float | None:
        """Of what holds devices, as the unit of a planned pod counts it; None: it does not end.

        Pods that are `staying` do not end.
        """
        self._cluster.work.terms += _WORK
        pods, last_s = keepers_of(uid, self._cluster, planned), now
        for pod in pods or ():
            end_s = None if pod in staying else self._end_of_pod(pod, now, planned)
            if end_s is None:
                return None
            last_s = max(last_s, end_s)
        return None if pods is None else last_s

    def of_some(
        self, uids: Collection[str], known: Mapping[str, float], now: float, planned: Pod
    ) -> Iterator[tuple[str, float]]:
        """Those of many that end, and when. `known`: when pods end, by uid; others do not."""
        cluster, holdings = self._cluster, self._cluster.holdings
        cluster.work.terms += _WORK * len(uids)
        for uid in uids:
            last_s: float | None = now
            pods = keepers_of(uid, cluster, planned)
            for pod in pods or ():
                end_s = known.get(pod)
                if end_s is None and pod not in holdings and not self._is_pending(pod):
                    end_s = now
                last_s = None if end_s is None or last_s is None else max(last_s, end_s)
            if pods and last_s is not None:
                yield uid, last_s

    def _end_of_pod(self, uid: str, now: float, planned: Pod) -> float | None:
        """One that has ended already is at its end: its claim is about to be deallocated."""
        held = self._cluster.holdings.get(uid)
        if held is None:
            return None if self._is_pending(uid) else now
        end = self._ends.of(held, now, planned)
        return None if end is None else end.at_s

    def ended(
        self,
        nodes: Iterable[str],
        until_s: float,
        now: float,
        planned: Pod,
        staying: Container[str] = (),
        pools: Iterable[PoolKey] = (),
    ) -> Iterator[str]:
        """Uids of those with devices of these nodes and pools that end by then."""
        for uid in self._holders(nodes, pools):
            end_s = self.end_s(uid, now, planned, staying)
            if end_s is not None and end_s <= until_s:
                yield uid

    def _holders(self, nodes: Iterable[str], pools: Iterable[PoolKey]) -> Collection[str]:
        state = self._cluster.claims
        parts = (part for node in nodes for part in state.slices_on(node))
        keys = dict.fromkeys((*((part.driver, part.pool) for part in parts), *pools))
        return dict.fromkeys(uid for key in keys for uid in state.holders.in_pool(key)).keys()
