"""Wins the Lease, keeps it, and says when it is lost."""

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import NoReturn

import structlog

from fairlead.base.timestamps import micro_time
from fairlead.kube.errors import ApiError
from fairlead.kube.http.transport import Transport
from fairlead.kube.leadership.election import Election, Terms
from fairlead.kube.leadership.epochs import EpochClient
from fairlead.kube.leadership.lease import LeaseClient, LeaseObject
from fairlead.model.errors import FairleadError

log = structlog.get_logger(__name__)

#: Standbys do not all ask at the same moment.
_JITTER = 0.1
_RELEASE_TRIES = 3
#: A candidate that has just read everything begins soon.
_UNFIT_PAUSE_S = 0.1


class LeadershipLost(FairleadError):
    """Another leads, or might lead by now: this one must stop deciding."""


def _clock_s() -> float:
    """Monotonic, and it continues while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Elector:
    """One candidate. `run` it in a task; it ends only by LeadershipLost or by being cancelled.

    `fit` says whether this candidate could do the work of a leader. One that cannot neither takes
    the lease nor renews it, so that another may.
    """

    def __init__(
        self,
        client: Transport,
        terms: Terms,
        *,
        fit: Callable[[], bool],
        identity: str | None = None,
        clock_s: Callable[[], float] = _clock_s,
        now_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.terms = terms
        self.elected = asyncio.Event()
        self._fit = fit
        self._clock_s, self._now_ns, self._sleep = clock_s, now_ns, sleep
        self._election = Election(identity or _unique_name(), terms)
        self._leases = LeaseClient(client, terms)
        self._epochs = EpochClient(client, terms, self.leads)
        #: What a write may go over; None: the Lease must be made.
        self._seen: LeaseObject | None = None
        #: Whether `_seen` is what the server has, for all we know.
        self._is_sure = False
        self._problem = ""

    @property
    def identity(self) -> str:
        return self._election.identity

    @property
    def holder(self) -> str:
        """The leader as last seen; empty if there is none."""
        return self._election.holder

    @property
    def epoch(self) -> str:
        """What our binds carry; of use only while we lead."""
        return self._election.epoch

    def leads(self) -> bool:
        """Whether no other can lead now. Check before each write, since it expires by itself."""
        return self._election.time_left_s(self._clock_s()) > 0

    async def run(self) -> NoReturn:
        """Stands by until it wins, then renews. Raises LeadershipLost."""
        await self._win()
        self.elected.set()
        log.info("elected", lease=self._name(), epoch=self.epoch)
        await self._keep()

    async def release(self) -> None:
        """Lets the next one start at once. Call it when nothing that was decided is under way."""
        for _ in range(_RELEASE_TRIES):
            if not self.leads():
                return
            try:
                await self._epochs.keep("")  # while no other leader can have written its own
                await self._look()
                record = self._election.release(micro_time(self._now_ns()))
                released = self.leads() and await self._leases.write(record, self._seen)
            except ApiError as error:
                log.warning(
                    "lease not released; it will expire", lease=self._name(), reason=str(error)
                )
                return
            if released:
                self._election.observe(record, self._clock_s())
                log.info("lease released", lease=self._name())
                return

    # -- standing by -------------------------------------------------------------------------

    async def _win(self) -> None:
        while not (self._fit() and await self._took()):
            await self._sleep(self._pause_s() if self._fit() else _UNFIT_PAUSE_S)

    async def _took(self) -> bool:
        known = self.holder
        try:
            await self._look()
            if self.holder not in ("", known, self.identity):
                log.info("standing by", lease=self._name(), leader=self.holder)
            if self._clock_s() < self._election.free_at_s():
                return False
            return await self._write_both()
        except ApiError as error:
            self._note(str(error))
            return False

    def _pause_s(self) -> float:
        """Until the next look, or until the lease runs out if that is sooner."""
        pause_s = self.terms.retry_s * (1 - _JITTER * random.random())
        left_s = self._election.free_at_s() - self._clock_s()
        return min(pause_s, left_s) if left_s > 0 else pause_s

    # -- leading -----------------------------------------------------------------------------

    async def _keep(self) -> NoReturn:
        while True:
            left_s = self._time_left_s()
            await self._sleep(min(self.terms.retry_s, left_s))
            left_s = self._time_left_s()
            if not self._fit():
                self._note("the scheduling loop has stopped")
                continue
            try:
                async with asyncio.timeout(left_s):
                    await self._renew()
            except TimeoutError:
                self._note("the API server does not answer")
            except ApiError as error:
                self._is_sure = False
                self._note(str(error))

    def _time_left_s(self) -> float:
        left_s = self._election.time_left_s(self._clock_s())
        if left_s > 0:
            return left_s
        reason = f"{self.holder or 'no process'} holds it now"
        if self.holder == self.identity:
            why = self._problem or "this process was paused"
            reason = f"no renewal within {self.terms.renew_s:g} s: {why}"
        log.error("leadership lost", lease=self._name(), reason=reason)
        raise LeadershipLost(
            f"lost the lease {self._name()}, {reason}; restart it, and it becomes a standby"
        )

    async def _renew(self) -> None:
        """Over what we wrote last, else over what stands there, if that is still us."""
        if self._is_sure and await self._write_both():
            return
        await self._look()
        if self.leads():
            await self._write_both()

    # -- reading and writing -----------------------------------------------------------------

    async def _look(self) -> None:
        self._seen = await self._leases.read()
        self._is_sure = True
        record = self._seen.record if self._seen else None
        self._election.observe(record, self._clock_s())

    async def _write(self) -> bool:
        """True if the lease is ours from the beginning of this write on."""
        began_s = self._clock_s()
        record = self._election.claim(micro_time(self._now_ns()))
        self._is_sure = False  # until there is an answer
        written = await self._leases.write(record, self._seen)
        if written is None:
            return False
        self._seen, self._is_sure = written, True
        self._election.written(written.record, began_s)
        self._note("")
        return True

    async def _write_both(self) -> bool:
        """The lease, and then the epoch, so that it stands before the first bind."""
        is_ours = await self._write()
        if is_ours:
            await self._epochs.keep(self.epoch)
        return is_ours

    def _note(self, problem: str) -> None:
        """Logs a trouble when it begins or changes, and when it is over."""
        if problem and problem != self._problem:
            log.warning("lease error; retrying", lease=self._name(), reason=problem)
        elif self._problem and not problem:
            log.info("lease renewed again", lease=self._name())
        self._problem = problem

    def _name(self) -> str:
        return f"{self.terms.namespace}/{self.terms.name}"


def _unique_name() -> str:
    """As kube-scheduler's: the host, for people, and something that no other process has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
