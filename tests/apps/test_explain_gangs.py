"""What an explanation says about the gang of a pod."""

import io
import json

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.apps.explain.explain import show
from fairlead.apps.explain.explanation import ALL, Answer, Explainer, ExplanationScope
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.pods import Pod

KEY = "fairlead/default/job"


def a_gang(count: int, minimum: int, gpus: int = 2) -> list[Pod]:
    said = GangSpec(KEY, minimum)
    return [
        a_pod(f"job-{rank}", gpus=gpus, gang=Membership(KEY, rank=rank, spec=said))
        for rank in range(count)
    ]


def told(engine: Engine, pod: Pod, shown: ExplanationScope = ALL) -> Answer:
    found = Explainer(engine, {pod.key: pod}.get)(pod.key, shown)
    assert found is not None
    return found


def text(answer: Answer) -> str:
    out = io.StringIO()
    show(answer, "text", out)
    return out.getvalue()


def a_cluster() -> Engine:
    return an_engine(a_node("node-a", gpus=4), a_node("node-b", gpus=4))


def test_which_members_would_fit_and_what_would_help() -> None:
    engine, members = a_cluster(), a_gang(5, 5)
    see(engine, *members)
    decide(engine)
    answer = told(engine, members[0])
    assert answer["state"] == "unschedulable"
    assert answer["message"].startswith("gang default/job: 4 of 5 pods fit; job-4: 0/2")
    assert [each["state"] for each in answer["gang"]["members"]] == ["would fit"] * 4 + ["waits"]
    assert answer["gang"]["remedies"] == [
        "it fits now with a minimum of 4 instead of 5",
        "it fits once there is room for 1 more pod(s) with 2 nvidia.com/gpu each",
    ]
    assert not engine.cluster.holdings
    shown = text(answer)
    assert "gang default/job (fairlead): minimum 5, 0 with a node, 0 finished, 5 pending" in shown
    assert "default/job-4  -      waits      -" in shown
    assert "what would help: it fits now with a minimum of 4 instead of 5" in shown


def test_what_helps_does_help() -> None:
    """The room that an explanation names is enough, and the minimum that it names is met."""
    engine, members = a_cluster(), a_gang(5, 5)
    engine.handle(NodeSeen(a_node("node-c", gpus=2)), now=0.0)
    see(engine, *members)
    assert told(engine, members[0])["state"] == "fits"
    less, members = a_cluster(), a_gang(5, 4)
    see(less, *members)
    assert told(less, members[0])["state"] == "fits"


def test_a_gang_that_gathers_its_pods_is_not_tried() -> None:
    engine, members = a_cluster(), a_gang(2, 3)
    see(engine, *members)
    answer = told(engine, members[0])
    assert answer["state"] == "gathering"
    assert "waits for its pods" in answer["message"]
    assert answer["gang"]["remedies"] == []


def test_a_member_with_a_node_shows_the_others() -> None:
    engine, members = a_cluster(), a_gang(3, 2)
    first = a_pod(
        "job-0", gpus=2, node="node-a", gang=Membership(KEY, rank=0, spec=GangSpec(KEY, 2))
    )
    see(engine, first, *members[1:])
    answer = told(engine, first)
    assert answer["state"] == "bound"
    states = [(each["pod"], each["state"]) for each in answer["gang"]["members"]]
    assert states == [
        ("default/job-0", "bound"), ("default/job-1", "would fit"), ("default/job-2", "would fit"),
    ]  # fmt: skip


def test_a_reader_without_rights_sees_no_nodes() -> None:
    engine, members = a_cluster(), a_gang(5, 5)
    see(engine, *members)
    little = told(engine, members[0], ExplanationScope(nodes=False, pods=False))
    assert "node-a" not in json.dumps(little)
    assert len(little["gang"]["members"]) == 5


def test_a_topology_rule_that_is_in_the_way_is_named() -> None:
    racks = [a_node(f"node-{at}", gpus=4, labels={"example.com/rack": f"r{at}"}) for at in "ab"]
    engine = an_engine(*racks)
    said = GangSpec(KEY, 4, topology=(TopologyRule("example.com/rack"),))
    members = [
        a_pod(f"job-{rank}", gpus=2, gang=Membership(KEY, rank=rank, spec=said))
        for rank in range(4)
    ]
    see(engine, *members)
    answer = told(engine, members[0])
    assert answer["state"] == "unschedulable"
    remedy = "it fits now if example.com/rack is preferred instead of required"
    assert answer["gang"]["remedies"][0] == remedy
    assert engine.gang_outlook(members[0]).spec == said
