"""The stage of the tables: scenes are played in this process."""

import pytest

from engine_cast import EngineStage
from stages import Stage


@pytest.fixture(scope="session")
def play() -> Stage:
    stage = EngineStage()
    stage.make_priorities()
    return stage
