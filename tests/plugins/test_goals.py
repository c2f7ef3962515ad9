"""Goals choose by units: levels in order, tolerances, rates; scores break ties."""

from dataclasses import replace
from textwrap import dedent

import pytest

from builders import SCHEDULER, a_node, a_pod, a_request, decide, see
from fairlead.apps.config import config as configs
from fairlead.apps.config.profiles import aiming, built_in
from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.engine.engine import Engine
from fairlead.engine.events import FiguresSeen, NodeSeen
from fairlead.engine.instructions import Bind, Decided
from fairlead.model.errors import ConfigError
from fairlead.model.goals import GoalUnit
from fairlead.model.node_figures import NAME, Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.pods import PodRequest
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import (
    Carbon,
    LostTime,
    PodCost,
    UnusedCost,
    UnusedWatts,
    Watts,
)
from fairlead.plugins.node_share import share_of_node
from fairlead.plugins.registry import Registry
from gang_world import a_gang

SPOT = {"karpenter.sh/capacity-type": "spot"}


def figures(kind: Figure = Figure.PRICE, **by_name: float) -> SeenFigures:
    rules = tuple(FigureRule(((NAME, name),), value) for name, value in by_name.items())
    return SeenFigures(kind, (FigureList("test", rules),))


def an_engine(goals: Goals, *nodes: object, profile: str = "spread") -> Engine:
    engine = Engine({SCHEDULER: aiming(built_in(profile), goals)})
    for node in nodes:
        engine.handle(NodeSeen(node), now=0.0)  # type: ignore[arg-type]
    return engine


def level(*goals: object, tolerance: float = 0.0, slack: float = 0.0) -> GoalLevel:
    return GoalLevel(tuple((goal, 1.0) for goal in goals), tolerance, slack)  # type: ignore[misc]


def placed(engine: Engine, **pod: object) -> str:
    see(engine, a_pod("p", **{"gpus": 1, **pod}))
    (bind,) = [each for each in decide(engine) if isinstance(each, Bind)]
    return bind.node


def test_the_cheapest_node_wins_whatever_the_scores_say() -> None:
    nodes = a_node("big", gpus=8), a_node("small", gpus=4)
    engine = an_engine(Goals((level(PodCost()),)), *nodes)
    engine.handle(FiguresSeen(figures(big=80.0, small=4.0)), now=0.0)
    assert placed(engine) == "small"


def test_without_prices_goals_are_neutral_and_scores_decide() -> None:
    engine = an_engine(Goals((level(PodCost()),)), a_node("big", gpus=8), a_node("small", gpus=4))
    assert placed(engine) == "big"


def test_within_the_tolerance_the_next_level_decides() -> None:
    nodes = [a_node(name, gpus=8) for name in "abc"]
    for tolerance, best in ((0.0, "a"), (0.1, "b"), (0.5, "c")):
        levels = level(PodCost(), tolerance=tolerance), level(Watts())
        engine = an_engine(Goals(levels), *nodes)
        engine.handle(FiguresSeen(figures(a=10.0, b=10.5, c=14.0)), now=0.0)
        engine.handle(FiguresSeen(figures(Figure.WATTS, a=3000, b=2000, c=1000)), now=0.0)
        assert placed(engine) == best


def test_rates_turn_lost_time_into_money() -> None:
    """Spot saves 2 an hour and loses 60 s: worth it below 120 for an hour of waiting."""
    nodes = a_node("d", gpus=1), a_node("s", gpus=1, labels=SPOT)
    for hour, best in ((100.0, "s"), (140.0, "d")):
        goals = ((PodCost(), 1.0), (LostTime(0.1, 600.0), hour / 3600))
        engine = an_engine(Goals((GoalLevel(goals),)), *nodes)
        engine.handle(FiguresSeen(figures(d=4.0, s=2.0)), now=0.0)
        assert placed(engine) == best


def test_nodes_in_use_come_before_unused_ones_so_that_these_can_be_removed() -> None:
    goals = Goals((level(PodCost(), UnusedCost()),))
    engine = an_engine(goals, a_node("a", gpus=4), a_node("b", gpus=4))
    engine.handle(FiguresSeen(figures(a=4.0, b=6.0)), now=0.0)
    see(engine, a_pod("other", gpus=1, node="b"))
    assert placed(engine) == "b", "1.50 of a node in use is less than 4.00 of an unused one"


def test_watts_that_are_added_count_what_waking_a_node_draws() -> None:
    goals = Goals((level(Watts(), UnusedWatts(idle=0.5)),))
    engine = an_engine(goals, a_node("a", gpus=4), a_node("b", gpus=4))
    engine.handle(FiguresSeen(figures(Figure.WATTS, a=2000.0, b=2400.0)), now=0.0)
    see(engine, a_pod("other", gpus=1, node="b"))
    assert placed(engine) == "b", "600 W on a node that is awake are less than 500 + 750"
    with pytest.raises(ConfigError, match="write a part"):
        UnusedWatts(idle=2.0)


def test_a_pod_counts_for_the_part_of_the_node_that_it_takes() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("a", gpus=4, resources={"cpu": 8000}))
    cluster.put_figures(figures(a=8.0))
    cluster.put_figures(figures(Figure.WATTS, a=1000.0))
    cluster.put_figures(figures(Figure.CARBON, a=300.0))
    for request, cost in (
        (a_request(gpus=1), 2.0),
        (a_request(gpus=1, resources={"cpu": 4000}), 4.0),
        (a_request(resources={"cpu": 1000}), 1.0),
        (a_request(gpus=4, resources={"cpu": 16000}), 8.0),
    ):
        assert PodCost().count(request, cluster.nodes).tolist() == [pytest.approx(cost)]
    carbon = Carbon(pue=1.5).count(a_request(gpus=2), cluster.nodes)
    assert carbon.tolist() == [pytest.approx(0.5 * 300 * 1.5)]


def test_a_change_of_prices_changes_the_choice_at_once() -> None:
    engine = an_engine(Goals((level(PodCost()),)), a_node("a", gpus=8), a_node("b", gpus=8))
    engine.handle(FiguresSeen(figures(a=1.0, b=2.0)), now=0.0)
    assert placed(engine) == "a"
    engine.handle(FiguresSeen(figures(a=3.0, b=2.0)), now=1.0)
    see(engine, a_pod("q", gpus=1))
    assert [each.node for each in decide(engine) if isinstance(each, Bind)] == ["b"]


# -- configuration --------------------------------------------------------------------------------


def profile(text: str) -> Goals:
    lines = dedent(text).replace("\n", "\n      ")
    read = configs.parse(f"profiles:\n  - schedulerName: s\n    goals:\n      {lines}")
    built = configs.build_profiles(read.profiles, Registry())["s"]
    (goals,) = (score for score, _ in built.scores if isinstance(score, Goals))
    return goals


def test_levels_rates_and_options_come_from_the_configuration() -> None:
    goals = profile("""
        rates: {hour: 3.6, kg: 0.1}
        order:
          - sum: [Cost, {goal: LostTime, options: {lost_s: 60}}, Carbon]
            tolerance: 5%
          - sum: [Watts]
            tolerance: 50
        """)
    first, second = goals.levels
    assert [(goal.name, rate) for goal, rate in first.goals] == [
        ("Cost", 1.0), ("LostTime", pytest.approx(0.001)), ("Carbon", pytest.approx(0.0001)),
    ]  # fmt: skip
    assert (first.tolerance, first.slack, first.unit) == (0.05, 0.0, GoalUnit.MONEY)
    assert (second.tolerance, second.slack, second.unit) == (0.0, 50.0, GoalUnit.POWER)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("order: [{sum: [Cost, Watts]}]", "Watts counts W and is added to others; set rates.kWh"),
        ("order: [{sum: [Costs]}]", "did you mean 'Cost'"),
        ("order: [{sum: [Cost], tolerance: five}]", "tolerance is 'five'; write a share"),
        ("order: []", "length"),
        ("order: [{sum: [Cost], atMost: 2}]", "atMost and patience belong together"),
        ("order: [{sum: [{goal: LostTime, options: {lost: 1}}]}]", "has no option 'lost'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        profile(text)


def test_a_goal_of_the_user_is_loaded_from_a_file(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "mine.py").write_text(
        dedent("""
        from dataclasses import dataclass
        from typing import ClassVar
        import numpy as np
        from fairlead.plugin import Aspect, GoalUnit

        @dataclass(frozen=True)
        class Renames:
            name: ClassVar[str] = "Renames"
            unit: ClassVar[GoalUnit] = GoalUnit.MONEY
            reads: ClassVar[Aspect] = Aspect.PRESENCE

            def count(self, request, nodes):
                return np.arange(len(nodes), dtype=float)[::-1]
        """)
    )
    text = "profiles: [{schedulerName: s, goals: {order: [{sum: ['./mine.py:Renames']}]}}]"
    built = configs.build_profiles(configs.parse(text).profiles, Registry(), folder / "c.yaml")
    engine = Engine({SCHEDULER: replace(built["s"])})
    for name in "ab":
        engine.handle(NodeSeen(a_node(name, gpus=1)), now=0.0)
    assert placed(engine) == "b"


def test_the_record_of_a_decision_has_what_each_goal_counted() -> None:
    engine = an_engine(Goals((level(PodCost()), level(Watts()))), a_node("a", gpus=4))
    engine.keeps_records = True
    engine.handle(FiguresSeen(figures(a=8.0)), now=0.0)
    see(engine, a_pod("p", gpus=1))
    (decided,) = [each for each in decide(engine) if isinstance(each, Decided)]
    assert [each.text for each in decided.record.goals] == ["Cost 2 money/h", "Watts 0 W"]


def test_the_record_has_the_next_best_node_and_those_that_no_other_beats() -> None:
    nodes = [a_node(name, gpus=4) for name in "abcd"]
    engine = an_engine(Goals((level(PodCost()), level(Watts()))), *nodes)
    engine.keeps_records = True
    engine.handle(FiguresSeen(figures(a=8.0, b=12.0, c=20.0, d=24.0)), now=0.0)
    watts = figures(Figure.WATTS, a=400.0, b=100.0, c=40.0, d=40.0)
    engine.handle(FiguresSeen(watts), now=0.0)
    see(engine, a_pod("p", gpus=1))
    (decided,) = [each for each in decide(engine) if isinstance(each, Decided)]
    found = decided.record.alternatives
    assert found is not None
    assert found.best.text == "a: Cost 2 money/h, Watts 100 W"
    assert found.runner_up is not None
    assert found.runner_up.text == "b: Cost 3 money/h, Watts 25 W"
    assert [each.node for each in found.pareto] == ["a", "b", "c"], "d is worse than c"


def test_what_goals_counted_is_recorded_for_each_pod_of_a_gang_beside_those_before_it() -> None:
    engine = an_engine(Goals((level(UnusedCost()),)), a_node("a", gpus=4), a_node("b", gpus=4))
    engine.keeps_records = True
    engine.handle(FiguresSeen(figures(a=8.0, b=12.0)), now=0.0)
    for pod in a_gang("g", 2):
        see(engine, pod)
    decided = [each for each in decide(engine) if isinstance(each, Decided)]
    assert [each.record.goals[0].text for each in decided] == [
        "UnusedCost 6 money/h", "UnusedCost 0 money/h",
    ]  # fmt: skip


def test_goals_compute_the_part_of_a_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    goals = Goals((level(PodCost(), UnusedCost(), tolerance=1.0), level(Watts()), level(Carbon())))
    engine, calls = an_engine(goals, a_node("n1"), a_node("n2")), []

    def counted(request: PodRequest, nodes: Nodes) -> NodeScores:
        calls.append(len(nodes))
        return share_of_node(request, nodes)

    monkeypatch.setattr("fairlead.plugins.goals.share_of_node", counted)
    assert placed(engine, gpus=1)
    assert calls == [2]
