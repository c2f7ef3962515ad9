"""The stage before the bind with several steps: volumes, and a kind that only tests have."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Bind, Prepare
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.storage import StorageClass, Volume, VolumeClaim
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from fairlead.placement.profile import Profile
from fairlead.plugins.prepare import failure_of
from fairlead.plugins.volume_step import VolumeStep
from fairlead.queue.entries import Pool

LICENCE = "example.com/licence"
STORAGE = (
    StorageClass("waits", waits=True),
    VolumeClaim("default", "data", uid="u-data", storage_class="waits", size_bytes=1),
    Volume("disk", storage_class="waits", capacity_bytes=1, phase="Available"),
)


@dataclass
class Office:
    """Where licences are taken, and the nodes for which that is under way."""

    assumed: list[str] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LicenceStep:
    office: Office
    plugin: ClassVar[str] = "Licences"
    doing: ClassVar[str] = "taking licences"
    done: ClassVar[str] = "licences were taken"

    def assume(self, cluster: Cluster, node: str) -> None:
        self.office.assumed.append(node)

    def settle(self, cluster: Cluster) -> None:
        self.office.assumed.pop()

    def problem(self, node: Nodes, name: str) -> str:
        return self.office.problem


@dataclass(frozen=True, slots=True)
class Licences:
    office: Office
    name: ClassVar[str] = "Licences"
    reads: ClassVar[Aspect] = Aspect.PRESENCE
    refusal: ClassVar[str] = "node(s) had no licence"
    resolvable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        return nodes.all()

    def prepares(self, request: PodRequest) -> bool:
        return request.amount(LICENCE) > 0

    def pre_bind(self, request: PodRequest, node: Nodes) -> LicenceStep:
        return LicenceStep(self.office)


class Scene:
    def __init__(self) -> None:
        self.office = Office()
        filters = (*built_in(SCHEDULER).filters, Licences(self.office))
        self.engine = Engine({SCHEDULER: Profile("licensed", filters)})
        self.retell()

    def retell(self) -> None:
        """All that the API server shows, but for pods."""
        gpus = Inventory((Gpu("GPU-0", 0, "T4", 16_000),), dialects=frozenset({"fairlead"}))
        self.show_node(gpus)
        for each in STORAGE:
            self.engine.handle(events.StorageSeen(each), now=0.0)

    def show_node(self, gpus: Inventory) -> None:
        node = a_node("n1", gpus=0, resources={LICENCE: 9}, inventory=gpus)
        self.engine.handle(events.NodeSeen(node), now=0.0)

    def prepare(self, pod: Pod) -> Prepare:
        see(self.engine, pod)
        (asked,) = decide(self.engine)
        assert isinstance(asked, Prepare)
        return asked

    @property
    def disk_is_taken(self) -> bool:
        return bool(self.engine.cluster.storage.volumes["disk"].claim)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def a_user(**more: object) -> Pod:
    """A pod with a volume and a licence."""
    volumes = PodVolumes((VolumeClaimUse("default/data"),))
    return a_pod("user", volumes=volumes, resources={LICENCE: 1}, **more)


def test_the_steps_come_in_the_order_of_the_filters_and_the_bind_after_all(scene: Scene) -> None:
    pod = a_user()
    asked = scene.prepare(pod)

    assert [type(step) for step in asked.steps] == [VolumeStep, LicenceStep]
    assert (asked.pod, asked.node) == (pod, "n1")
    assert scene.disk_is_taken
    assert scene.office.assumed == ["n1"]

    assert scene.engine.handle(events.Prepared(pod.uid), now=1.0) == [Bind(pod, "n1")]
    assert not scene.office.assumed
    assert scene.engine.handle(events.Prepared(pod.uid), now=1.0) == [], "it has been answered"


def test_a_pod_may_need_the_second_step_only(scene: Scene) -> None:
    pod = a_pod("licensed", resources={LICENCE: 1})
    assert [type(step) for step in scene.prepare(pod).steps] == [LicenceStep]
    assert scene.engine.handle(events.Prepared(pod.uid), now=1.0) == [Bind(pod, "n1")]


def test_a_plain_pod_needs_none(scene: Scene) -> None:
    pod = a_pod("plain")
    see(scene.engine, pod)
    assert decide(scene.engine) == [Bind(pod, "n1")]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_names_its_step_and_settles_all_of_them(scene: Scene, failing: int) -> None:
    pod = a_user()
    step = scene.prepare(pod).steps[failing]
    failed = events.PrepareFailed(pod.uid, failure_of(step, "none is left"))

    (told,) = scene.engine.handle(failed, now=1.0)

    plugin = ("VolumeBinding", "Licences")[failing]
    message = f'running PreBind plugin "{plugin}": none is left'
    assert told == AnnounceFailure(pod, "SchedulerError", message, nominated="")
    assert not scene.disk_is_taken
    assert not scene.office.assumed
    assert pod.uid not in scene.engine.cluster.holdings
    assert scene.engine.queue.counts()[Pool.BACKOFF] == 1, "it is tried again"
    (again,) = decide(scene.engine, now=5.0)
    assert isinstance(again, Prepare)


def test_what_is_found_out_when_all_is_done_fails_the_bind(scene: Scene) -> None:
    pod = a_user()
    scene.prepare(pod)
    scene.office.problem = "the licence is for another node"

    (told,) = scene.engine.handle(events.Prepared(pod.uid), now=1.0)

    message = 'running PreBind plugin "Licences": the licence is for another node'
    assert told == AnnounceFailure(pod, "SchedulerError", message, nominated="")
    assert pod.uid not in scene.engine.cluster.holdings


def test_a_gpu_that_is_lost_meanwhile_is_not_assigned(scene: Scene) -> None:
    request = GpuRequest(1, whole=False, milli=0, memory_mib=4096, dialect="fairlead")
    pod = a_user(gpu_request=request)
    scene.prepare(pod)
    scene.show_node(Inventory((), dialects=frozenset({"fairlead"})))

    (told,) = scene.engine.handle(events.Prepared(pod.uid), now=1.0)

    assert isinstance(told, AnnounceFailure)
    assert told.message == (
        "GPU GPU-0 was lost on n1 while volumes were bound and licences were taken"
    )


@pytest.mark.parametrize("answer", [events.Prepared, lambda uid: events.PrepareFailed(uid, "")])
def test_a_pod_that_is_deleted_meanwhile_leaves_nothing_behind(scene: Scene, answer) -> None:
    pod = a_user()
    scene.prepare(pod)
    scene.engine.handle(events.PodGone(pod), now=1.0)
    assert scene.disk_is_taken, "the writes may still be under way"
    assert scene.office.assumed == ["n1"]

    assert scene.engine.handle(answer(pod.uid), now=2.0) == []
    assert not scene.disk_is_taken
    assert not scene.office.assumed


def test_an_engine_that_is_built_again_goes_on_with_what_is_under_way(scene: Scene) -> None:
    pod = a_user()
    scene.prepare(pod)
    scene.office.assumed.clear()

    scene.engine.forget()
    scene.retell()
    see(scene.engine, pod)

    assert scene.office.assumed == ["n1"]
    assert decide(scene.engine) == []
    assert scene.engine.handle(events.Prepared(pod.uid), now=1.0) == [Bind(pod, "n1")]


def test_after_a_restart_the_steps_are_asked_for_again(scene: Scene) -> None:
    pod = a_user()
    before = scene.prepare(pod)
    after = Scene().prepare(pod)
    assert [type(step) for step in after.steps] == [type(step) for step in before.steps]


# -- gangs -----------------------------------------------------------------------------------


def a_gang_that_prepares(scene: Scene, count: int = 3) -> list[Pod]:
    key = "fairlead/default/job"
    spec = GangSpec(key, count)
    pods = [
        a_pod(
            f"m{n}", uid=f"m{n}", resources={LICENCE: int(n > 0)}, gang=Membership(key, spec=spec)
        )
        for n in range(count)
    ]
    see(scene.engine, *pods)
    return pods


def test_no_member_of_a_gang_is_bound_before_all_are_prepared() -> None:
    scene = Scene()
    a_gang_that_prepares(scene)
    made = decide(scene.engine)
    assert [type(each) for each in made] == [Prepare, Prepare], "one needs no step"
    assert scene.engine.handle(events.Prepared("m1"), now=1.0) == []
    after = scene.engine.handle(events.Prepared("m2"), now=1.0)
    assert {each.pod.name for each in after if isinstance(each, Bind)} == {"m0", "m1", "m2"}
    assert scene.office.assumed == []


@pytest.mark.parametrize("first", ["m1", "m2"])
def test_a_gang_is_given_up_whole_if_a_member_cannot_be_prepared(first: str) -> None:
    scene = Scene()
    a_gang_that_prepares(scene)
    decide(scene.engine)
    other = {"m1": "m2", "m2": "m1"}[first]
    made = scene.engine.handle(events.PrepareFailed(first, "no licence"), now=1.0)
    made += scene.engine.handle(events.Prepared(other), now=1.0)
    assert not any(isinstance(each, Bind) for each in made)
    assert {each.pod.name for each in made if isinstance(each, AnnounceFailure)} == {
        "m0", "m1", "m2",
    }  # fmt: skip
    assert not scene.engine.cluster.holdings
    assert scene.office.assumed == []
    assert len([m for m in decide(scene.engine, now=5.0) if isinstance(m, Prepare)]) == 2


def test_a_member_that_goes_while_others_are_prepared_ends_the_attempt() -> None:
    scene = Scene()
    pods = a_gang_that_prepares(scene)
    decide(scene.engine)
    scene.engine.handle(events.PodGone(pods[0]), now=1.0)
    made = [made for uid in ("m1", "m2") for made in
            scene.engine.handle(events.Prepared(uid), now=1.0)]  # fmt: skip
    assert not any(isinstance(each, Bind) for each in made)
    assert not scene.engine.cluster.holdings
