"""Which part of the engine takes in which event."""

from typing import get_args

from fairlead.engine import events
from fairlead.engine.engine import Engine


def test_each_event_has_a_handler() -> None:
    assert set(Engine({})._handlers) == set(get_args(events.Event))
