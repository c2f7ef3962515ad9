"""An engine that records itself: what it was given, and what it returned."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
import structlog

from fairlead.apps.decision_log import records
from fairlead.apps.decision_log.frames import LogHeader, with_length
from fairlead.apps.decision_log.log_writer import CHUNK_BYTES, LogPlan, LogWriter
from fairlead.engine import events, service_dumps, start_dumps
from fairlead.engine.attempts import Attempt
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Instruction
from fairlead.placement.profile import Profile

log = structlog.get_logger(__name__)

#: How old a record may become before it is handed to the writer, and how often a run may begin.
_FLUSH_S = 1.0
_BEGIN_AGAIN_S = 600.0

DrawnT = TypeVar("DrawnT", int, str)


def described(profile: Profile) -> list[str]:
    """The names of its plugins, and the weights of scores."""
    scores = (f"{score.name} {weight:g}" for score, weight in profile.scores)
    picker = (profile.picker.name,) if profile.picker else ()
    return [*(each.name for each in profile.filters), *scores, *picker]


class DecisionLog:
    """The log of one scheduler. Every call is cheap, and none raises."""

    def __init__(self, plan: LogPlan, header: LogHeader) -> None:
        self._writer = LogWriter(plan)
        self._header = header
        self._buffer = bytearray()
        self._flushed_s = 0.0
        self._began_s = float("-inf")
        self._drawn: list[records.Drawn] = []
        self._said = ""
        self.records = 0
        self.gaps = 0

    def begin(self) -> None:
        """A run begins with an engine that was given nothing yet."""
        self._buffer.clear()
        self._drawn.clear()
        self._said = ""
        self._began_s = time.monotonic()
        now = datetime.now(UTC)
        stamp = now.strftime("%Y%m%dT%H%M%S.%fZ")  # names are sorted by it
        self._writer.begin(
            msgspec.structs.replace(
                self._header,
                run=f"{stamp}-{uuid4().hex[:8]}",
                began=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
        )

    @property
    def keeps_records(self) -> bool:
        """Whether it is recorded why pods go where they go."""
        return self._header.keeps_records

    @property
    def written_bytes(self) -> int:
        return self._writer.written_bytes

    @property
    def begins_again(self) -> bool:
        """The next run should begin as soon as it can."""
        if self._writer.problem:
            return time.monotonic() - self._began_s > _BEGIN_AGAIN_S
        return self._writer.is_half_full

    def drawing(self, source: Callable[[], DrawnT]) -> Callable[[], DrawnT]:
        """The source; what it says becomes part of the record."""

        def drawn() -> DrawnT:
            value = source()
            self._drawn.append(value)
            return value

        return drawn

    def note(
        self,
        call: records.Call,
        now: float,
        result: records.Result,
        event: events.Event | None = None,
    ) -> None:
        if self._writer.problem:
            self._note_gap(self._writer.problem)
            return
        try:
            record = records.encode(call, now, event, self._drawn, result)
        except Exception as error:
            self._writer.problem = f"a record cannot be written: {error!r:.200}"
            return
        if self._drawn:
            self._drawn = []
        self.records += 1
        self._buffer += with_length(record)
        if len(self._buffer) > CHUNK_BYTES:
            self.flush()

    def flush_after(self, now: float) -> None:
        if self._buffer and now - self._flushed_s > _FLUSH_S:
            self._flushed_s = now
            self.flush()

    def flush(self) -> None:
        self._writer.put(bytes(self._buffer))
        self._buffer.clear()

    def close(self, wait_s: float) -> None:
        self.flush()
        self._writer.close(wait_s)

    def _note_gap(self, problem: str) -> None:
        self._buffer.clear()
        self._drawn.clear()
        if not self._said:
            self.gaps += 1
            self._said = problem
            log.warning("decision log has a gap until a new run begins", problem=problem)


class RecordedEngine(Engine):
    """Used in place of the engine where a decision log is kept."""

    def __init__(self, decisions: DecisionLog, *args: Any, **kwargs: Any) -> None:
        self._decisions = decisions
        self._made_of = args, kwargs
        self._wall_s = 0.0
        super().__init__(*args, **kwargs)
        decisions.begin()

    def handle(self, event: events.Event, *, now: float) -> list[Instruction]:
        self._note_wall()
        try:
            made = super().handle(event, now=now)
        except Exception as error:
            self._decisions.note("handle", now, records.raised(error), event)
            raise
        self._decisions.note("handle", now, records.result_of(made), event)
        return made

    def decide(self, *, now: float) -> Attempt | None:
        self._note_wall()
        try:
            attempt = super().decide(now=now)
        except Exception as error:
            self._decisions.note("decide", now, records.raised(error))
            raise
        self._decisions.note("decide", now, records.attempt_result(attempt))
        return attempt

    def tend(self, *, now: float) -> list[Instruction]:
        self._note_wall()
        try:
            made = super().tend(now=now)
        except Exception as error:
            self._decisions.note("tend", now, records.raised(error))
            raise
        self._decisions.note("tend", now, records.result_of(made))
        return made

    def forget(self) -> None:
        super().forget()
        self._decisions.note("forget", 0.0, records.result_of(()))

    def _note_wall(self) -> None:
        if self.wall_offset_s != self._wall_s:
            self._wall_s = self.wall_offset_s
            self._decisions.note("wall", self._wall_s, records.result_of(()))

    @property
    def is_settled(self) -> bool:
        """Nothing that it has asked for is under way: all that it knows can be shown again."""
        flying = self.in_flight
        under_way = (flying.evicting, flying.releasing, flying.making_room, flying.gangs)
        return not (
            any(True for _ in flying)
            or any(under_way)
            or self._parts.consolidation.is_under_way
            or self._parts.gangs.has_more
            or self.cluster.releasing
        )

    def begin_again(self) -> None:
        """Becomes a new engine, and begins a new run; for one that is settled."""
        behaviour, wall_s, keeps = self.cluster.behaviour, self.wall_offset_s, self.keeps_records
        learned = self.run_times.dump() if len(self.run_times.history) else b""
        starts = start_dumps.dump(self.start_record, wall_s) if self.start_record.version else b""
        owners = [events.OwnerRunTimeSeen(*each) for each in self.run_times.owners]
        figures = [events.FiguresSeen(seen) for seen in self.cluster.columns.figures.seen]
        readings = [events.ReadingSeen(seen) for seen in self.cluster.columns.readings.seen]
        data = [events.DataSeen(seen) for seen in self.cluster.columns.data.seen]
        best = self.start_windows.forecasts.values()
        forecasts = [events.ForecastSeen(each.forecast) for each in best]
        shown: list[events.Event] = [*owners, *figures, *readings, *data, *forecasts]
        if self.service_goals.classes:
            shown.append(events.ServiceClassesSeen((*self.service_goals.classes.values(),)))
            shown.append(events.ServiceRecordLoaded(service_dumps.dump(self.service_record)))
        args, kwargs = self._made_of
        Engine.__init__(self, *args, **kwargs)
        self.keeps_records = keeps
        self.wall_offset_s, self._wall_s = wall_s, 0.0
        self._decisions.begin()
        self.handle(events.ServerKnown(behaviour), now=time.monotonic())
        if learned:
            self.handle(events.RunTimesLoaded(learned), now=time.monotonic())
        if starts:
            self.handle(events.StartRecordLoaded(starts), now=time.monotonic())
        for event in shown:
            self.handle(event, now=time.monotonic())
