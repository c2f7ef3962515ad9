"""The continuous check: our copy against fresh lists, and the books against the copy.

A watch that lost an event looks perfectly healthy, and a sum that is wrong once stays wrong. So
every minute all objects are listed again, and everything that is booked is added up again, a few
nodes at a time so that decisions go on meanwhile. What is found to be wrong is put right, counted
and logged.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from fairlead.base.run_together import run_together
from fairlead.cluster.checking import misplaced, wrong_nodes
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.in_flight import Stage
from fairlead.kube.errors import ApiError
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.mirror.wire import StatusError
from fairlead.model.pods import Pod
from fairlead.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

EVERY_S = 60.0
# One kind whose list is slow must not hold up the check of all others.
LONGEST_S = 120.0
# Nodes that are added up in one go: two milliseconds.
_NODES = 32
# How many of them are logged.
_NAMED = 5


class Verification:
    """Runs beside the scheduler, in the same event loop."""

    def __init__(
        self,
        engine: Engine,
        reflectors: Callable[[], Sequence[Reflector[Any]]],
        pods: Reflector[Pod],
        feed: Callable[[events.Event], None],
        metrics: Metrics,
        every_s: float = EVERY_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._engine = engine
        self._reflectors = reflectors
        self._pods = pods
        self._feed = feed
        self._mismatches = metrics.mismatches
        self._every_s = every_s
        self._longest_s = longest_s
        #: Pods that broke the engine, and are left out for a while.
        self.leaves_out: Callable[[Pod], bool] = lambda _: False
        #: Seconds of CPU that the last look at the books took.
        self.booked_s = 0.0
        #: Nodes that are not used because of their number of pods, as last logged.
        self._crowded = frozenset[str]()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self.compare()
            await self.look_at_books()
            self.report_crowded_nodes()

    async def compare(self) -> None:
        """Our copies with fresh lists, and binds that were carried out with the copy of the pods.

        A pod whose bind was carried out before the list, and which is pending in a copy that
        agrees with the list, was set back: etcd was restored from a backup. It starts over. Its
        watch need not have shown a change, and what it was given would be held for ever.
        """
        written = tuple(self._engine.in_flight.unconfirmed())
        reflectors = list(self._reflectors())
        agree = await run_together(*(self._compare(each) for each in reflectors))
        if agree[reflectors.index(self._pods)]:
            self._look_at_unconfirmed(written)

    async def _compare(self, reflector: Reflector[Any]) -> bool:
        """Whether our copy was seen to agree with the list."""
        try:
            async with asyncio.timeout(self._longest_s):
                wrong = await reflector.verify()
        except (ApiError, StatusError, TimeoutError) as error:
            said = str(error) or f"nothing within {self._longest_s:g} s"
            log.warning("cache check failed; retrying", path=reflector.path, error=said)
            return False
        if wrong:
            self._mismatches.labels("objects").inc(len(wrong))
            log.error("cache mismatch: objects read again", path=reflector.path, objects=len(wrong))
        return not wrong and reflector.synced

    def _look_at_unconfirmed(self, written: Sequence[str]) -> None:
        waiting = {pod.uid: pod for pod in self._pods.objects.values() if not pod.node}
        for uid in written:
            pod = waiting.get(uid)
            if pod is not None and self._engine.in_flight.stage_of(uid) is Stage.BOUND:
                self._mismatches.labels("pods").inc()
                log.error("a bound pod is pending again: was etcd restored?", pod=pod.key)
                self._feed(events.PodGone(pod))
                self._feed(events.PodSeen(pod))

    async def look_at_books(self) -> None:
        """Every pod is booked where it is, and every node's columns are what its pods add up to."""
        started = time.thread_time()
        self._look_at_pods()
        self.booked_s = time.thread_time() - started
        names = sorted(self._engine.cluster.row_of)
        for first in range(0, len(names), _NODES):
            await asyncio.sleep(0)
            started = time.thread_time()
            self._look_at_nodes(names[first : first + _NODES])
            self.booked_s += time.thread_time() - started

    def _look_at_pods(self) -> None:
        engine = self._engine
        if not self._pods.synced:
            return
        bound = {
            pod.uid: pod for pod in self._pods.objects.values() if pod.node and not pod.finished
        }
        wrong = list(misplaced(engine.cluster, bound))
        lost = (pod for pod in self._pods.objects.values() if engine.has_lost(pod))
        wrong += ((pod.uid, pod) for pod in lost)
        wrong = [(uid, pod) for uid, pod in wrong if pod is None or not self.leaves_out(pod)]
        for uid, pod in wrong:
            gone = engine.cluster.holdings.get(uid)
            if pod is not None:
                self._feed(events.PodSeen(pod))
            elif gone is not None:
                self._feed(events.PodGone(gone.pod))
        if wrong:
            self._mismatches.labels("pods").inc(len(wrong))
            log.error("ledger mismatch: pods recounted", pods=len(wrong), first=wrong[0][0])

    def _look_at_nodes(self, names: Sequence[str]) -> None:
        wrong = wrong_nodes(self._engine.cluster, names)
        for name in wrong:
            node = self._engine.cluster.node_named(name)
            if node is not None:  # as if it went and came back: all that is on it is counted again
                self._feed(events.NodeGone(name))
                self._feed(events.NodeSeen(node))
        if wrong:
            self._mismatches.labels("ledger").inc(len(wrong))
            log.error("ledger mismatch: nodes recounted", nodes=len(wrong), first=wrong[:_NAMED])

    def report_crowded_nodes(self) -> None:
        """Once each: such a node is in no refusal and no explanation."""
        crowded = frozenset(self._engine.cluster.crowded)
        if new := sorted(crowded - self._crowded):
            log.warning(
                "too many pods on nodes; they are not used", nodes=len(new), first=new[:_NAMED]
            )
        self._crowded = crowded
