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
