"""Asks HTTP extenders in kube-scheduler's protocol. No other pod waits for their answers."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog

from fairlead.apps.config.extender_terms import ExtenderPlan
from fairlead.apps.run.extender_client import Asked, ExtenderClient, ExtenderFault, Filtered
from fairlead.apps.run.extender_objects import ExtenderObjects
from fairlead.engine.events import Event, ExtendersAnswered
from fairlead.engine.instructions import AskExtenders
from fairlead.kube.http.client import Client
from fairlead.model.http_extenders import POINTS, ExtenderAnswer
from fairlead.telemetry.metrics import Metrics

#: After so many failed calls in a row, for so long, an extender is asked only where it must be.
_FAILURES = 3
_REST_S = 10.0
_Answer = TypeVar("_Answer")

log = structlog.get_logger(__name__)


class ExtenderCalls:
    """One task for each pod that is asked about; the engine limits how many there are."""

    def __init__(
        self,
        plans: Sequence[ExtenderPlan],
        client: Client,
        feed: Callable[[Event], None],
        metrics: Metrics,
    ) -> None:
        self._clients = [ExtenderClient(plan) for plan in plans]
        self._objects = ExtenderObjects(client)
        self._feed = feed
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[tuple[str, ...], float] = {}
        self._failures = FailureRecord()
        metrics.watch_counter(
            "fairlead_extender_calls",
            "Calls of HTTP extenders, by verb and result.",
            ("extender", "verb", "result"),
            lambda: self._calls,
        )

    def submit(self, question: AskExtenders) -> None:
        task = asyncio.create_task(self._answer(question), name="extenders")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Until cancelled; then no question is under way any more."""
        try:
            await asyncio.Event().wait()
        finally:
            for task in self._tasks:
                task.cancel()
            for client in self._clients:
                await client.close()

    async def _answer(self, question: AskExtenders) -> None:
        try:
            answer = await self._ask(question)
        except ExtenderFault as fault:
            answer = ExtenderAnswer(error=str(fault))
        except Exception as error:  # a defect: the pod is tried again
            log.exception("extender question failed", pod=question.pod.key)
            answer = ExtenderAnswer(error=f"internal error: {error!r:.300}")
        self._feed(ExtendersAnswered(question.pod.uid, answer))

    async def _ask(self, question: AskExtenders) -> ExtenderAnswer:
        clients = [each for each in self._clients if each.plan.terms.name in question.extenders]
        pod = await self._objects.pod(question.pod)
        objects = not all(client.plan.by_name for client in clients)
        known = await self._objects.nodes(question.nodes) if objects else {}
        asked = Asked(pod, [name for name in question.nodes if not objects or name in known], known)
        refused = dict.fromkeys(set(question.nodes) - set(asked.names), "")
        unresolvable: set[str] = set()
        for client in clients:
            if not client.plan.filter_verb or not asked.names:
                continue
            found = await self._filtered(client, asked)
            if found is not None:
                refused |= dict.fromkeys(set(asked.names) - set(found.names), "") | found.failed
                unresolvable |= found.unresolvable
                asked = Asked(pod, found.names, known)
        scores = await self._scores(clients, asked) if len(asked.names) > 1 else {}
        return ExtenderAnswer(tuple(asked.names), refused, frozenset(unresolvable), scores)

    async def _filtered(self, client: ExtenderClient, asked: Asked) -> Filtered | None:
        """None: the extender failed, and may."""
        try:
            return await self._called(client, "filter", client.filter(asked))
        except ExtenderFault:
            if not client.plan.terms.ignorable:
                raise
            return None

    async def _scores(self, clients: Sequence[ExtenderClient], asked: Asked) -> dict[str, float]:
        """Points of all extenders together; one that fails adds none."""
        scoring = [client for client in clients if client.plan.prioritize_verb]
        found = await asyncio.gather(*(self._prioritized(client, asked) for client in scoring))
        total = dict.fromkeys(asked.names, 0.0)
        for client, points in zip(scoring, found, strict=True):
            for node in total.keys() & points.keys():
                total[node] += points[node] * client.plan.weight * POINTS
        return total if scoring else {}

    async def _prioritized(self, client: ExtenderClient, asked: Asked) -> dict[str, float]:
        with suppress(ExtenderFault):
            return await self._called(client, "prioritize", client.prioritize(asked))
        return {}

    async def _called(
        self, client: ExtenderClient, verb: str, call: Coroutine[None, None, _Answer]
    ) -> _Answer:
        """Raises ExtenderFault."""
        name = client.plan.terms.name
        needed = verb == "filter" and not client.plan.terms.ignorable
        if not needed and self._failures.is_resting(name):
            call.close()
            self._count(name, verb, "skipped")
            raise ExtenderFault("skipped")
        try:
            found = await call
        except ExtenderFault as fault:
            self._count(name, verb, "error")
            self._failures.failed(name)
            log.warning("extender call failed", extender=name, verb=verb, error=str(fault))
            raise
        self._count(name, verb, "ok")
        self._failures.succeeded(name)
        return found

    def _count(self, *key: str) -> None:
        self._calls[key] = self._calls.get(key, 0.0) + 1.0


class FailureRecord:
    """An extender that failed several times is left out for a while, where pods go without it."""

    def __init__(self) -> None:
        self._failed: dict[str, int] = {}
        self._until_s: dict[str, float] = {}

    def failed(self, name: str) -> None:
        self._failed[name] = self._failed.get(name, 0) + 1
        if self._failed[name] >= _FAILURES:
            self._until_s[name] = time.monotonic() + _REST_S

    def succeeded(self, name: str) -> None:
        self._failed.pop(name, None)
        self._until_s.pop(name, None)

    def is_resting(self, name: str) -> bool:
        return time.monotonic() < self._until_s.get(name, 0.0)
