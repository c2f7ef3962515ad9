"""What goals counted: the best node, what the next one would have cost, and what none beats."""

from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_node, a_pod
from fairlead.apps.config.profiles import aiming, built_in
from fairlead.apps.explain.goals import goal_lines, goals_answer
from fairlead.cluster.cluster import Cluster
from fairlead.model.node_figures import NAME, Figure, FigureList, FigureRule, SeenFigures
from fairlead.placement.goal_report import goal_report
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import PodCost, Watts

BY_COST = Goals((GoalLevel(((PodCost(), 1.0),)), GoalLevel(((Watts(), 1.0),))))


def a_cluster(prices: list[float], watts: list[float]) -> Cluster:
    cluster = Cluster()
    for number in range(len(prices)):
        cluster.put_node(a_node(f"n{number}", gpus=4))
    for figure, values in ((Figure.PRICE, prices), (Figure.WATTS, watts)):
        rules = [FigureRule(((NAME, f"n{n}"),), value) for n, value in enumerate(values)]
        cluster.put_figures(SeenFigures(figure, (FigureList("test", tuple(rules)),)))
    return cluster


def test_the_report_names_the_best_the_next_and_those_that_none_beats() -> None:
    cluster = a_cluster([8.0, 4.0, 12.0, 8.0, 9.0], [400, 800, 100, 300, 500])
    placement = Placement(aiming(built_in(SCHEDULER), BY_COST), cluster)
    pod = a_pod("p", gpus=1)
    report = goal_report(placement, cluster, pod)
    assert report is not None
    assert (report.best.node, report.runner_up and report.runner_up.node) == ("n1", "n3")
    assert [each.node for each in report.pareto] == ["n1", "n3", "n2"]
    assert report.best.levels == (1.0, 200.0)
    told = list(goal_lines(goals_answer(placement, cluster, pod)["goals"]))
    assert told == [
        "goals: n1 counts Cost 1 money/h, Watts 200 W",
        "  next: n3 would count Cost 2 money/h, Watts 75 W",
        "  also not beaten: n2 with Cost 3 money/h, Watts 25 W",
    ]


def test_without_goals_and_without_a_node_there_is_no_report() -> None:
    cluster = a_cluster([1.0], [1.0])
    pod = a_pod("p", gpus=8)
    assert goal_report(Placement(built_in(SCHEDULER), cluster), cluster, pod) is None
    aimed = Placement(aiming(built_in(SCHEDULER), BY_COST), cluster)
    assert goal_report(aimed, cluster, pod) is None


FIGURES = st.integers(1, 4).map(float)


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=1, max_size=8))
def test_the_best_of_the_report_is_the_choice_and_none_beats_it(
    drawn: list[tuple[float, float]],
) -> None:
    prices, watts = ([each[n] for each in drawn] for n in (0, 1))
    cluster = a_cluster(prices, watts)
    placement = Placement(aiming(built_in(SCHEDULER), BY_COST), cluster)
    pod = a_pod("p", gpus=1)
    report, verdict = goal_report(placement, cluster, pod), placement.place(pod)
    assert report is not None
    assert isinstance(verdict, Placed)
    assert verdict.node == report.best.node == report.pareto[0].node
    by_node = dict(zip((f"n{n}" for n in range(len(drawn))), drawn, strict=True))
    assert by_node[verdict.node] == min(drawn)
    for each in report.pareto:
        mine = by_node[each.node]
        assert not any(
            other != mine and other[0] <= mine[0] and other[1] <= mine[1] for other in drawn
        )
