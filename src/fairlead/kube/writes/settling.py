"""One bind, from the first request to a certain answer.

A bind may be reported as failed only when it is certain that the API server will not carry it out
any more; otherwise its device could be given away twice. So a refusal is final at once, but a reply
that never came leaves a *doubt*, and a doubt is settled by looking at the pod.
"""

import asyncio

import msgspec
import structlog

from fairlead.engine.events import BindDone, BindFailed, BindProblem
from fairlead.engine.instructions import Bind
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.paths import pod_path
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.nesting import of_any_depth
from fairlead.kube.writes.pauses import pause_s, spread
from fairlead.model.lazy_dataclass import dataclass

Outcome = BindDone | BindFailed

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class BinderStats:
    """What happened so far; plain counters, read for metrics."""

    sent: int = 0
    bound: int = 0
    conflicts: int = 0
    denied: int = 0
    lost_replies: int = 0
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long to try before a bind is reported as failed."""

    #: How long to wait for the first reply: less than what passes between a leader that stops and
    #: the next that starts.
    try_s: float = 4.5
    look_s: float = 30.0
    #: Tries that the server could not answer properly: lost replies and 5xx.
    tries: int = 5
    throttled: int = 5
    longest_throttle_s: float = 10.0
    #: How long to retry while the server does not answer at all.
    unreachable_s: float = 10.0
    #: How long a server may still carry out a request whose reply was lost: kube-apiserver ends
    #: every request after its --request-timeout, one minute unless set, and writes after 34 s.
    in_flight_s: float = 60.0
    first_pause_s: float = 0.01
    longest_pause_s: float = 5.0


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: list[object] | None = None


class Found(msgspec.Struct):
    """What must be read of a pod to judge a bind by it: whatever else it has cannot hinder that."""

    metadata: _Meta
    spec: _Spec


_read_pod = of_any_depth(msgspec.json.Decoder(Found).decode)


def judge(bind: Bind, now: Found | None) -> Outcome | None:
    """What the pod says about the bind; None when it is still free to be bound."""
    uid = bind.pod.uid
    if now is None or now.metadata.uid != uid:
        return BindFailed(uid, BindProblem.GONE, f"pod {bind.pod.key} is gone")
    if now.spec.node_name:
        if _is_ours(bind, now):
            return BindDone(uid)
        taken = f"pod {bind.pod.key} is already assigned to node {now.spec.node_name!r}"
        return BindFailed(uid, BindProblem.TAKEN, taken)
    if now.metadata.deletion_timestamp:
        message = f"pod {bind.pod.key} is being deleted, cannot be assigned to a host"
        return BindFailed(uid, BindProblem.DENIED, message)
    return None


def _is_ours(bind: Bind, now: Found) -> bool:
    found = now.metadata.annotations or {}
    return now.spec.node_name == bind.node and all(
        found.get(key) == value for key, value in bind.annotations.items()
    )


class Settlement:
    """Tries one bind until its outcome is certain."""

    def __init__(
        self, client: Transport, bind: Bind, body: bytes, patience: Patience, stats: BinderStats
    ) -> None:
        self._client = client
        self._bind = bind
        self._body = body
        self._patience = patience
        self._stats = stats
        self._path = pod_path(bind.pod.namespace, bind.pod.name)
        self._loop = asyncio.get_running_loop()
        self._failures = 0
        self._throttled = 0
        self._unreachable_since_s: float | None = None
        #: Until then a try of unknown outcome may still be carried out. None: all are answered.
        self._doubt_until_s: float | None = None

    async def outcome(self) -> Outcome:
        """The certain outcome. Takes as long as it must; cancelling it gives none."""
        while True:
            outcome = await self._try()
            if outcome is not None:
                return outcome
            self._stats.retries += 1

    async def outcome_if_sent(self, message: str) -> Outcome:
        """The certain outcome of an earlier settlement that broke off: it may have been sent."""
        self._doubt(self._patience.in_flight_s)
        return await self._give_up(BindProblem.UNAVAILABLE, message)

    async def _try(self) -> Outcome | None:
        self._stats.sent += 1
        # Each lost reply doubles the wait: a slow webhook must get the time to say its no,
        # or its pods would be asked about for ever.
        timeout_s = min(self._patience.try_s * 2**self._failures, self._patience.in_flight_s + 5)
        try:
            reply = await self._client.request(
                "POST", f"{self._path}/binding", body=self._body, timeout_s=timeout_s
            )
        except Unreachable as error:
            return await self._knock_again(str(error))
        except ReplyLost as error:
            self._stats.lost_replies += 1
            self._doubt(self._patience.in_flight_s)
            return await self._look_then_again(f"the reply to the bind was lost: {error}")
        if reply.status == 403 and self._unreachable_since_s is not None:
            # A server that has just started does not know yet who may do what.
            return await self._knock_again(reply.message)
        self._unreachable_since_s = None
        if reply.status < 300:
            return BindDone(self._bind.pod.uid)
        return await self._refused(reply)

    async def _refused(self, reply: Reply) -> Outcome | None:
        match reply.status:
            case 404:
                return BindFailed(self._bind.pod.uid, BindProblem.GONE, reply.message)
            case 409:
                return await self._conflict(reply)
            case 429:
                return await self._wait_for_turn(reply)
            case 401:  # nothing about this pod: our credentials are being renewed
                return await self._give_up(BindProblem.UNAVAILABLE, reply.message)
            case status if status >= 500:
                return await self._server_error(reply)
        return await self._give_up(BindProblem.DENIED, reply.message)

    async def _conflict(self, reply: Reply) -> Outcome | None:
        """409 means anything: an earlier try arrived, another was faster, or etcd stumbled.

        The binding handler turns every plain error into a conflict, also a write to etcd that timed
        out. Such a write may still happen, so a pod that is simply unbound leaves a doubt.
        """
        self._stats.conflicts += 1
        now = await self._read()
        outcome = judge(self._bind, now)
        if outcome is not None or now is None:
            return outcome
        if now.spec.scheduling_gates:
            return await self._give_up(BindProblem.DENIED, reply.message)
        self._doubt(self._patience.in_flight_s)
        return await self._again(reply.message)

    async def _wait_for_turn(self, reply: Reply) -> Outcome | None:
        self._throttled += 1
        if self._throttled > self._patience.throttled:
            return await self._give_up(BindProblem.UNAVAILABLE, reply.message)
        wait_s = 1.0 if reply.retry_after_s is None else reply.retry_after_s
        wait_s = min(max(wait_s, 0.0), self._patience.longest_throttle_s)
        await asyncio.sleep(spread(wait_s))
        return None

    async def _server_error(self, reply: Reply) -> Outcome | None:
        if reply.status in (502, 504) or b"etcdserver:" in reply.body:
            # Someone between us and etcd stopped waiting; the write may still be on its way.
            self._doubt(self._patience.in_flight_s)
        elif reply.status != 503:
            # The request is over, but what it had done before it failed is not known.
            self._doubt(0.0)
        return await self._again(reply.message)

    async def _look_then_again(self, message: str) -> Outcome | None:
        outcome = judge(self._bind, await self._read())
        return outcome or await self._again(message)

    async def _again(self, message: str) -> Outcome | None:
        """None after a pause, so that the same bind is sent again, until the tries are used up.

        Sending it again is safe, for its uid and node are the same: if the earlier one arrives
        after all, one of the two gets a conflict, and the pod tells. It is also better than to
        report a failure: an unbound pod may yet be bound by a request that is still under way.
        """
        self._failures += 1
        if self._failures >= self._patience.tries:
            return await self._give_up(BindProblem.UNAVAILABLE, message)
        await self._pause(self._failures - 1)
        return None

    async def _knock_again(self, message: str) -> Outcome | None:
        now_s = self._loop.time()
        if self._unreachable_since_s is None:
            self._unreachable_since_s = now_s
        waited_s = now_s - self._unreachable_since_s
        if waited_s >= self._patience.unreachable_s:
            return await self._give_up(BindProblem.UNAVAILABLE, message)
        await asyncio.sleep(spread(min(max(waited_s, self._patience.first_pause_s), 1.0)))
        return None

    async def _give_up(self, problem: BindProblem, message: str) -> Outcome:
        """A failure, once no earlier try can be carried out any more; success if one was."""
        while self._doubt_until_s is not None:
            # Before the read: a bind that is carried out during it would not be seen.
            left_s = self._doubt_until_s - self._loop.time()
            outcome = judge(self._bind, await self._read())
            if outcome is not None:
                return outcome
            if left_s <= 0:
                break
            await asyncio.sleep(min(left_s, self._patience.longest_pause_s))
        return BindFailed(self._bind.pod.uid, problem, message)

    def _doubt(self, for_s: float) -> None:
        until_s = self._loop.time() + for_s
        self._doubt_until_s = max(self._doubt_until_s or until_s, until_s)

    async def _read(self) -> Found | None:
        """The pod as etcd has it, None when there is none. Asks until there is an answer."""
        failures = 0
        while True:
            try:
                reply = await self._client.request(
                    "GET", self._path, timeout_s=self._patience.look_s
                )
                if reply.status == 200:
                    return _read_pod(reply.body)
                if reply.status == 404:
                    return None
                problem = f"{reply.status} {reply.message}"
            except (Unreachable, ReplyLost, *UNREADABLE) as error:
                problem = str(error)
            failures += 1
            self._stats.retries += 1
            if failures == self._patience.tries:
                log.warning("bind outcome still unknown", pod=self._bind.pod.key, problem=problem)
            await self._pause(failures - 1)

    async def _pause(self, failures: int) -> None:
        patience = self._patience
        first_s, longest_s = patience.first_pause_s, patience.longest_pause_s
        await asyncio.sleep(pause_s(failures, first_s=first_s, longest_s=longest_s))
