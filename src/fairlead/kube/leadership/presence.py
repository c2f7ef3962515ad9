"""Notices another scheduler of the same name, where no election decides between the two.

A scheduler without election keeps a Lease for each name that it serves. The Lease grants nothing.
A second scheduler sees it renewed, and does not start. Without the right to read or write Leases
nothing is noticed, and everything else works.
"""

import asyncio
import hashlib
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from fairlead.base.names import is_subdomain
from fairlead.base.run_together import run_together
from fairlead.base.timestamps import micro_time
from fairlead.kube.errors import ApiError
from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.leadership.election import LeaderRecord, Terms
from fairlead.kube.leadership.lease import LeaseClient, LeaseObject, LeaseProblem
from fairlead.model.errors import FairleadError

log = structlog.get_logger(__name__)

_NAMESPACE = "kube-system"
_ALL_LEASES = "/apis/coordination.k8s.io/v1/leases"
_RENEW_S = 3.0
#: A Lease that was not renewed for this long is free.
_SILENT_S = 8.0
_LOOK_S = 0.5
#: Each request is given half of it.
_REQUEST_S = 4.0


class NameTaken(FairleadError):
    """Another scheduler serves the name."""


class Presence:
    """The names that this process serves, claimed while it works."""

    def __init__(
        self,
        client: Transport,
        names: Iterable[str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4()}"
        self._name_leases = [_NameLease(client, name, identity, sleep) for name in sorted(names)]

    async def during(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does the work with the names claimed. Raises NameTaken if another has one of them."""
        parts: list[asyncio.Task[None]] = []
        try:
            await run_together(*(claim.take() for claim in self._name_leases))
            await self._warn_of_leaders()
            parts += [
                asyncio.create_task(claim.keep(), name="presence") for claim in self._name_leases
            ]
            parts.append(asyncio.create_task(work(), name="work"))
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in parts:
                task.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await asyncio.gather(*(claim.release() for claim in self._name_leases))

    async def _warn_of_leaders(self) -> None:
        """Which names an elected scheduler serves is not known here, so this is only a warning."""
        params = {"fieldSelector": f"metadata.name={Terms().name}"}
        with suppress(ApiError):
            reply = await self._client.request("GET", _ALL_LEASES, params=params)
            for holder, namespace in _holders(reply):
                log.warning("a scheduler with election runs in this cluster; serve other names",
                            namespace=namespace, holder=holder)  # fmt: skip


def _holders(reply: Reply) -> list[tuple[str, str]]:
    """Who holds the Leases in the reply, and in which namespaces; none if it is a refusal."""
    if reply.status != 200:
        return []
    leases = msgspec.json.decode(reply.body).get("items") or ()
    found = ((each.get("spec", {}).get("holderIdentity"), each["metadata"]["namespace"])
             for each in leases)  # fmt: skip
    return [(holder, namespace) for holder, namespace in found if holder]


class _NameLease:
    """The Lease of one scheduler name."""

    def __init__(
        self,
        client: Transport,
        name: str,
        identity: str,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._name, self._identity, self._sleep = name, identity, sleep
        self._lease = _lease_name(name)
        terms = Terms(name=self._lease, namespace=_NAMESPACE, renew_s=_REQUEST_S)
        self._leases = LeaseClient(client, terms)
        #: What we wrote last; None while the Lease is not ours.
        self._own: LeaseObject | None = None
        self._since = micro_time(time.time_ns())

    async def take(self) -> None:
        while self._own is None:
            try:
                self._own = await self._taken()
            except LeaseProblem as problem:
                log.info("cannot look for another scheduler of this name", scheduler=self._name,
                         reason=str(problem))  # fmt: skip
                return
            except ApiError as error:
                log.warning("cannot reach the API server yet", reason=str(error))
                await self._sleep(1.0)

    async def keep(self) -> None:
        while True:
            await self._sleep(_RENEW_S)
            with suppress(ApiError):
                await self._renew()

    async def release(self) -> None:
        if self._own is not None:
            with suppress(ApiError):
                await self._leases.write(self._record(holder=""), self._own)

    async def _taken(self) -> LeaseObject | None:
        """The Lease with us for its holder; None if another was faster."""
        seen = await self._leases.read()
        if seen is not None and await self._is_renewed(seen):
            raise _taken_by(seen.record.holder, self._name)
        return await self._leases.write(self._record(self._identity), seen)

    async def _is_renewed(self, seen: LeaseObject) -> bool:
        """Whether its holder is still there. Clocks of others are not compared with ours."""
        if not seen.record.holder or _has_ended(seen.record.holder):
            return False
        log.info("waiting to see if another scheduler has this name",
                 scheduler=self._name, holder=seen.record.holder)  # fmt: skip
        for _ in range(int(_SILENT_S / _LOOK_S)):
            await self._sleep(_LOOK_S)
            now = await self._leases.read()
            if now is None or not now.record.holder:
                return False
            if now.record != seen.record:
                return True
        return False

    async def _renew(self) -> None:
        if self._own is None:
            return
        written = await self._leases.write(self._record(self._identity), self._own)
        if written is None:  # a reply of ours was lost, or another took it while we were silent
            written = await self._leases.read()
            if written is None or written.record.holder != self._identity:
                raise _taken_by(written.record.holder if written else "", self._name)
        self._own = written

    def _record(self, holder: str) -> LeaderRecord:
        return LeaderRecord(holder, int(_SILENT_S), self._since, micro_time(time.time_ns()))


def _taken_by(holder: str, name: str) -> NameTaken:
    host, process, _ = _parts(holder)
    who = f"process {process} on {host}" if process else holder
    return NameTaken(
        f"another scheduler ({who}) serves {name!r} in this cluster, and two of one name would "
        "bind the same pods: stop it, give this one another name with --scheduler-name, or run "
        "both with --leader-elect"
    )


def _has_ended(holder: str) -> bool:
    """Whether it was a process of this machine that has ended: there is no need to wait for it."""
    host, process, _ = _parts(holder)
    if host != socket.gethostname() or not process.isdigit():
        return False
    if int(process) == os.getpid():  # of a container that was started again
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _parts(holder: str) -> tuple[str, str, str]:
    host, _, rest = holder.partition("_")
    process, _, unique = rest.partition("_")
    return host, process, unique


def _lease_name(scheduler: str) -> str:
    """A name that a Lease may have; schedulers may have any."""
    name = f"fairlead-serves-{scheduler}"
    if is_subdomain(name):
        return name
    return f"fairlead-serves-{hashlib.sha256(scheduler.encode()).hexdigest()[:16]}"
