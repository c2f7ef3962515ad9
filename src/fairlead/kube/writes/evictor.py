"""Evicts pods that must make room: records an event for each, then deletes it."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from fairlead.base.timestamps import second_time
from fairlead.engine.events import EvictionEnded
from fairlead.engine.instructions import Evict
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.failures import Failures
from fairlead.kube.http.paths import pod_path
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import STRATEGIC_MERGE, Transport
from fairlead.kube.mirror.wire import read_identity
from fairlead.kube.writes.eviction_api import eviction_body
from fairlead.kube.writes.job_survival import job_path, job_problem, moved_of_jobs
from fairlead.kube.writes.pauses import pause_s
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

log = structlog.get_logger(__name__)

TRIES = 6
TIMEOUT_S = 10.0
LONGEST_PAUSE_S = 2.0

#: How the API server says that the scheduler may not use the Eviction API. Budgets, as they were
#: when the victims were chosen, allow them all.
_NO_RIGHT = 'cannot create resource "pods/eviction"'

_encode = msgspec.json.Encoder().encode


class _Condition(msgspec.Struct, rename="camel"):
    message: str
    last_transition_time: str
    observed_generation: int
    type: str = "DisruptionTarget"
    status: str = "True"
    reason: str = "PreemptionByScheduler"


class _Uid(msgspec.Struct):
    uid: str


class _Status(msgspec.Struct):
    conditions: list[_Condition]


class _Patch(msgspec.Struct):
    metadata: _Uid
    status: _Status


class _DeleteOptions(msgspec.Struct, rename="camel"):
    """The pod keeps its own grace period; a namesake that came since is left alone."""

    preconditions: _Uid
    kind: str = "DeleteOptions"
    api_version: str = "v1"


@dataclass(slots=True)
class EvictorStats:
    evicted: int = 0
    #: They were gone before we came.
    gone: int = 0
    failed: int = 0


class Evictor:
    """Takes evictions without blocking, and calls `report` once for each when it is over.

    `evicted(victim, node, evict)` is called for every pod that is being deleted. The last victim
    goes after the others, on whatever nodes they are: as long as one is left, the pod cannot be
    placed. Up to `max_in_flight` writes are under way at once, however many victims an eviction
    has, so that binds find a connection.

    Before pods are evicted to make room within budgets, `recorded` waits until it is written which
    devices are kept for the pod: a scheduler that comes after us could not find it out.
    """

    def __init__(
        self,
        client: Transport,
        report: Callable[[EvictionEnded], None],
        evicted: Callable[[Pod, str, Evict], None],
        *,
        now_ns: Callable[[], int],
        max_in_flight: int = 32,
        failures: Failures | None = None,
        recorded: Callable[[Pod], Awaitable[None]] | None = None,
    ) -> None:
        self._failures = failures or Failures()
        self._client = client
        self._report = report
        self._evicted = evicted
        self._recorded = recorded
        self._now_ns = now_ns
        self._max_in_flight = max_in_flight
        self._slots = asyncio.Semaphore(max_in_flight)
        self._queue: asyncio.Queue[Evict] = asyncio.Queue()
        self.stats = EvictorStats()

    def submit(self, evict: Evict) -> None:
        """Takes the eviction; returns at once."""
        self._queue.put_nowait(evict)

    async def run(self) -> None:
        """Evicts until cancelled. What is not done by then is decided again after a restart."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._max_in_flight):
                tasks.create_task(self._work(), name=f"evictor-{number}")

    async def _work(self) -> None:
        while True:
            evict = await self._queue.get()
            try:
                problem = await self._evict_all(evict)
            except Exception as error:
                problem = self._failures.note("evicting", evict.pod.key, error)
            if problem:
                self.stats.failed += 1
                log.warning("eviction failed", pod=evict.pod.key, node=evict.node, error=problem)
            self._report(EvictionEnded(evict.pod.uid, problem))

    async def _evict_all(self, evict: Evict) -> str:
        if evict.moves or evict.within_budgets:
            problem = await self._failing_job(evict) if evict.moves else ""
            problem = problem or await self._move_all(evict)
            if evict.moves or _NO_RIGHT not in problem:
                return problem
            log.warning("no right to create pods/eviction; pods are deleted", pod=evict.pod.key)
            await self._wait_recorded(evict)
        *others, last = [(v, node) for node, all_ in evict.victims_by_node.items() for v in all_]
        problems = await asyncio.gather(*(self._evict(*victim, evict) for victim in others))
        return next(filter(None, problems), "") or await self._evict(*last, evict)

    async def _failing_job(self, evict: Evict) -> str:
        """Why a Job would not create its pods again; empty if all would."""
        for (namespace, name), count in moved_of_jobs(evict.victims).items():
            try:
                reply = await self._send("GET", job_path(namespace, name), None)
            except (ReplyLost, Unreachable) as error:
                return f"Job {namespace}/{name} cannot be read: {error}"
            if why := job_problem(reply, count):
                return f"Job {namespace}/{name} {why}"
        return ""

    async def _move_all(self, evict: Evict) -> str:
        """None is evicted unless all may be; the first that is refused after all ends it."""
        victims = [(each, node) for node, all_ in evict.victims_by_node.items() for each in all_]
        for dry_run in (True, False):
            if not dry_run:
                await self._wait_recorded(evict)
            for start in range(0, len(victims), self._max_in_flight):
                some = victims[start : start + self._max_in_flight]
                moving = (self._move(*each, evict, dry_run=dry_run) for each in some)
                if problem := next(filter(None, await asyncio.gather(*moving)), ""):
                    return problem
        return ""

    async def _wait_recorded(self, evict: Evict) -> None:
        if self._recorded and evict.within_budgets:
            await self._recorded(evict.pod)

    async def _move(self, victim: Pod, node: str, evict: Evict, *, dry_run: bool) -> str:
        """Empty when the victim is on its way out (or could be), else what went wrong."""
        body = eviction_body(victim, dry_run=dry_run)
        told = await self._write(victim, "POST", "/eviction", body)
        if isinstance(told, str):
            return told
        if told.status in (404, 409):
            return "" if dry_run else self._note_gone()
        if told.status >= 300:
            return f"{victim.key} cannot be evicted: {told.message}"
        if not dry_run:
            self.stats.evicted += 1
            self._evicted(victim, node, evict)
        return ""

    def _note_gone(self) -> str:
        self.stats.gone += 1
        return ""

    async def _evict(self, victim: Pod, node: str, evict: Evict) -> str:
        """Empty when the victim is on its way out, else what went wrong."""
        told = await self._write(victim, "PATCH", "/status", self._why(victim, evict))
        if not isinstance(told, str) and told.status == 200:
            options = _encode(_DeleteOptions(_Uid(victim.uid)))
            told = await self._write(victim, "DELETE", "", options)
        if isinstance(told, str):
            return told
        if told.status in (404, 409):  # gone, or its name is that of another pod now
            self.stats.gone += 1
            return ""
        if told.status >= 300:
            return f"{victim.key} cannot be evicted: {told.message}"
        self.stats.evicted += 1
        self._evicted(victim, node, evict)
        return ""

    def _why(self, victim: Pod, evict: Evict) -> bytes:
        who = evict.pod.scheduler
        condition = _Condition(
            message=evict.because or f"{who}: preempting to accommodate a higher priority pod",
            last_transition_time=second_time(self._now_ns()),
            observed_generation=victim.generation,
        )
        return _encode(_Patch(_Uid(victim.uid), _Status([condition])))

    async def _write(self, victim: Pod, method: str, part: str, body: bytes) -> Reply | str:
        """The reply, or why there is none. Both writes may safely be sent twice.

        A disruption budget answers an eviction with 429, which is returned: only a later plan may
        ask again.
        A 409 is returned only where the victim is gone. It may as well say that the pod was
        changed meanwhile, or that a write to etcd timed out: then the same is tried again.
        """
        path, problem = pod_path(victim.namespace, victim.name), ""
        for tries in range(TRIES):
            try:
                reply = await self._send(method, path + part, body)
                passing = reply.status >= 500 or (reply.status == 429 and method != "POST")
                if reply.status == 409:
                    passing = not await self._is_gone(victim, path)
                if not passing:
                    return reply
                problem = reply.message
            except (ReplyLost, Unreachable) as error:
                problem = str(error)
            await asyncio.sleep(pause_s(tries, longest_s=LONGEST_PAUSE_S))
        return f"{victim.key} cannot be evicted: {problem}"

    async def _is_gone(self, victim: Pod, path: str) -> bool:
        reply = await self._send("GET", path, None)
        if reply.status != 200:
            return reply.status == 404
        try:
            return read_identity(reply.body).uid != victim.uid
        except UNREADABLE:
            return False

    async def _send(self, method: str, path: str, body: bytes | None) -> Reply:
        kind = STRATEGIC_MERGE if method == "PATCH" else "application/json"
        async with self._slots:
            return await self._client.request(
                method, path, body=body, content_type=kind, timeout_s=TIMEOUT_S
            )
