"""A quota is asked before a pod is placed: who waits, with which words, and what ends the wait."""

from collections.abc import Mapping

import pytest

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.tenants import Tenants
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Bind, Instruction
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.queue.entries import Pool
from fairlead.queue.quota import QuotaRefusal

TEAM = "team"


class GpuLimits:
    """So many GPUs for each team; a policy that only tests have."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = dict(limits)
        self.asked = 0

    def tenant_of(self, pod: Pod) -> str:
        return pod.labels.get(TEAM, "")

    def class_of(self, pod: Pod) -> str:
        return self.tenant_of(pod)

    def admits_some(self, pods, needed):
        return None

    def admits_on(self, pod, node, grant):
        return None

    def admits(self, pod: Pod, tenants: Tenants) -> QuotaRefusal | None:
        self.asked += 1
        team = self.tenant_of(pod)
        used, more = tenants.use_of(team).amounts[GPU] // 1000, pod.request.amount(GPU)
        limit = self.limits.get(team, 0)
        if used + more <= limit:
            return None
        message = f"team {team} has {used} of {limit} GPUs, the pod requests {more}"
        return QuotaRefusal("QuotaExceeded", message)


class Scene:
    def __init__(self, **limits: int) -> None:
        self.policy = GpuLimits(limits)
        self.engine = Engine({SCHEDULER: built_in(SCHEDULER)}, quota=self.policy)
        self.engine.handle(events.NodeSeen(a_node("n1", gpus=8)), now=0.0)

    def create(self, team: str, count: int = 1, *, gpus: int = 1) -> list[Pod]:
        pods = [a_pod(f"{team}-{n}", gpus=gpus, labels={TEAM: team}) for n in range(count)]
        see(self.engine, *pods)
        return pods

    def bound(self, now: float = 0.0) -> list[Pod]:
        """Decides as long as there is work; the pods that got a node."""
        return [made.pod for made in self.decide(now) if isinstance(made, Bind)]

    def decide(self, now: float = 0.0) -> list[Instruction]:
        return decide(self.engine, now=now)

    def end(self, pod: Pod, now: float) -> None:
        self.engine.handle(events.BindDone(pod.uid), now=now)
        self.engine.handle(events.PodGone(pod), now=now)

    @property
    def waiting(self) -> int:
        return self.engine.queue.counts()[Pool.WAITING]


def test_a_pod_beyond_its_quota_waits_with_the_reason_of_the_policy() -> None:
    scene = Scene(red=1, blue=8)
    (red,) = scene.create("red", gpus=2)
    (blue,) = scene.create("blue", gpus=2)

    made = scene.decide()

    message = "team red has 0 of 1 GPUs, the pod requests 2"
    assert [each for each in made if isinstance(each, AnnounceFailure)] == [
        AnnounceFailure(red, "QuotaExceeded", message)
    ]
    assert [each.pod for each in made if isinstance(each, Bind)] == [blue]
    assert scene.waiting == 1


def test_what_was_decided_counts_at_once() -> None:
    scene = Scene(red=2)
    scene.create("red", 5)
    assert len(scene.bound()) == 2
    assert scene.waiting == 3


def test_the_end_of_a_pod_of_the_tenant_ends_the_wait_of_one() -> None:
    scene = Scene(red=2)
    scene.create("red", 5)
    first, _ = scene.bound()
    scene.end(first, now=20.0)
    assert len(scene.bound(now=20.0)) == 1
    assert scene.waiting == 2


@pytest.mark.parametrize("change", ["another tenant's pod ends", "a node comes"])
def test_what_does_not_change_the_use_of_the_tenant_wakes_no_pod(change: str) -> None:
    scene = Scene(red=1, blue=1)
    scene.create("red", 2)
    scene.create("blue", 1)
    *_, blue = scene.bound()
    if change == "a node comes":
        scene.engine.handle(events.NodeSeen(a_node("n2", gpus=8)), now=20.0)
    else:
        scene.end(blue, now=20.0)

    made = scene.decide(now=20.0)

    assert made == []
    assert scene.waiting == 1


def test_a_pod_within_its_quota_for_which_no_node_fits_waits_for_a_node() -> None:
    scene = Scene(red=99)
    scene.create("red", gpus=9)
    (failure,) = scene.decide()
    assert isinstance(failure, AnnounceFailure)
    assert failure.reason == "Unschedulable"

    scene.engine.handle(events.NodeSeen(a_node("n2", gpus=16)), now=20.0)
    assert len(scene.bound(now=20.0)) == 1


def test_tenants_share_their_views_and_not_their_class() -> None:
    scene = Scene(red=0, blue=0)
    (red,) = scene.create("red", gpus=2)
    (blue,) = scene.create("blue", gpus=2)
    scene.decide()

    classes = {scene.engine.queue.get(pod.uid).equivalence_class for pod in (red, blue)}
    assert {class_[3] for class_ in classes} == {"red", "blue"}
    assert len({class_[1] for class_ in classes}) == 1, "the request has no tenant"
    placement = scene.engine.placement(SCHEDULER)
    assert placement.view(red) is placement.view(blue)


def test_a_policy_that_fails_fails_one_attempt() -> None:
    scene = Scene(red=8, blue=8)

    def broken(pod: Pod, tenants: Tenants) -> None:
        if pod.labels[TEAM] == "red":
            raise KeyError("limit")

    scene.policy.admits = broken
    (red,) = scene.create("red")
    (blue,) = scene.create("blue")

    made = scene.decide()

    failures = [each for each in made if isinstance(each, AnnounceFailure)]
    assert [(each.pod, each.reason) for each in failures] == [(red, "SchedulerError")]
    assert [each.pod for each in made if isinstance(each, Bind)] == [blue]
    assert scene.engine.queue.counts()[Pool.BACKOFF] == 1, "it is tried again"


def test_an_engine_that_is_built_again_counts_again() -> None:
    scene = Scene(red=2)
    scene.create("red", 2)
    assert len(scene.bound()) == 2

    scene.engine.forget()
    scene.engine.handle(events.NodeSeen(a_node("n1", gpus=8)), now=1.0)
    scene.create("red", 1)

    assert scene.bound(now=1.0) == []
    assert scene.engine.cluster.tenants.use_of("red").amounts[GPU] == 2000


def test_without_a_quota_nothing_is_counted() -> None:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    engine.handle(events.NodeSeen(a_node("n1")), now=0.0)
    see(engine, a_pod("plain", gpus=1))
    decide(engine)
    assert engine.cluster.tenants is None
