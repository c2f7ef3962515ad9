"""What `fairlead replay` prints."""

import json
from collections import Counter
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any, TextIO

import msgspec

from fairlead import __version__
from fairlead.apps.decision_log import pod_decisions
from fairlead.apps.decision_log.replay import Difference, ReplayReport


def show(report: ReplayReport, output: str, stream: TextIO) -> None:
    if output == "json":
        json.dump(as_json(report), stream, indent=2, default=repr)
        stream.write("\n")
        return
    stream.writelines(f"{line}\n" for line in _lines(report))


def as_json(report: ReplayReport) -> dict[str, Any]:
    found = report.difference
    return {
        "same": found is None,
        "version": report.header.version,
        "replayedBy": __version__,
        "records": report.records,
        "events": dict(report.events),
        "instructions": dict(report.instructions),
        "decisions": [{"now": now, "decision": each} for now, each in report.decisions],
        "difference": found and {
            "file": str(found.place.file),
            "offset": found.place.offset,
            "record": found.place.number,
            "call": found.record.call,
            "now": found.record.now,
            "event": _event(found),
            "logged": found.expected,
            "replayed": found.found,
        },
    }  # fmt: skip


def _lines(report: ReplayReport) -> Iterator[str]:
    if report.header.version != __version__:
        yield f"written by Fairlead {report.header.version}, replayed by {__version__}"
    for now, decision in report.decisions:
        yield from pod_decisions.lines(now, decision)
    span = (report.last_s or 0.0) - (report.first_s or 0.0)
    yield (
        f"{report.records} records of {span:.1f} s: {_counted(report.events)} in; "
        f"{_counted(report.instructions)} out"
    )
    if report.difference is None:
        yield "the replay is the same, byte for byte"
    else:
        yield from _difference(report.difference)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "nothing"


def _difference(found: Difference) -> Iterator[str]:
    place, record = found.place, found.record
    yield (
        f"first difference: record {place.number}, in {place.file} at offset {place.offset}, "
        f"{record.call} {record.kind} at {record.now:.6f}"
    )
    logged, replayed = (json.dumps(side, indent=1).splitlines() for side in
                        (found.expected, found.found))  # fmt: skip
    yield from unified_diff(logged, replayed, "logged", "replayed", lineterm="", n=6)
    if record.kind:
        yield f"event: {json.dumps(_event(found), default=repr)}"


def _event(found: Difference) -> Any:
    return msgspec.msgpack.decode(found.record.event) if found.record.kind else None
