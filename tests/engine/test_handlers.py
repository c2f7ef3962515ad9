"""Each event that a driver may feed is taken in by some part of the engine."""

import contextlib
from typing import get_args

import pytest

from fairlead.engine import events
from fairlead.engine.engine import Engine


@pytest.mark.parametrize("kind", get_args(events.Event))
def test_each_event_is_taken_in(kind: type[events.Event]) -> None:
    with contextlib.suppress(AttributeError):  # it has no content
        Engine({}).handle(object.__new__(kind), now=0.0)
