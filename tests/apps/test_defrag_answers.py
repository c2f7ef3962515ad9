"""What `fairlead defrag` prints."""

import pytest

from builders import a_pod
from consolidation_world import drawn_engine, plan_for
from fairlead.apps.config import config
from fairlead.apps.defrag.answers import DefragAnswer, plan_answer, plan_lines
from fairlead.engine.engine import Engine
from fairlead.model.errors import ConfigError
from fairlead.model.pods import Pod

LOST = "1200 GPU-seconds are lost, 14400 gained"


def answer(engine: Engine, pod: Pod) -> DefragAnswer:
    found = plan_for(engine, pod)
    entry = engine.queue.get(pod.uid)
    assert entry is not None
    return plan_answer(entry.unit, found)


def test_plans_come_first_and_say_what_moves_where() -> None:
    engine = drawn_engine("n1 aabbc...", "n2 aaaabb..")
    told = [answer(engine, a_pod("huge", gpus=9)), answer(engine, a_pod("big", gpus=4))]
    assert list(plan_lines(told)) == [
        f"default/big (4 GPUs) starts after 1 move(s): 1 GPU(s) move, {LOST}",
        "  POD           FROM  TO  GPUS",
        "  default/n1-c  n1    n2  1",
        "  default/big   -     n1  starts",
        "default/huge (9 GPUs): no moves help: no node could have it, however empty",
    ]


def test_nothing_waits() -> None:
    assert list(plan_lines([])) == ["no pod or gang with GPUs waits"]


def test_the_configuration_sets_limits_in_times() -> None:
    text = (
        "consolidation: {enabled: true, after: 2m, movesPerHour: 3, minRunTime: 1h, owners: [Job]}"
    )
    terms = config.parse(text).consolidation.terms()
    assert (terms.enabled, terms.after_s, terms.moves_per_hour) == (True, 120.0, 3)
    assert (terms.limits.least_run_s, terms.limits.owners) == (3600.0, {"Job"})
    with pytest.raises(ConfigError, match=r"consolidation\.after: 'soon' is no length of time"):
        config.parse("consolidation: {after: soon}").consolidation.terms()
