"""Gives the events of a decision log to a fresh engine, and compares what it returns."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import yaml

from fairlead.apps.config.run_plan import RunOptions, RunPlan, plan
from fairlead.apps.decision_log import pod_decisions, records
from fairlead.apps.decision_log.frames import (
    UNREADABLE,
    LogHeader,
    LogProblem,
    LogReader,
    RecordPlace,
)
from fairlead.engine.engine import Engine
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """The first record whose result is another one now."""

    place: RecordPlace
    record: records.Record
    expected: Any
    found: Any


@dataclass(slots=True)
class ReplayReport:
    header: LogHeader
    records: int = 0
    events: Counter[str] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)
    #: On the clock of the scheduler that wrote the log.
    first_s: float | None = None
    last_s: float | None = None
    difference: Difference | None = None
    #: What was decided about the pod that is asked about, and when.
    decisions: list[tuple[float, pod_decisions.Plain]] = field(default_factory=list)


class _Drawing:
    """Says again what the encoder of binds was told when the record was made."""

    def __init__(self) -> None:
        self._left: deque[records.Drawn] = deque()

    def load(self, drawn: list[records.Drawn]) -> None:
        self._left = deque(drawn)

    def number(self) -> int:
        return int(self._left.popleft())

    def word(self) -> str:
        return str(self._left.popleft())


class Replayer:
    """A fresh engine as the log describes it."""

    def __init__(self, header: LogHeader, config: Path | None = None) -> None:
        self._drawing = _Drawing()
        epoch = self._drawing.word if header.elects else None
        encoder = DialectEncoder(self._drawing.number, epoch=epoch)
        self.engine = engine_of(header, planned(header, config), encoder)

    def repeat(self, record: records.Record) -> records.Result:
        """Makes the same call; returns what comes of it now."""
        self._drawing.load(record.drawn)
        try:
            return self._call(record)
        except UNREADABLE:
            raise
        except Exception as error:
            return records.raised(error)

    def _call(self, record: records.Record) -> records.Result:
        match record.call:
            case "handle":
                event = records.event_of(record)
                return records.result_of(self.engine.handle(event, now=record.now))
            case "decide":
                return records.attempt_result(self.engine.decide(now=record.now))
            case "tend":
                return records.result_of(self.engine.tend(now=record.now))
            case "forget":
                self.engine.forget()
            case "wall":
                self.engine.wall_offset_s = record.now
        return records.result_of(())


def engine_of(header: LogHeader, prepared: RunPlan, encoder: DialectEncoder) -> Engine:
    engine = Engine(
        prepared.profiles,
        None,
        encoder,
        reserves=header.reserves,
        topology=prepared.topology,
        consolidation=prepared.consolidation,
        backfill=prepared.backfill,
        extenders=prepared.extender_terms,
        tenants=prepared.tenants,
    )
    engine.keeps_records = header.keeps_records
    return engine


def planned(header: LogHeader, config: Path | None = None) -> RunPlan:
    """What the scheduler ran by. The configuration of a log never loads a file of its reader."""
    chosen = RunOptions(scheduler_name=header.scheduler_name, profile=header.profile)
    if config is not None:
        return plan(replace(chosen, config=config))
    if not header.config:
        return plan(chosen)
    if named := next(_plugin_files(header.config), None):
        raise LogProblem(
            f"the configuration of the log names the plugin file {named!r}, which a replay does "
            "not load by itself; pass the configuration beside its plugin files with --config"
        )
    with TemporaryDirectory() as directory:
        file = Path(directory, "config.yaml")
        file.write_text(header.config)
        return plan(replace(chosen, config=file))


def _plugin_files(config: str) -> Iterator[str]:
    try:
        left: list[object] = [yaml.safe_load(config)]
    except yaml.YAMLError as error:
        raise LogProblem("the configuration of the log is not YAML") from error
    while left:
        match left.pop():
            case str(word) if ".py:" in word:
                yield word
            case dict(named):
                left += [*named, *named.values()]
            case list(listed):
                left += listed


def replay(
    reader: LogReader,
    config: Path | None = None,
    on_record: Callable[[records.Record], None] = lambda _: None,
    pod: str = "",
) -> ReplayReport:
    """Stops at the first difference. Raises LogProblem where the log cannot be read.

    `pod`: one whose decisions are to be in the report, by namespace and name.
    """
    report = ReplayReport(reader.header)
    replayer = Replayer(reader.header, config)
    for place, data in reader:
        record = _record(place, data)
        on_record(record)
        found = _repeated(replayer, place, record)
        _count(report, record, found)
        if pod:
            decisions = pod_decisions.about(pod, found[1])
            report.decisions += [(record.now, each) for each in decisions]
        if records.result_bytes(found) != bytes(record.result):
            report.difference = Difference(place, record, _expected(place, record), found)
            break
    return report


def _record(place: RecordPlace, data: bytes) -> records.Record:
    try:
        return records.decode(data)
    except UNREADABLE as error:
        raise _unreadable(place, error) from error


def _expected(place: RecordPlace, record: records.Record) -> Any:
    try:
        return msgspec.msgpack.decode(record.result)
    except UNREADABLE as error:
        raise _unreadable(place, error) from error


def _repeated(replayer: Replayer, place: RecordPlace, record: records.Record) -> records.Result:
    try:
        return replayer.repeat(record)
    except UNREADABLE as error:
        raise _unreadable(place, error) from error


def _unreadable(place: RecordPlace, error: Exception) -> LogProblem:
    return LogProblem(
        f"{place.file}: record {place.number} at offset {place.offset} cannot be read: {error}"
    )


def _count(report: ReplayReport, record: records.Record, found: records.Result) -> None:
    report.records += 1
    if record.call == "handle":
        report.events[record.kind] += 1
    for name, *_ in found[1]:
        report.instructions[name] += 1
    if record.call in ("handle", "decide", "tend"):
        report.first_s = record.now if report.first_s is None else report.first_s
        report.last_s = record.now
