"""Whatever the state machines of the engine do, a fresh engine repeats it byte for byte.

Records go through their encoded form, so that every event that the machines draw can be read back.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import test_engine_properties
import test_ledger_machine
import test_queue_machine
import test_reservation_machine
from hypothesis import HealthCheck, seed
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

import builders
from examples import examples
from fairlead.apps.decision_log import records
from fairlead.apps.decision_log.frames import LogHeader
from fairlead.apps.decision_log.log_writer import LogPlan
from fairlead.apps.decision_log.recording import DecisionLog, RecordedEngine
from fairlead.engine import events
from fairlead.engine.engine import Engine


class KeptLog(DecisionLog):
    """Keeps its records in memory."""

    def __init__(self) -> None:
        super().__init__(LogPlan(Path(), 1 << 20), LogHeader("test"))
        self.kept: list[bytes] = []
        self.made_of: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})

    def begin(self) -> None:
        self.kept.clear()

    def note(
        self,
        call: records.Call,
        now: float,
        result: records.Result,
        event: events.Event | None = None,
    ) -> None:
        self.kept.append(records.encode(call, now, event, [], result))


def recorded(logs: list[KeptLog], *args: Any, **kwargs: Any) -> Engine:
    log = KeptLog()
    log.made_of = args, kwargs
    logs.append(log)
    return RecordedEngine(log, *args, **kwargs)


def repeated(engine: Engine, record: records.Record) -> records.Result:
    try:
        match record.call:
            case "handle":
                event = records.event_of(record)
                return records.result_of(engine.handle(event, now=record.now))
            case "decide":
                return records.attempt_result(engine.decide(now=record.now))
            case "tend":
                return records.result_of(engine.tend(now=record.now))
            case "forget":
                engine.forget()
            case "wall":
                engine.wall_offset_s = record.now
    except Exception as error:
        return records.raised(error)
    return records.result_of(())


def check(log: KeptLog) -> None:
    args, kwargs = log.made_of
    engine = Engine(*args, **kwargs)
    for number, data in enumerate(log.kept):
        record = records.decode(data)
        found = records.result_bytes(repeated(engine, record))
        assert found == bytes(record.result), (number, record.call, record.kind)


def replaying(machine: type[RuleBasedStateMachine], place: Any) -> type[RuleBasedStateMachine]:
    """The machine, with its engines recorded, and repeated when it ends."""

    class Replayed(machine):  # type: ignore[misc, valid-type]
        #: It changes the cluster without an event, so that no log has it.
        a_pod_uses_a_claim = None

        def __init__(self) -> None:
            self.logs: list[KeptLog] = []
            with patch.object(place, "Engine", partial(recorded, self.logs)):
                super().__init__()

        def teardown(self) -> None:
            super().teardown()
            assert self.logs, "the machine made no engine that is recorded"
            for log in self.logs:
                check(log)

    return Replayed


@pytest.mark.parametrize(
    ("machine", "place"),
    [
        (test_engine_properties.World, test_engine_properties),
        (test_ledger_machine.Ledger, test_ledger_machine),
        (test_queue_machine.QueueMachine, builders),
        (test_reservation_machine.Reserving, test_reservation_machine),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_a_machine_does_is_repeated(
    machine: type[RuleBasedStateMachine], place: Callable[..., Any]
) -> None:
    few = examples(15, few=4, steps=30, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(seed(1)(replaying(machine, place)), settings=few)
