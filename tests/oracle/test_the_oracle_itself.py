"""The comparison sees what it should see: each kind of difference, ties, and exceptions."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.apps.config import kube_scheduler
from fairlead.model.behaviour import KNOWN
from fairlead.placement.explain import Explanation, NodeAnswer
from fairlead.placement.verdicts import Placed
from fairlead.plugins.registry import Registry
from oracle.answers import Answer
from oracle.case import Case, Object, read
from oracle.compare import difference
from oracle.configurations import DEFAULT, as_file, in_turn, served
from oracle.exceptions import EXCEPTIONS, OnPurpose, excuse
from oracle.generate import ALL_FEATURES, generate
from oracle.generate_claims import generate_claims
from oracle.judge import Judge
from oracle.minimise import _parts, _with_fewer_fields, _with_fewer_objects, _without

PROBE: Object = {"metadata": {"name": "probe"}}
EMPTY = Case("empty", [], [PROBE])
CONDITION = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
EVENT = {"reason": "FailedScheduling", "note": "0/1 nodes are available"}
REFUSED = Answer(condition=CONDITION, event=EVENT)
JUDGED = Explanation(
    Placed("a", 9.0),
    (
        NodeAnswer("a", score=9.0),
        NodeAnswer("b", score=9.0),
        NodeAnswer("d", score=8.0),
        NodeAnswer("c", "NodePorts"),
    ),
)


def kind(theirs: Answer, ours: Answer, case: Case = EMPTY, probe: Object = PROBE) -> str:
    found = difference(case, probe, theirs, ours, JUDGED)
    return found.kind if found else ""


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        pytest.param(Answer("a"), Answer("b"), "", id="two equally good nodes"),
        pytest.param(Answer("a"), REFUSED, "verdict", id="placed there, refused here"),
        pytest.param(REFUSED, Answer("a"), "verdict", id="refused there, placed here"),
        pytest.param(Answer("a"), Answer(), "verdict", id="nothing said here"),
        pytest.param(
            Answer("a", claims=("gpu-0",)),
            Answer("a", claims=("gpu-1",)),
            "devices",
            id="other devices",
        ),
        pytest.param(
            Answer("a", claims=("gpu-0",)),
            Answer("b", claims=("gpu-0",)),
            "",
            id="the same devices, had it been the same node",
        ),
        pytest.param(Answer("c"), Answer("a"), "feasible", id="a node that we refuse"),
        pytest.param(Answer("d"), Answer("a"), "score", id="a node that we like less"),
        pytest.param(Answer("a"), Answer("d"), "score", id="a node that we should like less"),
        pytest.param(
            REFUSED,
            replace(REFUSED, condition={**CONDITION, "message": "0/1 nodes are available "}),
            "condition message",
            id="one blank more in the condition",
        ),
        pytest.param(
            REFUSED, replace(REFUSED, event={**EVENT, "note": ""}), "event note", id="another note"
        ),
        pytest.param(
            replace(REFUSED, nominated="a"), REFUSED, "verdict", id="room is made there only"
        ),
    ],
)
def test_a_difference_is_seen(theirs: Answer, ours: Answer, expected: str) -> None:
    assert kind(theirs, ours) == expected


@pytest.mark.parametrize(
    ("ours", "expected"),
    [("on n1", ""), ("on n2", ""), ("on n3", "condition message")],
    ids=["the same", "of another node", "of no node"],
)
def test_of_several_errors_each_side_tells_one(ours: str, expected: str) -> None:
    told = [Answer(condition={"message": text}, event={"note": text}) for text in ("on n1", ours)]
    found = difference(EMPTY, PROBE, *told, JUDGED, failures={"on n1", "on n2"})
    assert (found.kind if found else "") == expected


@pytest.mark.parametrize(
    ("nomination", "node", "expected"),
    [
        pytest.param("d", "d", "", id="to the nominated node, which is not the best"),
        pytest.param("d", "a", "score", id="to the best one instead"),
        pytest.param("c", "a", "", id="a nomination that cannot be kept"),
    ],
)
def test_a_nomination_comes_before_scores(nomination: str, node: str, expected: str) -> None:
    probe = {**PROBE, "status": {"nominatedNodeName": nomination}}
    assert kind(Answer(node), Answer(node), probe=probe) == expected


def test_who_loses_a_nomination_is_compared() -> None:
    theirs = replace(REFUSED, nominated="a", cleared=(("team-a", "waits"),))
    assert kind(theirs, theirs) == ""
    assert kind(theirs, replace(theirs, cleared=())) == "victims"


def victim(name: str, node: str, priority: int, started: int = 1) -> Object:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "labels": {"app": name}},
        "spec": {"nodeName": node, "priority": priority},
        "status": {"startTime": f"2026-01-0{started}T00:00:00Z"},
    }


def evicts(node: str, *names: str) -> Answer:
    return replace(REFUSED, nominated=node, victims=tuple(("team-a", name) for name in names))


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        pytest.param(evicts("a", "one"), "", id="the same victim"),
        pytest.param(evicts("a", "two"), "victims", id="another victim on the same node"),
        pytest.param(evicts("b", "like-one"), "", id="an equal victim on another node"),
        pytest.param(evicts("b", "younger"), "victims", id="one that started later"),
        pytest.param(evicts("b", "dearer"), "victims", id="one of higher priority"),
        pytest.param(evicts("b", "guarded"), "victims", id="one that a budget guards"),
    ],
)
def test_other_victims_are_seen(ours: Answer, expected: str) -> None:
    pods = [
        victim("one", "a", 0),
        victim("two", "a", 0),
        victim("like-one", "b", 0),
        victim("younger", "b", 0, started=2),
        victim("dearer", "b", 1),
        victim("guarded", "b", 0),
    ]
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget", "namespace": "team-a"},
        "spec": {"selector": {"matchLabels": {"app": "guarded"}}},
        "status": {"disruptionsAllowed": 0},
    }
    case = Case("evictions", [*pods, budget], [PROBE])
    assert kind(evicts("a", "one"), ours, case) == expected


# -- exceptions ----------------------------------------------------------------------------------


def node(name: str) -> Object:
    amounts = {"cpu": "4", "memory": "4Gi", "pods": "9"}
    labels = {"zone": name}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts},
    }


def apart_from_web(operator: str) -> Object:
    line = {"key": "env", "operator": operator, "values": ["prod"]}
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchExpressions": [line]},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "team-b", "uid": "p"},
        "spec": {"containers": [], "affinity": {"podAntiAffinity": required}},
    }


WORLD = [
    node("a"),
    {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"env": "prod"}}},
    {
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "team-a", "uid": "w", "labels": {"app": "web"}},
        "spec": {"containers": [], "nodeName": "a"},
    },
]
CROWDED = (
    "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. no new claims to "
    "deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming "
    "pod."
)


@pytest.mark.parametrize(
    ("operator", "told", "minor", "expected"),
    [
        pytest.param("NotIn", CROWDED, 36, True, id="read as every namespace"),
        pytest.param("NotIn", CROWDED, 37, False, id="a version that reads it well"),
        pytest.param("In", CROWDED, 36, False, id="a selector that both read alike"),
        pytest.param("NotIn", f"{CROWDED} more", 36, False, id="words that this does not explain"),
    ],
)
def test_an_exception_accounts_for_what_it_predicts_only(
    operator: str, told: str, minor: int, expected: bool
) -> None:
    theirs = Answer(condition={**CONDITION, "message": told})
    assert bool(excuse(apart_from_web(operator), theirs, Judge(WORLD, minor), minor)) == expected


# -- configurations ------------------------------------------------------------------------------


def test_the_defaults_that_are_built_in_are_those_of_an_empty_profile() -> None:
    found = kube_scheduler.translate(as_file(), Registry(), KNOWN[0])
    assert found is not None
    read, built_in = found.profiles[DEFAULT], served()[DEFAULT]
    assert [rule.name for rule in read.filters] == [rule.name for rule in built_in.filters]
    assert Counter(map(str, read.scores)) == Counter(map(str, built_in.scores))


def test_all_configurations_have_their_turn() -> None:
    asked = {in_turn(seed) for seed in range(10)} | {_scheduler_of(seed) for seed in range(3)}
    assert asked == served().keys()


def _scheduler_of(seed: int) -> str:
    (name,) = {probe["spec"]["schedulerName"] for probe in generate_claims(seed).probes}
    return str(name)


# -- cases ---------------------------------------------------------------------------------------


def test_a_seed_makes_the_same_case_every_time(tmp_path) -> None:
    case = generate(7, ALL_FEATURES)
    assert case == generate(7, ALL_FEATURES)
    assert case == read(case.write(tmp_path))
    assert case != generate(8, ALL_FEATURES)


def test_what_a_difference_does_not_need_goes() -> None:
    names = ["a", "b", "c", "d", "e"]
    case = Case("five nodes", [node(name) for name in names], [PROBE])

    def differs(case: Case) -> bool:
        labels = {n["metadata"]["name"]: n["metadata"].get("labels") for n in case.objects}
        return "d" in labels and bool(labels["d"])

    smallest = _with_fewer_fields(_with_fewer_objects(case, differs), differs)
    assert smallest.objects == [
        {"kind": "Node", "metadata": {"name": "d", "labels": {"zone": "d"}}}
    ]


def test_every_part_can_be_taken_out_once() -> None:
    whole = {"objects": [node("a")], "probes": []}
    for path in _parts(whole):
        smaller = _without(whole, path)
        assert smaller is not None
        assert smaller != whole


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda exception: exception.name)
def test_every_exception_is_explained_to_users(exception: OnPurpose) -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert f"| `{exception.name}` |" in (docs / "compatibility.md").read_text()
    assert (docs / "adr" / exception.adr).exists()
