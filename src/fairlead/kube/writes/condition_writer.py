"""The PodScheduled=False condition: why a pod waits, on the pod itself."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import msgspec

from fairlead.base.timestamps import second_time
from fairlead.engine.instructions import AnnounceFailure
from fairlead.kube.codec import decode_pod
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.paths import pod_path
from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import STRATEGIC_MERGE, Transport
from fairlead.kube.kept_records import DEVICES_KEPT, REASON, kept_text
from fairlead.kube.writes.event_objects import shortened
from fairlead.kube.writes.outbox import Outbox, WriteCounts
from fairlead.kube.writes.pauses import pause_s
from fairlead.kube.writes.recent import Recent
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

POD_SCHEDULED = "PodScheduled"

TRIES = 12
TIMEOUT_S = 5.0
#: Thousands may wait to be written, so each is small: no more of a message, and nothing of a pod
#: but which it is.
LONGEST_MESSAGE_BYTES = 8192
UNREACHABLE_PAUSE_S = 0.5
#: How long evictions wait for the record of the devices that they free.
RECORDED_WITHIN_S = 5.0

_encode = msgspec.json.Encoder().encode


class _Condition(msgspec.Struct, rename="camel"):
    """Fields that are left out keep the value they have on the server."""

    reason: str
    message: str
    type: str = POD_SCHEDULED
    status: str = "False"
    last_transition_time: str | msgspec.UnsetType = msgspec.UNSET
    observed_generation: int | msgspec.UnsetType = msgspec.UNSET


class _NoCondition(msgspec.Struct):
    """Takes a condition away."""

    type: str
    directive: str = msgspec.field(default="delete", name="$patch")


class _Meta(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str | msgspec.UnsetType = msgspec.UNSET


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition | _NoCondition] | msgspec.UnsetType = msgspec.UNSET
    #: None takes it away.
    nominated_node_name: str | msgspec.UnsetType | None = msgspec.UNSET


class _Standing(NamedTuple):
    """What a pod's status says about its waiting."""

    reason: str = ""
    message: str = ""
    nominated: str = ""
    #: Devices that are kept for it: the message of the condition about them.
    kept: str = ""


class _Patch(msgspec.Struct):
    metadata: _Meta
    status: _Status


@dataclass(slots=True)
class _Explanation:
    """A condition to write, on what we believe the pod to be."""

    announce: AnnounceFailure
    version: str
    generation: int
    #: What stands there as far as we know.
    standing: _Standing
    failures: int = 0

    @property
    def wanted(self) -> _Standing:
        """The status to write; a nomination that is not mentioned stays."""
        announce = self.announce
        stays = announce.nominated is None
        if stays:
            nominated, kept = self.standing.nominated, self.standing.kept
        else:
            nominated, kept = announce.nominated or "", kept_text(announce.kept)
        return _Standing(announce.reason, announce.message, nominated, kept)


class ConditionWriter:
    """Writes the newest condition of each pod, and none that stands there already.

    Every patch names the pod's uid and resourceVersion. So it can hit neither a namesake nor a pod
    that was bound in the meantime, whose PodScheduled=True it would overturn.
    """

    def __init__(
        self,
        client: Transport,
        *,
        now_ns: Callable[[], int],
        limit: int,
        workers: int,
        longest_pause_s: float = 5.0,
    ) -> None:
        self._client = client
        self._longest_pause_s = longest_pause_s
        self._now_ns = now_ns
        self.tally = WriteCounts()
        self._outbox = Outbox(self._deliver, self.tally, limit=limit, workers=workers)
        #: Pods of which it is to be written which devices are kept, with their gang or themselves.
        self._records: dict[str, str] = {}
        #: What was last written, by uid: the watch that will show it may lag.
        self._written: Recent[str, _Standing] = Recent(limit)

    def failed(self, announce: AnnounceFailure) -> None:
        pod = announce.pod
        unsent = self._outbox.unsent(pod.uid)
        if unsent is not None and announce.nominated is None:
            # What is still to be written about its nomination is not lost over a new message.
            before = unsent.announce
            announce = replace(announce, nominated=before.nominated, kept=before.kept)
        standing = self._known(pod)
        announce = replace(
            announce,
            pod=Pod(pod.namespace, pod.name, pod.uid, nominated=pod.nominated),
            message=shortened(announce.message, LONGEST_MESSAGE_BYTES),
        )
        explanation = _Explanation(announce, pod.version, pod.generation, standing)
        if explanation.wanted == standing and not self._outbox.holds(pod.uid):
            self.tally.skipped += 1
            return
        has_record = announce.kept is not None
        if has_record:
            self._records[pod.uid] = _unit_of(pod)
        self._outbox.put(pod.uid, explanation, urgent=has_record)

    def unnominated(self, pod: Pod) -> None:
        standing = self._known(pod)
        self.failed(AnnounceFailure(pod, standing.reason, standing.message, nominated=""))

    def scheduled(self, uid: str) -> None:
        """Nothing about this pod needs to be explained any more."""
        self._outbox.withdraw(uid)
        self._records.pop(uid, None)
        self._written.drop(uid)

    async def recorded(self, pod: Pod) -> None:
        """Waits for a while until it is written which devices are kept for the pod or its gang."""
        if self._records:
            unit, holds = _unit_of(pod), self._outbox.holds
            self._records = {uid: of for uid, of in self._records.items() if holds(uid)}
            of_unit = [uid for uid, of in self._records.items() if of == unit]
            await self._outbox.settled(of_unit, RECORDED_WITHIN_S)

    def _known(self, pod: Pod) -> _Standing:
        return self._written_for(pod) or _stands(pod)

    def _written_for(self, pod: Pod) -> _Standing | None:
        """What we wrote, unless others have nominated the pod since.

        If it only looks so because the watch lags, the patch meets a conflict, and we look again.
        """
        written = self._written.get(pod.uid)
        by_others = written is not None and pod.nominated not in ("", written.nominated)
        return None if by_others else written

    async def run(self) -> None:
        await self._outbox.run()

    async def stop(self, grace_s: float) -> None:
        await self._outbox.stop(grace_s)

    async def _deliver(self, explanation: _Explanation, _tries: int) -> float | None:
        pod = explanation.announce.pod
        explanation.standing = self._written_for(pod) or explanation.standing
        if explanation.standing == explanation.wanted:
            self.tally.skipped += 1
            return None
        try:
            reply = await self._patch(explanation)
            if reply.status == 409 and not await self._still_wanted(explanation):
                self.tally.skipped += 1
                return None
        except ReplyLost:
            return self._later(explanation)
        except Unreachable:
            # Not counted as a failure: the condition is written when the server is back.
            await asyncio.sleep(UNREACHABLE_PAUSE_S)
            return UNREACHABLE_PAUSE_S
        return self._answered(explanation, reply)

    def _answered(self, explanation: _Explanation, reply: Reply) -> float | None:
        if reply.status < 300:
            self.tally.written += 1
            self._written.put(explanation.announce.pod.uid, explanation.wanted)
            return None
        if reply.status == 429:
            return self._later(explanation, reply.retry_after_s or 1.0)
        if reply.status == 409 or reply.status >= 500:
            return self._later(explanation)
        if reply.status == 404:
            self.tally.skipped += 1
        else:
            self.tally.rejected += 1
        return None

    def _later(self, explanation: _Explanation, at_least_s: float = 0.0) -> float | None:
        wait_s = pause_s(explanation.failures, longest_s=self._longest_pause_s)
        explanation.failures += 1
        if explanation.failures >= TRIES:
            self.tally.dropped += 1
            return None
        return max(wait_s, min(at_least_s, self._longest_pause_s))

    async def _patch(self, explanation: _Explanation) -> Reply:
        pod = explanation.announce.pod
        meta = _Meta(pod.uid, explanation.version or msgspec.UNSET)
        status = _Status(self._conditions(explanation))
        if explanation.wanted.nominated != explanation.standing.nominated:
            status.nominated_node_name = explanation.wanted.nominated or None
        return await self._client.request(
            "PATCH",
            f"{pod_path(pod.namespace, pod.name)}/status",
            body=_encode(_Patch(meta, status)),
            content_type=STRATEGIC_MERGE,
            timeout_s=TIMEOUT_S,
        )

    def _conditions(
        self, explanation: _Explanation
    ) -> list[_Condition | _NoCondition] | msgspec.UnsetType:
        found = [*self._waits(explanation), *self._keeps(explanation)]
        return found or msgspec.UNSET  # there is none, and none is to be

    def _keeps(self, explanation: _Explanation) -> Iterator[_Condition | _NoCondition]:
        """Devices that are kept for the pod, if that has changed."""
        kept = explanation.wanted.kept
        if kept == explanation.standing.kept:
            return
        if not kept:
            yield _NoCondition(DEVICES_KEPT)
            return
        now = second_time(self._now_ns())
        yield _Condition(REASON, kept, DEVICES_KEPT, "True", last_transition_time=now)

    def _waits(self, explanation: _Explanation) -> Iterator[_Condition]:
        """Why the pod waits."""
        if not explanation.wanted.reason:
            return
        condition = _Condition(explanation.wanted.reason, explanation.wanted.message)
        if not explanation.standing.reason:
            # Otherwise the time of the first refusal is kept, as kube-scheduler does.
            condition.last_transition_time = second_time(self._now_ns())
        if explanation.generation:
            condition.observed_generation = explanation.generation
        yield condition

    async def _still_wanted(self, explanation: _Explanation) -> bool:
        """Looks at the pod again, and takes over what has changed."""
        pod = explanation.announce.pod
        reply = await self._client.request(
            "GET", pod_path(pod.namespace, pod.name), timeout_s=TIMEOUT_S
        )
        if reply.status != 200:
            return reply.status != 404
        now = decode_pod(reply.body)
        if now.uid != pod.uid or now.node:
            return False
        explanation.version = now.version
        explanation.generation = now.generation
        explanation.standing = _stands(now)
        self._written.drop(pod.uid)  # what the server says counts for more
        return explanation.standing != explanation.wanted


def _unit_of(pod: Pod) -> str:
    return pod.gang.gang if pod.gang else pod.uid


def _stands(pod: Pod) -> _Standing:
    reason, message = pod.condition
    said = shortened(message, LONGEST_MESSAGE_BYTES)
    return _Standing(reason, said, pod.nominated, kept_text(pod.kept))
