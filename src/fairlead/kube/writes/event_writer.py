"""Events: one for each message, with a count of its repetitions."""

import asyncio
from collections.abc import Callable

import msgspec

from fairlead.base.run_together import run_together
from fairlead.base.timestamps import micro_time
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceNotice,
    AnnounceScheduled,
    AnnounceWarning,
    Evict,
)
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import STRATEGIC_MERGE, Transport
from fairlead.kube.writes import event_objects
from fairlead.kube.writes.outbox import Outbox, WriteCounts
from fairlead.kube.writes.pauses import pause_s
from fairlead.kube.writes.recent import Recent
from fairlead.kube.writes.spam import NS_PER_S, SpamFilter
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

# client-go's figures.
TRIES = 12
SERIES_ENDS_NS = 360 * NS_PER_S
SERIES_RENEWED_NS = 1800 * NS_PER_S

TIMEOUT_S = 10.0
UNREACHABLE_PAUSE_S = 0.5
LONGEST_RETRY_AFTER_S = 60.0
REVIEW_S = 60.0
#: How long a notice of a bind gives way to other binds, and how often it looks.
LATEST_S = 5.0
LOOK_S = 0.05

_API = "/apis/events.k8s.io/v1"
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Story:
    """One Event object: what we know of it, and what the server knows."""

    event: event_objects.Event
    last_ns: int
    count: int = 1
    created: bool = False
    written_count: int = 0
    written_ns: int = 0

    def series(self) -> event_objects.Series:
        return event_objects.Series(self.count, micro_time(self.last_ns))


class EventWriter:
    """Writes events when the API server has time for them. Nothing waits for it.

    Why a pod waits is written at once. That it was bound is written when no others wait to be
    bound, as `pods_wait` says, or `LATEST_S` later, or when half as many events wait as may.
    """

    def __init__(
        self,
        client: Transport,
        *,
        hostname: str,
        now_ns: Callable[[], int],
        limit: int,
        workers: int,
        notice_workers: int = 1,
        pods_wait: Callable[[], bool] = lambda: False,
        longest_pause_s: float = 10.0,
    ) -> None:
        self._client = client
        self._longest_pause_s = longest_pause_s
        self._hostname = hostname
        self._now_ns = now_ns
        self.tally = WriteCounts()
        self._pods_wait = pods_wait
        self._limit = limit
        self._explanations = Outbox(self._deliver, self.tally, limit=limit, workers=workers)
        #: That pods were bound.
        self._notices = Outbox(self._give_way, self.tally, limit=limit, workers=notice_workers)
        self._spam = SpamFilter(limit=limit)
        #: Refusals that may be repeated, by pod and words.
        self._stories: Recent[tuple[str, str], _Story] = Recent(limit)
        self._last_ns = 0

    def scheduled(self, announce: AnnounceScheduled) -> None:
        now_ns = self._unique_ns()
        event = event_objects.scheduled_event(announce.pod, announce.node, self._hostname, now_ns)
        self._notices.put(event.metadata.name, _Story(event, now_ns))

    def preempted(self, victim: Pod, node: str, evict: Evict) -> None:
        now_ns = self._unique_ns()
        event = event_objects.preempted_event(evict, victim, node, self._hostname, now_ns)
        self._explanations.put(event.metadata.name, _Story(event, now_ns))

    def warned(self, announce: AnnounceWarning | AnnounceNotice) -> None:
        """A warning, or an ordinary event."""
        pod, now_ns = announce.pod, self._unique_ns()
        note = event_objects.shortened(announce.message)
        if self._spam.allows(pod.uid, now_ns):
            warns = isinstance(announce, AnnounceWarning)
            made = event_objects.warned_event if warns else event_objects.noted_event
            event = made(pod, announce.reason, note, self._hostname, now_ns)
            self._explanations.put(event.metadata.name, _Story(event, now_ns))
        else:
            self.tally.filtered += 1

    def warn(self, about: event_objects.Regarding, reason: str, action: str, note: str) -> None:
        """Each one is an event of its own: the caller must not repeat one."""
        now_ns = self._unique_ns()
        reporter = ("fairlead-agent", f"fairlead-agent-{self._hostname}")
        event = event_objects.warning(about, reason, action, note, reporter, now_ns)
        if self._spam.allows(about.uid, now_ns):
            self._explanations.put(event.metadata.name, _Story(event, now_ns))
        else:
            self.tally.filtered += 1

    def failed(self, announce: AnnounceFailure) -> None:
        now_ns = self._unique_ns()
        note = event_objects.shortened(announce.message)
        story = self._stories.get((announce.pod.uid, note))
        if story is not None and now_ns - story.last_ns < SERIES_ENDS_NS:
            self._repeat(story, now_ns)
        elif self._spam.allows(announce.pod.uid, now_ns):
            event = event_objects.failed_event(announce.pod, note, self._hostname, now_ns)
            story = _Story(event, now_ns)
            self._stories.put((announce.pod.uid, note), story)
            self._explanations.put(event.metadata.name, story)
        else:
            self.tally.filtered += 1

    async def run(self) -> None:
        review = asyncio.create_task(self._review_for_ever())
        try:
            await run_together(self._explanations.run(), self._notices.run())
        finally:
            review.cancel()
            await asyncio.gather(review, return_exceptions=True)

    async def stop(self, grace_s: float) -> None:
        for story in self._stories.values():
            self._write_count(story)
        self._pods_wait = lambda: False
        await asyncio.gather(self._explanations.stop(grace_s), self._notices.stop(grace_s))

    def review(self) -> None:
        """Ends the series that nothing was added to, and keeps the others from expiring.

        The API server forgets an event after an hour unless it is written again.
        """
        now_ns = self._now_ns()
        for key, story in self._stories.items():
            if now_ns - story.last_ns >= SERIES_ENDS_NS:
                self._write_count(story)
                self._stories.drop(key)
            elif story.count > 1 and now_ns - story.written_ns >= SERIES_RENEWED_NS:
                self._explanations.put(story.event.metadata.name, story)

    async def _review_for_ever(self) -> None:
        while True:
            await asyncio.sleep(REVIEW_S)
            self.review()

    def _repeat(self, story: _Story, now_ns: int) -> None:
        """The first repeat is written, so that it shows; later ones are only counted."""
        story.count += 1
        story.last_ns = now_ns
        if story.count == 2:
            self._explanations.put(story.event.metadata.name, story)
        else:
            self.tally.skipped += 1

    def _write_count(self, story: _Story) -> None:
        if story.count > 1 and story.count > story.written_count:
            self._explanations.put(story.event.metadata.name, story)

    async def _give_way(self, story: _Story, tries: int) -> float | None:
        while self._pods_wait() and self._may_be_later(story):
            await asyncio.sleep(LOOK_S)
        return await self._deliver(story, tries)

    def _may_be_later(self, story: _Story) -> bool:
        waited_ns = abs(self._now_ns() - story.last_ns)  # also after the clock was set back
        return waited_ns < LATEST_S * NS_PER_S and len(self._notices) < self._limit // 2

    async def _deliver(self, story: _Story, tries: int) -> float | None:
        if tries >= TRIES:
            self.tally.dropped += 1
            return None
        try:
            reply = await self._send(story)
        except ReplyLost:
            return pause_s(tries, longest_s=self._longest_pause_s)
        except Unreachable:
            # The server does not answer the others either; the pause saves CPU.
            await asyncio.sleep(UNREACHABLE_PAUSE_S)
            return pause_s(tries, longest_s=self._longest_pause_s)
        return self._answered(story, reply, tries)

    async def _send(self, story: _Story) -> Reply:
        count = story.count
        reply = await (self._patch(story) if story.created else self._create(story))
        if reply.status < 300:
            story.created = True
            story.written_count = count
            story.written_ns = self._now_ns()
        return reply

    def _answered(self, story: _Story, reply: Reply, tries: int) -> float | None:
        if reply.status < 300:
            self.tally.written += 1
            return None
        if reply.status == 404 and story.created:
            story.created = False  # it has expired; its successor starts with the whole count
            return 0.0
        if reply.status == 409 and not story.created:
            story.created = True  # by an earlier try whose reply was lost
            self.tally.written += 1
            return 0.0 if story.count > 1 else None
        if reply.status in (409, 429) or reply.status >= 500:
            asked_s = min(reply.retry_after_s or 0.0, LONGEST_RETRY_AFTER_S)
            return max(asked_s, pause_s(tries, longest_s=self._longest_pause_s))
        self.tally.rejected += 1
        return None

    async def _create(self, story: _Story) -> Reply:
        event = story.event
        if story.count > 1:
            event.series = story.series()
        path = in_namespace(_API, event.metadata.namespace, "events")
        return await self._client.request("POST", path, body=_encode(event), timeout_s=TIMEOUT_S)

    async def _patch(self, story: _Story) -> Reply:
        meta = story.event.metadata
        return await self._client.request(
            "PATCH",
            named(in_namespace(_API, meta.namespace, "events"), meta.name),
            body=_encode(event_objects.SeriesPatch(story.series())),
            content_type=STRATEGIC_MERGE,
            timeout_s=TIMEOUT_S,
        )

    def _unique_ns(self) -> int:
        """The time, and never the same twice: it names the events."""
        now_ns = self._now_ns()
        if self._last_ns - NS_PER_S < now_ns <= self._last_ns:
            now_ns = self._last_ns + 1  # but a clock set back further is believed
        self._last_ns = now_ns
        return now_ns
