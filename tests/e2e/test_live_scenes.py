"""The scenes of the tables on a real API server, with Fairlead and kube-scheduler as judges.

`make test` plays those of `live_choice`; the others are `slow`.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import ModuleType

import pytest
from _pytest.mark import ParameterSet

import test_table_filters as filters
import test_table_preemption as preemption
import test_table_queueing as queueing
from fairlead.sim.controlplane import NO_SERVICE_ACCOUNT, ControlPlane
from live_cast import fairlead_stage, kube_stage
from live_choice import CHOSEN
from queueing_turns import BOUND, QUIET, TRIES
from stages import Stage
from tables import UNPLAYABLE

#: Nodes come without the taint that only a kubelet's word would remove.
PLAIN = (*NO_SERVICE_ACCOUNT, "TaintNodesByCondition")
#: Stories that kube-scheduler does not play, and why.
NOT_KUBE = {
    "preemption: a nomination is remembered over a restart": "only Fairlead is stopped here",
    "preemption: two at once share a node": "it was seen to let the second one wait",
    "preemption: denied evictions are no reason to hurry nor to give up": (
        "it tries some sixty times a second"
    ),
}


def rows(table: dict, test: Callable[..., None], name: str) -> dict[str, Callable[[Stage], None]]:
    return {f"{name}: {row}": partial(test, **{_second(test): what}) for row, what in table.items()}


def stories(module: ModuleType, name: str) -> dict[str, Callable[[Stage], None]]:
    """Tests that need nothing but a stage."""
    found = inspect.getmembers(module, inspect.isfunction)
    return {
        f"{name}: {test.removeprefix('test_').replace('_', ' ')}": what
        for test, what in found
        if test.startswith("test_") and list(inspect.signature(what).parameters) == ["play"]
    }


def _second(test: Callable[..., None]) -> str:
    _, name = inspect.signature(test).parameters
    return name


SCENES = (
    rows(filters.SCENES, filters.test_a_pod_goes_where_it_may_or_is_told_why_not, "filters")
    | stories(filters, "filters")
    | rows(
        queueing.TABLE,
        queueing.test_a_refused_pod_tries_again_when_that_could_help,
        "queueing",
    )
    | stories(queueing, "queueing")
    | rows(preemption.TABLE, preemption.test_those_go_who_have_to_and_nobody_else, "preemption")
    | stories(preemption, "preemption")
)


@pytest.fixture(scope="module")
def plane(assets, tmp_path_factory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("scenes")
    with ControlPlane.start(assets, folder, disable_admission=PLAIN) as started:
        yield started


@pytest.fixture(scope="module")
def fairleads(plane: ControlPlane) -> Iterator[Stage]:
    with fairlead_stage(plane) as stage:
        yield stage


@pytest.fixture(scope="module")
def kubes(plane: ControlPlane) -> Iterator[Stage]:
    with kube_stage(plane) as stage:
        yield stage


def played(names: Iterable[str]) -> list[ParameterSet]:
    return [pytest.param(n, marks=() if n in CHOSEN else pytest.mark.slow) for n in names]


def play_and_clear(stage: Stage, scene: str) -> None:
    """The other judge, too, is to find nothing of it."""
    try:
        SCENES[scene](stage)
    finally:
        stage.clear()


@pytest.mark.parametrize("scene", played(SCENES))
def test_fairlead_plays_it_on_a_real_server(fairleads: Stage, scene: str) -> None:
    play_and_clear(fairleads, scene)


@pytest.mark.parametrize("scene", played(name for name in SCENES if name not in NOT_KUBE))
def test_kube_scheduler_plays_it(kubes: Stage, scene: str) -> None:
    play_and_clear(kubes, scene)


# -- the choice ----------------------------------------------------------------------------------


def test_all_that_is_named_is_a_scene() -> None:
    assert len(SCENES) == 343
    assert set(CHOSEN) <= set(SCENES)
    assert set(NOT_KUBE) <= set(SCENES)
    assert all(any(scene.endswith(name) for scene in SCENES) for name in UNPLAYABLE)


def test_each_rule_of_filters_and_of_queueing_has_a_chosen_scene() -> None:
    rules = {_rule(scene) for scene in SCENES if scene.count(": ") == 2}
    assert rules == {_rule(scene) for scene in CHOSEN if scene.count(": ") == 2}


def test_each_thing_that_may_follow_has_a_chosen_scene() -> None:
    turns = [queueing.TABLE[_row(name)] for name in CHOSEN if name.startswith("queueing: ")]
    assert {turn.follows for turn in turns} == {BOUND, TRIES, QUIET}


def test_each_way_of_making_room_has_a_chosen_scene() -> None:
    names = [_row(name) for name in CHOSEN if name.startswith("preemption: ")]
    table = [preemption.TABLE[name] for name in names if name in preemption.TABLE]
    assert any(scene.victims for scene in table)
    assert any(not scene.on for scene in table)
    assert any(scene.budgets for scene in table)
    assert any(scene.objects for scene in table)
    assert len(table) < len(names), "no story is among them"


def test_what_cannot_be_played_in_process_has_a_chosen_scene_for_each_reason() -> None:
    chosen = {UNPLAYABLE[_row(name)] for name in CHOSEN if _row(name) in UNPLAYABLE}
    assert chosen == set(UNPLAYABLE.values())


def _rule(scene: str) -> str:
    return scene.rpartition(": ")[0]


def _row(scene: str) -> str:
    return scene.partition(": ")[2]
