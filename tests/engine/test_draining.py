"""Which nodes could be removed: unused ones, and those whose units fit on other nodes in use."""

from collections.abc import Mapping

import pytest

from builders import selects
from consolidation_world import NOW_S, drawn_engine
from fairlead.engine.consolidation.draining import FreedNode
from fairlead.engine.engine import Engine
from fairlead.engine.events import BudgetSeen, FiguresSeen
from fairlead.model.budgets import Budget
from fairlead.model.consolidation import DO_NOT_MOVE, MoveLimits
from fairlead.model.node_figures import NAME, Figure, FigureList, FigureRule, SeenFigures

LIMITS = MoveLimits(least_run_s=0.0)


def priced(engine: Engine, prices: Mapping[str, float]) -> None:
    rules = tuple(FigureRule(((NAME, name),), price) for name, price in prices.items())
    seen = SeenFigures(Figure.PRICE, (FigureList("test", rules),))
    engine.handle(FiguresSeen(seen), now=0.0)


def freed(engine: Engine) -> list[FreedNode]:
    before = sorted(held.node for held in engine.cluster.holdings.values())
    found = engine.planning.drain(LIMITS, NOW_S)
    assert sorted(held.node for held in engine.cluster.holdings.values()) == before
    return found


def targets(found: FreedNode) -> dict[str, str]:
    return {move.pod.name: move.target for move in found.moves}


def test_the_most_is_saved_by_the_least_work() -> None:
    engine = drawn_engine("n1 aaaa....", "n2 a.......", "n3 aa......", "n4 ........")
    priced(engine, {"n1": 8.0, "n2": 4.0, "n3": 20.0, "n4": 6.0})
    unused, first, second = freed(engine)
    assert (unused.node, unused.price, unused.moves) == ("n4", 6.0, ())
    assert (first.node, first.price) == ("n3", 20.0)
    assert set(targets(first).values()) <= {"n1", "n2"}
    assert second.node in ("n1", "n2")
    assert second.node not in targets(first).values(), "what was moved stays"


def test_units_are_never_moved_to_a_node_that_is_unused_or_freed() -> None:
    engine = drawn_engine("n1 aaaaa...", "n2 aaaaa...", "n3 ........")
    assert [each.node for each in freed(engine)] == ["n3"]


@pytest.mark.parametrize("why", [{"annotations": {DO_NOT_MOVE: "true"}}, {"controller": ""}])
def test_units_that_may_not_be_moved_keep_their_node(why: dict[str, object]) -> None:
    assert freed(drawn_engine("n1 a...", "n2 a...", **why)) == []


def test_disruption_budgets_hold_for_all_moves_together() -> None:
    engine = drawn_engine("n1 a...", "n2 a...", "n3 a...", labels={"app": "web"})
    budget = Budget("default", "b", selector=selects(app="web"), allowed=1)
    engine.handle(BudgetSeen(budget), now=0.0)
    assert len(freed(engine)) == 1


def test_without_prices_nodes_count_by_their_gpus() -> None:
    (found,) = freed(drawn_engine("n1 a.", "n2 aa......"))
    assert found.node in ("n1", "n2")
    assert found.price is None
