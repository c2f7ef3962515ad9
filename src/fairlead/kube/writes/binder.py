"""Writes Bindings, many at a time, and reports what became of each exactly once."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import msgspec
import structlog

from fairlead.engine.events import BindDone, BindFailed, BindProblem
from fairlead.engine.instructions import Bind
from fairlead.kube.counted_words import CHARGED_COUNTED
from fairlead.kube.failures import Failures
from fairlead.kube.http.transport import Transport
from fairlead.kube.queues.fairlead import CHARGED
from fairlead.kube.writes.annotations import problem_with_binding
from fairlead.kube.writes.nodelock import NodeLock
from fairlead.kube.writes.settling import BinderStats, Outcome, Patience, Settlement

log = structlog.get_logger(__name__)


class _Meta(msgspec.Struct):
    name: str
    namespace: str
    uid: str
    annotations: dict[str, str]


class _Target(msgspec.Struct, rename="camel"):
    name: str
    # Literally "Node": with an empty kind the API server does not copy the node's topology labels.
    kind: str = "Node"
    api_version: str = "v1"


class _Binding(msgspec.Struct, rename="camel"):
    metadata: _Meta
    target: _Target
    kind: str = "Binding"
    api_version: str = "v1"


_encode = msgspec.json.Encoder().encode


def encode_binding(bind: Bind) -> bytes:
    """The Binding that sets node and annotations in one write, for this very pod only."""
    pod = bind.pod
    meta = _Meta(pod.name, pod.namespace, pod.uid, dict(bind.annotations))
    return _encode(_Binding(meta, _Target(bind.node)))


class Binder:
    """Takes binds without blocking and calls `report` once for each, when it is certain.

    A fixed set of workers sends them in the order they came. `free_slots` tells the driver how many
    more to decide on: a bind that waits here was decided on a cluster that has changed since.
    `deadline_s` is how long the first try of a bind waits for its reply; `patience` has the rest.
    """

    def __init__(
        self,
        client: Transport,
        report: Callable[[Outcome], None],
        *,
        max_in_flight: int = 64,
        deadline_s: float | None = None,
        patience: Patience | None = None,
        failures: Failures | None = None,
    ) -> None:
        self._failures = failures or Failures()
        self._client = client
        self._report = report
        self._max_in_flight = max_in_flight
        patience = patience or Patience()
        self._patience = replace(patience, try_s=deadline_s or patience.try_s)
        self._queue: asyncio.Queue[Bind | None] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._open = 0
        self._stopping = False
        self._unsettled = 0
        self.stats = BinderStats()

    @property
    def free_slots(self) -> int:
        """How many more binds would be sent at once instead of waiting."""
        return max(0, self._max_in_flight - self._open)

    @property
    def is_settled(self) -> bool:
        """Whether it is certain of every bind that was sent what became of it."""
        return not self._unsettled

    def submit(self, bind: Bind) -> None:
        """Takes the bind; returns at once. Its outcome is reported later, never from here."""
        self._open += 1
        if bind.queue:
            bind = replace(bind, annotations={**bind.annotations, CHARGED: bind.queue})
        if bind.counted:
            charged = {CHARGED_COUNTED: bind.counted}
            bind = replace(bind, annotations={**bind.annotations, **charged})
        if self._stopping:
            asyncio.get_running_loop().call_soon(self._drop, bind)
        else:
            self._queue.put_nowait(bind)

    async def run(self) -> None:
        """Sends binds until `stop` is called or this is cancelled."""
        self._workers = [
            asyncio.create_task(self._work(), name=f"binder-{number}")
            for number in range(self._max_in_flight)
        ]
        try:
            done, _ = await asyncio.wait(self._workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                if not worker.cancelled():
                    worker.result()  # a worker that broke must not leave the others half alive
        finally:
            await _cancel(self._workers)

    async def stop(self, grace_s: float) -> None:
        """Reports queued binds as not sent, and lets those under way finish within the grace.

        One that is not settled by then is logged and not reported: whether the pod was bound is not
        known, and the pods that the next run lists will tell.
        """
        self._stopping = True
        while not self._queue.empty():
            bind = self._queue.get_nowait()
            if bind is not None:
                self._drop(bind)
        for _ in range(self._max_in_flight):
            self._queue.put_nowait(None)  # a worker that takes this goes home
        if self._workers:
            await asyncio.wait(self._workers, timeout=grace_s)
            await _cancel(self._workers)

    async def _work(self) -> None:
        while (bind := await self._queue.get()) is not None:
            try:
                outcome = await self._settle_or_fail(bind)
            except asyncio.CancelledError:
                self._unsettled += 1
                log.warning("bind outcome unknown at exit", pod=bind.pod.key, node=bind.node)
                raise
            self._finish(outcome)

    async def _settle_or_fail(self, bind: Bind) -> Outcome:
        """The outcome, whatever breaks on the way: a defect fails this bind, and no other."""
        try:
            return await self._settle(bind)
        except Exception as error:
            said = self._failures.note("binding", bind.pod.key, error)
            return await self._settlement(bind).outcome_if_sent(said)

    async def _settle(self, bind: Bind) -> Outcome:
        problem = problem_with_binding(bind.node, bind.annotations, bind.pod.annotations)
        if problem:
            return BindFailed(bind.pod.uid, BindProblem.DENIED, problem)
        if bind.lock is not None:
            return await self._settle_locked(bind, bind.lock)
        return await self._settlement(bind).outcome()

    async def _settle_locked(self, bind: Bind, lock: tuple[str, str]) -> Outcome:
        """The device plugin gives the lock back after a bind, and we after one that failed."""
        held = NodeLock(self._client, bind, lock)
        problem = await held.take()
        if problem:
            return BindFailed(bind.pod.uid, BindProblem.UNAVAILABLE, problem)
        outcome = await self._settlement(bind).outcome()
        if isinstance(outcome, BindFailed):
            await held.release()
        return outcome

    def _settlement(self, bind: Bind) -> Settlement:
        return Settlement(self._client, bind, encode_binding(bind), self._patience, self.stats)

    def _drop(self, bind: Bind) -> None:
        message = "not sent: the scheduler is stopping"
        self._finish(BindFailed(bind.pod.uid, BindProblem.UNAVAILABLE, message))

    def _finish(self, outcome: Outcome) -> None:
        self._open -= 1
        if isinstance(outcome, BindDone):
            self.stats.bound += 1
        elif outcome.problem is BindProblem.DENIED:
            self.stats.denied += 1
        self._report(outcome)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
