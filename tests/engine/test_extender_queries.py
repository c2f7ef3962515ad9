"""What another scheduler is told, and what is held for it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod, see
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, BindFailed, BindProblem, NodeChosen, NodeSeen, PodGone
from fairlead.engine.extender_queries import BEST, KEPT, UNKNOWN, ExtenderQueries
from fairlead.engine.instructions import Bind, Decline, Instruction
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement import preempt
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from ledger_audit import audited, told

FEW = "node(s) had too few free GPUs"
NO_SHARE = "node(s) had no GPU with a large enough free share"
NO_MODEL = "node(s) had no GPU of the requested kind"


def listed(name: str, *models: str) -> Any:
    gpus = tuple(
        Gpu(f"{name}-{n}", n, model, 16_000) for n, model in enumerate(models or ("H100",))
    )
    inventory = Inventory(gpus, dialects=frozenset({"nvidia", "fairlead"}))
    return a_node(name, gpus=len(gpus), inventory=inventory)


def advising(*nodes: Any, profile: str = "gpu-scheduler") -> tuple[Engine, ExtenderQueries]:
    engine = Engine({}, built_in(profile))
    for node in nodes:
        engine.handle(NodeSeen(node), now=0.0)
    assert engine.extender_queries is not None
    return engine, engine.extender_queries


def whole(name: str = "p", gpus: int = 1, **more: Any) -> Pod:
    models = frozenset(more.pop("models", ()))
    return a_pod(name, gpus=gpus, gpu_request=GpuRequest(gpus, models=models), **more)


def part(name: str = "p", milli: int = 600, **more: Any) -> Pod:
    ask = GpuRequest(1, False, milli, memory_milli=milli, dialect="fairlead")
    return a_pod(name, gpu_request=ask, **more)


def choose(engine: Engine, pod: Pod, node: str) -> Instruction:
    (made,) = engine.handle(NodeChosen(pod, node), now=0.0)
    return made


def test_each_node_says_why_and_whether_evicting_could_help() -> None:
    engine, queries = advising(listed("full"), listed("old", "V100"), listed("free"))
    choose(engine, whole("first", models=["H100"]), "full")
    result = queries.filter_nodes(whole(models=["H100"]), ["old", "free", "full", "new"])
    assert result.passed == ["free"]
    assert result.refused == {"full": "Insufficient nvidia.com/gpu"}
    assert result.unresolvable == {"old": NO_MODEL, "new": UNKNOWN}


def test_of_pods_without_gpus_it_says_nothing() -> None:
    engine, queries = advising(listed("n1"))
    pod = a_pod("plain", cpu=10**9)
    assert queries.filter_nodes(pod, ["n1", "new"]).passed == ["n1", "new"]
    assert queries.prioritize(pod, ["n1", "new"]) == [0, 0]
    assert choose(engine, pod, "n1") == Bind(pod, "n1")
    claims = a_pod("claims", cpu=1, problem="the pod requests resource claims")
    assert queries.filter_nodes(claims, ["n1"]).passed == ["n1"]


def test_a_pod_that_is_not_understood_goes_nowhere() -> None:
    engine, queries = advising(listed("n1"))
    odd = Pod("default", "odd", uid="odd", request=PodRequest(), problem="what does it want?")
    assert queries.filter_nodes(odd, ["n1"]).unresolvable == {"n1": "what does it want?"}
    assert queries.prioritize(odd, ["n1"]) == [0]
    assert queries.preempt(odd, {"n1": ["x"]}) == {}
    assert isinstance(choose(engine, odd, "n1"), Decline)


def test_two_pods_that_were_sifted_at_once_do_not_get_the_same_gpu() -> None:
    engine, queries = advising(listed("n1"))
    one, two = part("one"), part("two")
    assert (
        queries.filter_nodes(one, ["n1"]).passed
        == queries.filter_nodes(two, ["n1"]).passed
        == ["n1"]
    )
    assert isinstance(choose(engine, one, "n1"), Bind)
    declined = choose(engine, two, "n1")
    assert isinstance(declined, Decline)
    assert declined.message == f"n1 no longer fits default/two: {NO_SHARE}"
    assert queries.filter_nodes(two, ["n1"]).refused == {"n1": NO_SHARE}


@pytest.mark.parametrize("problem", BindProblem)
def test_a_bind_that_fails_gives_the_gpu_back(problem: BindProblem) -> None:
    engine, queries = advising(listed("n1"))
    pod = part("one")
    choose(engine, pod, "n1")
    assert engine.handle(BindFailed(pod.uid, problem, "no"), now=1.0) == []
    assert queries.filter_nodes(part("two"), ["n1"]).passed == ["n1"]


def test_a_pod_on_its_way_is_sent_nowhere_else() -> None:
    engine, queries = advising(listed("n1"), listed("n2"))
    pod = part("one")
    choose(engine, pod, "n1")
    assert queries.filter_nodes(pod, ["n1", "n2"]).passed == ["n1"]
    assert isinstance(choose(engine, pod, "n2"), Decline)
    assert engine.handle(BindDone(pod.uid), now=1.0) == []  # the other scheduler tells of it
    assert engine.handle(PodGone(pod), now=2.0) == []
    assert audited(engine.cluster, "n1") == told(engine.cluster, "n1")
    assert isinstance(choose(engine, part("two"), "n1"), Bind)


def test_what_is_nominated_is_kept_from_lesser_pods() -> None:
    engine, queries = advising(listed("n1"))
    high = part("high", priority=10, nominated="n1", scheduler="another")
    see(engine, high)
    low = part("low")
    assert queries.filter_nodes(low, ["n1"]).refused == {"n1": NO_SHARE}
    declined = choose(engine, low, "n1")
    assert isinstance(declined, Decline)
    assert KEPT in declined.message
    assert queries.filter_nodes(high, ["n1"]).passed == ["n1"]
    see(engine, part("high", uid=high.uid, priority=10, scheduler="another"))
    assert queries.filter_nodes(low, ["n1"]).passed == ["n1"]


def test_whom_to_evict_is_who_has_the_right_gpu() -> None:
    engine, queries = advising(listed("n1", "H100", "V100"), listed("n2", "V100"))
    h100 = whole("h100", models=["H100"], priority=2)
    v100 = whole("v100", models=["V100"], priority=1)
    for pod in (h100, v100):
        choose(engine, pod, "n1")
    other = whole("other", priority=1)
    choose(engine, other, "n2")
    urgent = whole("urgent", models=["H100"], priority=5)
    found = queries.preempt(urgent, {"n1": [v100.uid], "n2": [other.uid], "new": ["x"]})
    assert {node: [v.name for v in e.victims] for node, e in found.items()} == {"n1": ["h100"]}
    any_gpu = whole("any", priority=5)
    found = queries.preempt(any_gpu, {"n1": [h100.uid, v100.uid]})
    assert [v.name for v in found["n1"].victims] == ["v100"], "no more than must go"


def test_who_sees_more_than_we_do_keeps_its_victims() -> None:
    engine, queries = advising(listed("n1", "H100", "H100"))
    pod = whole("lesser", priority=1)
    choose(engine, pod, "n1")
    found = queries.preempt(whole("urgent", priority=5), {"n1": [pod.uid]})
    assert [v.name for v in found["n1"].victims] == ["lesser"]


@given(
    taken=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    gpus=st.integers(1, 3),
    profile=st.sampled_from(["gpu-scheduler", "binpack", "spread"]),
)
def test_whoever_follows_the_scores_goes_where_we_would_have_gone(
    taken: list[int], gpus: int, profile: str
) -> None:
    names = [f"n{number}" for number in range(len(taken))]
    engine, queries = advising(*(listed(name, *["H100"] * 4) for name in names), profile=profile)
    for name, count in zip(names, taken, strict=True):
        if count:
            choose(engine, whole(f"on-{name}", count), name)
    pod = whole("p", gpus)
    verdict = Placement(built_in(profile), engine.cluster).place(pod)
    passed = queries.filter_nodes(pod, names).passed
    if not isinstance(verdict, Placed):
        assert passed == []
        return
    scores = dict(zip(passed, queries.prioritize(pod, passed), strict=True))
    assert scores[verdict.node] == max(scores.values()) <= BEST
    assert min(scores.values()) == 0


def test_nodes_that_one_request_does_not_get_to_come_first_in_the_next(monkeypatch) -> None:
    monkeypatch.setattr(preempt, "_MOST_WORK", 0)  # one node a request
    engine, queries = advising(listed("n1"), listed("n2"), listed("n3"))
    offered = {}
    for node in ("n1", "n2", "n3"):
        pod = whole(f"on-{node}", node=node)
        see(engine, pod)
        offered[node] = [pod.uid]
    urgent = whole("urgent", priority=5)
    found = [list(queries.preempt(urgent, offered)) for _ in range(4)]
    assert found == [["n1"], ["n2"], ["n3"], ["n1"]]
    assert list(queries.preempt(whole("other", priority=5), offered)) == ["n1"]


def test_a_node_with_too_many_pods_is_not_evaluated(monkeypatch) -> None:
    monkeypatch.setattr(preempt, "_MOST_EVICTABLE", 1)
    engine, queries = advising(listed("n1", "H100", "H100"))
    pods = [whole(name, node="n1") for name in ("a", "b")]
    see(engine, *pods)
    assert queries.preempt(whole("urgent", 2, priority=5), {"n1": [pod.uid for pod in pods]}) == {}
