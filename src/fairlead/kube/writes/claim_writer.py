"""Allocates and reserves the resource claims of pods: the writer of the step `ClaimStep`.

Nothing is bound before its claims are reserved for it. When a pod is not bound after all, what was
written for it is taken back before the failure is reported, so that the next attempt decides by
what the API server shows.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import partial
from typing import Any
from uuid import uuid4

import structlog

from fairlead.cluster.device_claims import ClaimWrite
from fairlead.engine.events import BindFailed, BindProblem
from fairlead.kube.claims.changes import ClaimChanged, free_next, reserve_next, take_back_next
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.claim_settlement import ClaimSettlement, Next
from fairlead.kube.writes.device_readiness import DeviceReadiness
from fairlead.kube.writes.preparer import StepFailed
from fairlead.kube.writes.settling import Outcome
from fairlead.kube.writes.special_claims import SpecialClaims
from fairlead.model.claims import AllocatedDevice, Allocation, ResourceClaim
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.plugins.claim_step import ClaimStep

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Desk:
    """A claim that is being written, for one pod after the other."""

    newest: ResourceClaim
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


#: Of others, the pod is gone or has a node: what was written stays until it ends.
_TRIED_AGAIN = (BindProblem.DENIED, BindProblem.UNAVAILABLE)


class ClaimWriter:
    """`seen` is told every claim that the API server answers with, before an outcome is reported.

    `now_s` is the time of day, for the time of an allocation.
    """

    def __init__(
        self,
        client: Transport,
        seen: Callable[[ResourceClaim], None],
        now_s: Callable[[], float],
        readiness: DeviceReadiness,
        special: SpecialClaims,
    ) -> None:
        self._client = client
        self._seen = seen
        self._now_s = now_s
        self._desks: dict[str, _Desk] = {}
        #: What was written for each pod that is not bound yet, by uid.
        self._written: dict[str, list[ClaimWrite]] = {}
        self._abandoned: set[str] = set()
        #: Pods whose claims are being taken back, by uid.
        self._releases: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._readiness = readiness
        self._special = special

    def look(self, key: str) -> None:
        """The claim with this key, or the pod with this uid, has changed or is gone."""
        self._readiness.look(key)
        self._special.look(key)

    def stop(self) -> None:
        """Ends at once: the next start sees what became of all. Call it before `Preparer.stop`."""
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()

    async def carry_out(self, pod: Pod, node: str, step: ClaimStep) -> None:
        """Returns when every claim is reserved for the pod; raises StepFailed.

        When the pod goes meanwhile, it is first made certain what became of each claim.
        """
        work = self._begin(self._write(pod, node, step))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            if not self._is_stopping:
                self._abandoned.add(pod.uid)
                self.look(pod.uid)
                await asyncio.wait((work,))
                await self.take_back(pod.uid)
                _raise_unexpected(work)
            raise
        finally:
            self._abandoned.discard(pod.uid)

    def bind_ended(self, outcome: Outcome, report: Callable[[Outcome], None]) -> None:
        """Reports the outcome of a bind; of a pod that can be tried again, after taking back."""
        may_try_again = isinstance(outcome, BindFailed) and outcome.problem in _TRIED_AGAIN
        if may_try_again and outcome.uid in self._written:
            self._begin(self._report_after_taking_back(outcome, report))
            return
        self._written.pop(outcome.uid, None)
        report(outcome)

    async def _report_after_taking_back(
        self, outcome: Outcome, report: Callable[[Outcome], None]
    ) -> None:
        await self.take_back(outcome.uid)
        report(outcome)

    async def take_back(self, uid: str) -> None:
        """The pod is not bound: its claims are not reserved for it any more.

        What was allocated for it, and no other pod uses, is free again.
        """
        for write in reversed(self._written.pop(uid, [])):
            if write.mappings:
                await self._special.delete(write.claim)
            else:
                await self._try(write.claim, partial(take_back_next, uid, write))

    def release(self, uid: str) -> None:
        """Takes back in the background."""
        if uid in self._written:
            task = self._releases[uid] = self._begin(self.take_back(uid))
            task.add_done_callback(partial(self._released, uid))

    def _released(self, uid: str, task: asyncio.Task[None]) -> None:
        if self._releases.get(uid) is task:
            del self._releases[uid]

    def free(self, uid: str, claim: ResourceClaim) -> asyncio.Task[None]:
        """The claim is allocated where the pod cannot go: frees it, in the background."""
        if claim.for_extended_resources and claim.owner == uid:  # of an earlier attempt
            return self._begin(self._special.delete(claim))
        return self._begin(self._try(claim, partial(free_next, uid, claim)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _write(self, pod: Pod, node: str, step: ClaimStep) -> None:
        if release := self._releases.get(pod.uid):  # it was decided on what is being undone
            await asyncio.wait((release,))
            raise StepFailed("claims of an earlier attempt were taken back in the meantime")
        try:
            claims = [await self._reserve(pod, write) for write in step.writes]
            await self._readiness.wait(pod, node, claims, partial(self._check, pod))
            self._check(pod)
        except StepFailed:
            await self.take_back(pod.uid)
            raise

    def _check(self, pod: Pod) -> None:
        if pod.uid in self._abandoned:
            raise StepFailed("pod no longer exists")

    async def _reserve(self, pod: Pod, write: ClaimWrite) -> ResourceClaim:
        """The claim as it is then."""
        self._check(pod)
        given = write.allocation
        if given is not None:
            write = replace(write, allocation=_completed(given, self._now_s()))
        if write.mappings:
            return await self._make(pod, write)
        written = await self._reserved(pod, write)
        if written is None:
            return write.claim
        self._written.setdefault(pod.uid, []).append(replace(write, claim=written))
        return written

    async def _reserved(self, pod: Pod, write: ClaimWrite) -> ResourceClaim | None:
        """The claim as it is then; None if there was nothing to write."""
        try:
            return await self._apply(write.claim, partial(reserve_next, pod, write))
        except ClaimChanged as error:
            raise StepFailed(str(error)) from None

    async def _make(self, pod: Pod, write: ClaimWrite) -> ResourceClaim:
        """A claim for extended resources: made, allocated, and named in the pod."""
        made = await self._special.make(pod, write)
        write = replace(write, claim=made)
        self._written.setdefault(pod.uid, []).append(write)  # it is deleted if anything fails
        self._check(pod)
        written = await self._reserved(pod, write) or made
        await self._special.name_in(pod, written, write)
        await self._special.await_shown(written, partial(self._check, pod))
        self._seen(written)
        return written

    async def _try(self, claim: ResourceClaim, next_request: Next) -> None:
        try:
            await self._apply(claim, next_request)
        except StepFailed as error:
            log.warning("cannot take back a claim", claim=claim.key, error=str(error))

    async def _apply(self, claim: ResourceClaim, next_request: Next) -> ResourceClaim | None:
        """The claim as it is then; None if there was nothing to write."""
        async with self._desk(claim) as desk:
            settlement = ClaimSettlement(self._client, desk.newest, self._seen)
            try:
                return settlement.now if await settlement.apply(next_request) else None
            finally:
                desk.newest = settlement.now

    @asynccontextmanager
    async def _desk(self, claim: ResourceClaim) -> AsyncIterator[_Desk]:
        """One writer at a time; each begins with what the one before it has read."""
        desk = self._desks.setdefault(claim.key, _Desk(claim))
        desk.newest = max(desk.newest, claim, key=_age)
        desk.users += 1
        try:
            async with desk.lock:
                yield desk
        finally:
            desk.users -= 1
            if not desk.users:
                del self._desks[claim.key]


def _raise_unexpected(work: asyncio.Task[None]) -> None:
    """That work for a pod that is gone has failed is expected, a defect is not."""
    error = None if work.cancelled() else work.exception()
    if error is not None and not isinstance(error, StepFailed):
        raise error


def _age(claim: ResourceClaim) -> int:
    return int(claim.version) if claim.version.isdecimal() else 0


def _completed(allocation: Allocation, now_s: float) -> Allocation:
    """With the time, and a name for each share of a device."""
    devices = tuple(_named(each) for each in allocation.devices)
    return replace(allocation, devices=devices, allocated_at=now_s)


def _named(result: AllocatedDevice) -> AllocatedDevice:
    return replace(result, share_id=str(uuid4())) if result.share_id == "" else result
