"""Gangs that lack nodes: these are requested as a whole, and no pod asks for one alone."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine.events import NodeRequestSeen, NodeRequestsServed, NodeSeen
from fairlead.engine.node_requests import CONSUMED, MOST_KINDS
from fairlead.engine.reasons import UNSCHEDULABLE, WAITING_FOR_GANG, WAITING_FOR_NODES
from fairlead.model.pods import Pod
from gang_world import GangWorld, a_gang

KEY = "fairlead/default/job"


@pytest.fixture
def world() -> GangWorld:
    return GangWorld(an_engine(a_node("n1", gpus=2)))


def reasons(world: GangWorld) -> set[str]:
    return {each.reason for each in world.failures.values()}


def kinds(world: GangWorld) -> list[tuple[str, int]]:
    wanted = world.engine.node_requests.wanted
    return [(pod.name, count) for each in wanted for pod, count in each.pods]


def test_without_requests_the_pods_of_a_gang_are_unschedulable(world: GangWorld) -> None:
    world.create(*a_gang("job", 4))
    world.decide_all()
    assert reasons(world) == {UNSCHEDULABLE}
    assert kinds(world) == []


def test_nodes_are_requested_for_a_whole_gang_until_it_has_them(world: GangWorld) -> None:
    world.tell(NodeRequestsServed(is_on=True))
    world.create(*a_gang("job", 4))
    world.decide_all()
    assert reasons(world) == {WAITING_FOR_NODES}
    assert kinds(world) == [("job-0", 4)]
    world.now += 60
    world.tell(NodeSeen(a_node("n2", gpus=2)))
    world.decide_all()
    world.answer_all()
    assert world.bound("job") == 4
    assert kinds(world) == []
    assert world.engine.node_requests.is_over(KEY)


def test_what_becomes_of_the_request_is_said_at_once(world: GangWorld) -> None:
    world.tell(NodeRequestsServed(is_on=True))
    world.create(*a_gang("job", 4))
    world.decide_all()
    world.now += 1
    world.tell(NodeRequestSeen(KEY, "Request a is accepted."))
    world.decide_all()
    assert all("Request a is accepted." in each.message for each in world.failures.values())
    assert reasons(world) == {WAITING_FOR_NODES}


def test_requests_that_are_not_served_any_more_leave_pods_unschedulable(world: GangWorld) -> None:
    world.tell(NodeRequestsServed(is_on=True))
    world.create(*a_gang("job", 4))
    world.decide_all()
    world.now += 1
    world.tell(NodeRequestsServed(is_on=False))
    world.decide_all()
    assert reasons(world) == {UNSCHEDULABLE}
    assert kinds(world) == []


def test_nothing_is_requested_for_a_gang_that_lacks_pods(world: GangWorld) -> None:
    world.tell(NodeRequestsServed(is_on=True))
    world.create(*a_gang("job", 4)[:3])
    world.decide_all()
    assert reasons(world) <= {WAITING_FOR_GANG}
    assert kinds(world) == []


def test_nothing_is_requested_for_a_gang_that_has_a_request_of_its_own(world: GangWorld) -> None:
    world.tell(NodeRequestsServed(is_on=True))
    world.create(*(_annotated(pod) for pod in a_gang("job", 4)))
    world.decide_all()
    assert reasons(world) == {UNSCHEDULABLE}
    assert kinds(world) == []


def _annotated(pod: Pod) -> Pod:
    return replace(pod, annotations={CONSUMED: "mine"})


@pytest.mark.parametrize("count", [MOST_KINDS, MOST_KINDS + 1])
def test_a_request_has_no_more_kinds_of_pods_than_the_api_server_takes(
    world: GangWorld, count: int
) -> None:
    world.tell(NodeRequestsServed(is_on=True))
    pods = a_gang("job", count)
    world.create(*(_with_cpu(pod, n) for n, pod in enumerate(pods)))
    world.decide_all()
    assert len(kinds(world)) == (count if count <= MOST_KINDS else 0)


def _with_cpu(pod: Pod, n: int) -> Pod:
    request = replace(pod.request, resources=(*pod.request.resources, ("cpu", n + 1)))
    return replace(pod, request=request)


def test_nothing_is_requested_any_more_once_others_are_evicted_for_the_gang(
    world: GangWorld,
) -> None:
    world.tell(NodeRequestsServed(is_on=True))
    world.create(*a_gang("job", 4, priority=10))
    world.decide_all()
    assert kinds(world) == [("job-0", 4)]
    world.now += 60
    for n in range(2):
        world.create(a_pod(f"low-{n}", uid=f"low-{n}", gpus=1, node="n2"))
    world.tell(NodeSeen(a_node("n2", gpus=2)))
    world.decide_all()
    assert world.evictions
    assert kinds(world) == []
    assert world.engine.node_requests.is_over(KEY)


def test_gangs_that_are_gone_leave_nothing_behind(world: GangWorld) -> None:
    world.tell(NodeRequestsServed(is_on=True))
    world.create(*a_gang("job", 4))
    world.decide_all()
    world.end(*(f"job-{n}" for n in range(4)))
    assert kinds(world) == []
    assert world.engine.node_requests.is_over(KEY)
    world.tell(NodeRequestSeen(KEY, None))
    assert not vars(world.engine.node_requests)["_tried"]
