"""Queues of teams in the engine: which pods wait, with which words, and what ends the wait."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from builders import SCHEDULER, a_node, a_pod, an_engine, decide, see
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceWarning,
    Bind,
    Instruction,
    QueueStatusChanged,
)
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.model.queues import (
    GPUS,
    UNQUEUED,
    GpuBudget,
    PastUse,
    Period,
    QueueReport,
    QueueSpec,
)
from fairlead.queue.entries import Pool
from fairlead.testing.builders import a_gpu_node, gpu_share


def a_queue(name: str, gpus: float | None = None, parent: str = "", **more: object) -> QueueSpec:
    limit = () if gpus is None else ((GPUS, round(1000 * gpus)),)
    parent = f"fairlead/{parent}" if parent else ""
    return QueueSpec(f"fairlead/{name}", parent, **{"limit": limit, **more})


class Scene:
    def __init__(self, *queues: QueueSpec, served: bool = True) -> None:
        self.engine: Engine = an_engine(a_node("n1", gpus=16))
        self.now = 0.0
        if served:
            self.serve()
        self.show(*queues)

    def serve(self) -> None:
        self.engine.handle(events.QueueKindSeen("fairlead", is_served=True), now=self.now)

    def show(self, *queues: QueueSpec) -> None:
        for queue in queues:
            self.engine.handle(events.QueueSeen(queue), now=self.now)

    def create(self, queue: str, count: int = 1, **more: object) -> list[Pod]:
        more = {"gpus": 1, **more}
        pods = [a_pod(f"{queue}-{n}", queue=f"fairlead/{queue}", **more) for n in range(count)]
        see(self.engine, *pods, now=self.now)
        return pods

    def decide(self) -> list[Instruction]:
        return decide(self.engine, now=self.now)

    def bound(self) -> list[Pod]:
        made = [each for each in self.decide() if isinstance(each, Bind)]
        for bind in made:
            self.engine.handle(events.BindDone(bind.pod.uid), now=self.now)
            see(self.engine, replace(bind.pod, node=bind.node), now=self.now)
        return [bind.pod for bind in made]

    def failures(self) -> list[tuple[str, str]]:
        made = [each for each in self.decide() if isinstance(each, AnnounceFailure)]
        return [(each.reason, each.message) for each in made]

    def end(self, pod: Pod) -> None:
        self.now += 20.0
        self.engine.handle(events.PodGone(replace(pod, node="n1")), now=self.now)

    def later(self) -> None:
        self.now += 20.0

    def report(self, name: str) -> QueueReport:
        return next(each for each in self.engine.queues.report() if each.spec.name == name)

    def used(self, name: str) -> int:
        return dict(self.report(name).used).get(GPUS, 0)

    @property
    def waiting(self) -> int:
        return self.engine.queue.counts()[Pool.WAITING]


def test_a_limit_holds_pods_back_with_the_queue_the_resource_and_both_numbers() -> None:
    scene = Scene(a_queue("red", 3))
    scene.create("red", 2, gpus=2)
    assert scene.failures() == [
        ("QueueLimit", "queue red has a limit of 3 nvidia.com/gpu: 2 used, 2 requested")
    ]
    assert scene.used("red") == 2000
    assert scene.report("red").pending_pods == 1


def test_a_limit_of_an_ancestor_holds_for_all_queues_beneath() -> None:
    scene = Scene(a_queue("top", 3), a_queue("red", 2, "top"), a_queue("blue", None, "top"))
    scene.create("red", 3)
    scene.create("blue", 3)
    assert len(scene.bound()) == 3
    assert scene.used("top") == 3000
    assert scene.waiting == 3


def test_only_resources_that_the_limit_lists_are_limited() -> None:
    scene = Scene(QueueSpec("fairlead/red", limit=(("cpu", 4000),)))
    scene.create("red", 2, cpu=1000, gpus=4, resources={"pods": 1, "hugepages-2Mi": 0})
    assert len(scene.bound()) == 2
    scene.create("red", 1, cpu=3000)
    assert scene.failures() == [
        ("QueueLimit", "queue red has a limit of 4 cpu: 2 used, 3 requested")
    ]


@pytest.mark.parametrize(
    ("queues", "reason", "message"),
    [
        ([a_queue("blue")], "QueueNotFound", "the queue red does not exist; create it or name"),
        ([a_queue("red", closed=True)], "QueueClosed", "queue red is closed"),
        (
            [a_queue("red", leaves_only=True), a_queue("b", parent="red")],
            "QueueInvalid", "queue red has queues beneath it, and takes no pods of its own",
        ),
        ([a_queue("red", parent="no")], "QueueInvalid", "queue red names the parent no, which"),
        ([a_queue("red", namespaces=frozenset("x"))], "QueueNotAllowed", "pods of namespace def"),
        (
            [a_queue("top", closed=True), a_queue("red", parent="top")],
            "QueueClosed", "queue top is closed",
        ),
    ],
)  # fmt: skip
def test_why_a_pod_is_not_admitted(queues: list[QueueSpec], reason: str, message: str) -> None:
    scene = Scene(*queues)
    scene.create("red")
    ((said, words),) = scene.failures()
    assert said == reason
    assert words.startswith(message)

    scene.later()
    assert scene.decide() == [], "it is not tried again while nothing has changed"
    scene.show(*(a_queue(queue.name, parent="") for queue in queues), a_queue("red"))
    assert len(scene.bound()) == 1


def test_pods_of_a_kind_that_is_not_served_have_no_queue() -> None:
    scene = Scene(a_queue("red", 0))
    pod = a_pod("other", gpus=1, queue="kai/red")
    see(scene.engine, pod)
    assert scene.bound() == [pod]

    scene.engine.handle(
        events.QueueKindSeen("kai", is_served=False, problem="may not be listed"), now=0.0
    )
    see(scene.engine, a_pod("next", gpus=1, queue="kai/red"))
    assert scene.failures() == [("QueueNotFound", "may not be listed")]


def test_the_queue_of_the_namespace_and_pods_that_have_none() -> None:
    scene = Scene(a_queue("red", 0))
    scene.engine.handle(events.NamespaceSeen("default", {}, "fairlead/red"), now=0.0)
    see(scene.engine, a_pod("default-queue", gpus=1), a_pod("kueue", gpus=1, queue=UNQUEUED))
    assert [pod.name for pod in scene.bound()] == ["kueue"]
    assert scene.waiting == 1


def test_an_elastic_quota_is_the_queue_of_its_namespace() -> None:
    scene = Scene(replace(a_queue("eq", 0), of_namespace="default"))
    see(scene.engine, a_pod("p", gpus=1))
    assert [reason for reason, _ in scene.failures()] == ["QueueLimit"]


def test_shares_and_slices_count_in_thousandths() -> None:
    scene = Scene(a_queue("red", 1))
    scene.engine.handle(events.NodeSeen(a_gpu_node("g1", gpus=8)), now=0.0)
    scene.create("red", 4, gpus=0, gpu_request=gpu_share(400))
    assert len(scene.bound()) == 2
    assert scene.used("red") == 800
    assert dict(scene.report("red").used)["fairlead.dev/gpu-H100"] == 800


def test_a_limit_of_a_model_holds_once_the_node_is_known() -> None:
    limit = (("fairlead.dev/gpu-H100", 2000),)
    scene = Scene(QueueSpec("fairlead/red", limit=limit), a_queue("blue"))
    scene.engine.handle(events.NodeGone("n1"), now=0.0)
    scene.engine.handle(events.NodeSeen(a_gpu_node("g1", model="NVIDIA H100 80GB HBM3")), now=0.0)
    share = gpu_share(1000, models=frozenset({"H100"}))
    scene.create("red", 3, gpus=0, gpu_request=share)
    scene.create("blue", 1, gpus=0, gpu_request=share)
    assert len(scene.bound()) == 3
    assert dict(scene.report("red").used)["fairlead.dev/gpu-H100"] == 2000
    assert [entry.held_back_by for entry in scene.engine.queues.pending("fairlead/red")] == [
        "fairlead/red"
    ]


def test_a_gang_is_held_back_by_the_limit_of_a_model() -> None:
    scene = Scene(QueueSpec("fairlead/red", limit=(("fairlead.dev/gpu-H100", 2000),)))
    scene.engine.handle(events.NodeGone("n1"), now=0.0)
    scene.engine.handle(events.NodeSeen(a_gpu_node("g1")), now=0.0)
    key = "x/default/g"
    scene.engine.handle(events.GangSeen(GangSpec(key, 3, queue="fairlead/red")), now=0.0)
    share = gpu_share(1000)
    see(
        scene.engine,
        *(a_pod(f"g{n}", gang=Membership(key), gpu_request=share) for n in range(3)),
    )
    assert {reason for reason, _ in scene.failures()} == {"QueueLimit"}
    assert scene.used("red") == 0


def two_models(scene: Scene) -> None:
    scene.engine.handle(events.NodeGone("n1"), now=0.0)
    for name, model in (("g1", "NVIDIA H100 80GB HBM3"), ("g2", "NVIDIA A100 80GB")):
        scene.engine.handle(events.NodeSeen(a_gpu_node(name, model=model)), now=0.0)


def test_a_limit_of_a_model_leaves_gpus_of_other_models() -> None:
    scene = Scene(QueueSpec("fairlead/red", limit=(("fairlead.dev/gpu-H100", 1000),)))
    two_models(scene)
    scene.create("red", 4, gpus=0, gpu_request=gpu_share(1000))
    nodes = [bind.node for bind in scene.decide() if isinstance(bind, Bind)]
    assert Counter(nodes) == {"g1": 1, "g2": 3}


def test_a_pod_beyond_the_limit_of_a_model_waits_for_room_on_others() -> None:
    limit = (("fairlead.dev/gpu-H100", 0),)
    scene = Scene(QueueSpec("fairlead/red", limit=limit), a_queue("blue"))
    two_models(scene)
    blue = scene.create("blue", 8, gpus=0, gpu_request=gpu_share(1000, models=frozenset({"A100"})))
    assert len(scene.decide()) == 8
    scene.create("red", 1, gpus=0, gpu_request=gpu_share(1000))
    assert [reason for reason, _ in scene.failures()] == ["QueueLimit"]
    scene.now += 20.0
    scene.engine.handle(events.PodGone(blue[0]), now=scene.now)
    assert [bind.node for bind in scene.decide() if isinstance(bind, Bind)] == ["g2"]


def test_members_of_a_gang_go_to_other_models_beyond_a_limit() -> None:
    scene = Scene(QueueSpec("fairlead/red", limit=(("fairlead.dev/gpu-H100", 2000),)))
    two_models(scene)
    key = "x/default/g"
    scene.engine.handle(events.GangSeen(GangSpec(key, 6, queue="fairlead/red")), now=0.0)
    pods = [a_pod(f"g{n}", gang=Membership(key), gpu_request=gpu_share(1000)) for n in range(6)]
    see(scene.engine, *pods)
    nodes = [bind.node for bind in scene.decide() if isinstance(bind, Bind)]
    assert len(nodes) == 6
    assert nodes.count("g1") <= 2


# -- waking ----------------------------------------------------------------------------------


def test_the_end_of_a_pod_wakes_one_that_waits_for_that_queue_and_no_other() -> None:
    scene = Scene(a_queue("red", 2), a_queue("blue", 1))
    scene.create("red", 4)
    scene.create("blue", 3)
    first = scene.bound()[0]
    entered = scene.engine.queue.entered.total()
    scene.end(first)
    assert [pod.queue for pod in scene.bound()] == ["fairlead/red"]
    assert scene.engine.queue.entered.total() - entered <= 3
    assert scene.waiting == 3


def test_a_raised_limit_wakes_the_pods_of_the_queue() -> None:
    scene = Scene(a_queue("red", 1))
    scene.create("red", 4)
    scene.bound()
    scene.later()
    scene.show(a_queue("red", 3))
    assert len(scene.bound()) == 2


def test_a_queue_under_another_parent_wakes_its_pods() -> None:
    scene = Scene(a_queue("small", 0), a_queue("large", 9), a_queue("red", parent="small"))
    scene.create("red", 2)
    assert scene.bound() == []
    scene.later()
    scene.show(a_queue("red", parent="large"))
    assert len(scene.bound()) == 2
    assert scene.used("large") == 2000


def test_pods_of_a_queue_under_a_parent_that_lists_namespaces_differ_by_namespace() -> None:
    scene = Scene(a_queue("small", 0), a_queue("red", parent="small"))
    scene.show(a_queue("listing", namespaces=frozenset(["default"])), a_queue("blue", 0))
    scene.create("blue")
    others = [a_pod(f"p{n}", gpus=1, queue="fairlead/red") for n in range(4)]
    see(scene.engine, *(replace(pod, namespace="other") for pod in others))
    scene.create("red", 2)
    assert scene.bound() == []
    classes = {entry.equivalence_class for entry in scene.engine.queues.pending("fairlead/red")}
    assert len(classes) == 1
    scene.later()
    scene.show(a_queue("red", parent="listing"))
    assert len(scene.bound()) == 2
    (blue,) = scene.engine.queues.pending("fairlead/blue")
    assert blue.equivalence_class
    assert blue.equivalence_class[3] == "fairlead/blue"
    pending = scene.engine.queues.pending("fairlead/red")
    assert {entry.equivalence_class[3] for entry in pending if entry.equivalence_class} == {
        "fairlead/red other"
    }


def test_a_status_that_was_written_wakes_nothing() -> None:
    scene = Scene(a_queue("red", 0))
    scene.create("red")
    scene.bound()
    before = scene.engine.queues.admissions.version
    written = PastUse(at_s=10.0, gpu_seconds=5.0)
    scene.show(replace(a_queue("red", 0), recorded=written))
    scene.bound()
    assert scene.engine.queues.admissions.version == before
    scene.show(replace(a_queue("red", 0), recorded=written, weight=2.0))
    scene.bound()
    assert scene.engine.queues.admissions.version > before


def test_a_label_that_is_edited_during_a_bind_that_fails_counts() -> None:
    scene = Scene(a_queue("red"))
    pod = a_pod("p", gpus=1)
    see(scene.engine, pod)
    assert any(isinstance(made, Bind) for made in scene.decide())
    see(scene.engine, replace(pod, queue="fairlead/red"))
    failed = events.BindFailed(pod.uid, events.BindProblem.DENIED, "no")
    scene.engine.handle(failed, now=0.0)
    assert scene.report("red").pending_pods == 1


# -- beginning and ending --------------------------------------------------------------------


def test_nothing_is_counted_before_the_first_queue() -> None:
    scene = Scene(served=False)
    scene.create("red", 2)
    assert len(scene.bound()) == 2, "words of an API that is not served are no words"
    assert scene.engine.cluster.tenants is None
    assert scene.engine.queue.observer is None
    assert scene.engine.queues.report() == []

    scene.show(a_queue("red", 2))
    assert scene.used("red") == 2000, "what is held counts from the first queue on"
    scene.create("red")
    assert scene.bound() == []


def test_plain_pods_are_not_counted_where_queues_are_served() -> None:
    scene = Scene()
    see(scene.engine, a_pod("plain", gpus=1))
    assert len(scene.bound()) == 1
    assert scene.engine.cluster.tenants is None


@pytest.mark.parametrize("named_first", [True, False])
def test_a_pod_that_names_a_queue_waits_also_while_there_is_none(named_first: bool) -> None:
    scene = Scene(served=not named_first)
    scene.create("red")
    if named_first:
        scene.serve()
    assert [reason for reason, _ in scene.failures()] == ["QueueNotFound"]
    scene.later()
    scene.show(a_queue("red"))
    assert len(scene.bound()) == 1


def test_after_the_last_queue_is_gone_its_pods_wait_and_others_go_on() -> None:
    scene = Scene(a_queue("red", 0))
    scene.create("red", 2)
    assert scene.bound() == []
    scene.later()
    scene.engine.handle(events.QueueGone("fairlead/red"), now=scene.now)
    see(scene.engine, a_pod("plain", gpus=1), now=scene.now)
    assert [pod.name for pod in scene.bound()] == ["plain"]

    scene.later()
    scene.engine.handle(events.QueueKindSeen("fairlead", is_served=False), now=scene.now)
    assert len(scene.bound()) == 2, "without the API there are no queues"
    assert scene.engine.cluster.tenants is None


def test_pods_of_a_namespace_are_pending_for_its_queue_from_when_it_names_one() -> None:
    scene = Scene(a_queue("red", 0))
    see(scene.engine, *(a_pod(f"p{n}", gpus=17) for n in range(3)))
    scene.decide()
    assert scene.report("red").pending_pods == 0
    scene.engine.handle(events.NamespaceSeen("default", {}, "fairlead/red"), now=1.0)
    assert scene.report("red").pending_pods == 3
    scene.engine.handle(events.NamespaceSeen("default", {}), now=2.0)
    assert scene.report("red").pending_pods == 0


def test_a_queue_that_is_deleted_in_use_loses_no_pod() -> None:
    scene = Scene(a_queue("red", 2), a_queue("other"))
    scene.create("red", 3)
    assert len(scene.bound()) == 2
    scene.engine.handle(events.QueueGone("fairlead/red"), now=scene.now)
    scene.create("red")
    assert [reason for reason, _ in scene.failures()] == ["QueueNotFound"] * 2
    scene.later()
    scene.show(a_queue("red", 3))
    assert scene.used("red") == 2000
    assert len(scene.bound()) == 1


@pytest.mark.parametrize("of", ["pods", "a gang"])
def test_pods_that_wait_say_so_when_their_queue_is_deleted(of: str) -> None:
    scene = Scene(a_queue("red", 1), a_queue("other"))
    if of == "pods":
        scene.create("red", 4, gpus=2)
    else:
        a_gang(scene, "g", 4, "red")
    assert {reason for reason, _ in scene.failures()} == {"QueueLimit"}
    scene.later()
    assert scene.decide() == []
    scene.engine.handle(events.QueueGone("fairlead/red"), now=scene.now)
    said = []
    for _ in range(4):
        said += scene.failures()
        scene.later()
    assert [reason for reason, _ in said] == ["QueueNotFound"] * 4
    assert scene.decide() == []


def test_an_edited_label_moves_no_use() -> None:
    scene = Scene(a_queue("red", 1), a_queue("blue", 1))
    (pod,) = scene.create("red")
    scene.bound()
    see(scene.engine, replace(pod, node="n1", queue="fairlead/blue", usage=(("cpu", 1), (GPUS, 1))))
    assert (scene.used("red"), scene.used("blue")) == (1000, 0)


@pytest.mark.parametrize("named", ["fairlead/blue", ""])
def test_an_edited_label_is_reported_once(named: str) -> None:
    scene = Scene(a_queue("red", 1), a_queue("blue", 1))
    (pod,) = scene.create("red")
    scene.bound()
    at_work = replace(pod, node="n1", charged_queue="fairlead/red")
    assert see(scene.engine, at_work) == []
    edited = replace(at_work, queue=named)
    (warning,) = see(scene.engine, edited, edited)
    assert isinstance(warning, AnnounceWarning)
    assert warning.reason == "QueueChangeIgnored"
    assert "The pod stays counted for queue red." in warning.message


def test_a_gang_that_names_another_queue_than_its_pods_is_no_edit() -> None:
    scene = Scene(a_queue("red", 4), a_queue("blue", 4))
    members = a_gang(scene, "g", 2, "red")
    scene.bound()
    shown = [replace(each, node="n1", charged_queue="fairlead/red") for each in members]
    assert [each for each in see(scene.engine, *shown) if isinstance(each, AnnounceWarning)] == []


# -- gangs -----------------------------------------------------------------------------------


def a_gang(scene: Scene, name: str, pods: int, queue: str = "", **more: object) -> list[Pod]:
    key = f"x/default/{name}"
    spec = GangSpec(key, pods, queue=f"fairlead/{queue}" if queue else "", **more)
    members = [
        a_pod(f"{name}-{n}", gpus=1, gang=Membership(key), queue="fairlead/blue")
        for n in range(pods)
    ]
    see(scene.engine, *members, now=scene.now)
    scene.engine.handle(events.GangSeen(spec), now=scene.now)
    return members


def test_a_gang_is_admitted_as_one_sum() -> None:
    scene = Scene(a_queue("red", 6))
    a_gang(scene, "first", 4, "red")
    a_gang(scene, "second", 4, "red")
    assert len(scene.bound()) == 4
    assert scene.used("red") == 4000
    assert scene.report("red").pending_units == 1
    assert scene.report("red").pending_pods == 4
    scene.later()
    entry = scene.engine.queue.gang("x/default/second")
    assert entry.unit.refusal == (
        "gang default/second: queue red has a limit of 6 nvidia.com/gpu: 4 used, 4 requested."
    )


def test_the_queue_of_a_gang_is_that_of_its_object() -> None:
    scene = Scene(a_queue("red", 4), a_queue("blue", 0))
    members = a_gang(scene, "one", 4, "red")
    assert len(scene.bound()) == 4
    assert scene.used("red") == 4000
    assert scene.engine.queues.of(members[0]) == "fairlead/red"


def test_members_of_a_gang_whose_object_comes_later_are_counted_for_its_queue() -> None:
    scene = Scene(a_queue("red", 4))
    pod = a_pod("m", gpus=1, gang=Membership("x/default/late"), node="n1")
    see(scene.engine, pod)
    assert scene.used("red") == 0
    scene.engine.handle(
        events.GangSeen(GangSpec("x/default/late", 1, queue="fairlead/red")), now=0.0
    )
    assert scene.used("red") == 1000


def test_a_pod_and_a_gang_that_name_queues_of_two_kinds_wait() -> None:
    scene = Scene(a_queue("red"))
    scene.show(QueueSpec("kai/green"))
    key = "x/default/one"
    see(scene.engine, a_pod("m", gpus=1, gang=Membership(key), queue="kai/green"))
    scene.engine.handle(events.GangSeen(GangSpec(key, 1, queue="fairlead/red")), now=0.0)
    ((reason, message),) = scene.failures()
    assert reason == "QueueInvalid"
    assert "the pod names the queue green (kai), and its gang the queue red (fairlead)" in message


def test_a_gang_wakes_when_its_queue_has_room() -> None:
    scene = Scene(a_queue("red", 4))
    first = a_gang(scene, "first", 4, "red")
    a_gang(scene, "second", 4, "red")
    assert len(scene.bound()) == 4
    for pod in first:
        scene.end(pod)
    assert len(scene.bound()) == 4


# -- restarts --------------------------------------------------------------------------------


def test_an_engine_that_begins_again_counts_the_same() -> None:
    scene = Scene(a_queue("red", 2))
    scene.create("red", 3)
    bound = scene.bound()
    scene.engine.forget()
    scene.engine.handle(events.NodeSeen(a_node("n1", gpus=16)), now=1.0)
    see(scene.engine, *(replace(pod, node="n1") for pod in bound), now=1.0)
    scene.show(a_queue("red", 2))
    assert scene.used("red") == 2000
    assert SCHEDULER in scene.engine.schedulers


def test_shares_are_right_from_the_first_decision_on() -> None:
    """Pods that run may be seen before their queue, and before queues are known to be served."""
    scene = Scene(a_queue("blue"), served=False)
    see(scene.engine, *(a_pod(f"{n}", gpus=1, queue="fairlead/red", node="n1") for n in range(16)))
    assert dict(scene.report("blue").fair_share)[GPUS] == 0
    scene.show(a_queue("red"))
    assert dict(scene.report("red").fair_share)[GPUS] == 16000


# -- statuses --------------------------------------------------------------------------------


def written(scene: Scene) -> dict[str, int]:
    """The statuses that are to be written now: pods that run, by queue."""
    made = scene.engine.tend(now=scene.now)
    changed = [each for each in made if isinstance(each, QueueStatusChanged)]
    return {each.spec.name: each.status.running_pods for each in changed}


def test_while_units_are_to_be_started_statuses_wait_and_are_spread() -> None:
    """Each costs the API server as much as two binds."""
    names = [f"q{number}" for number in range(60)]
    scene = Scene(*map(a_queue, names))
    scene.create("q0", 1)
    seconds = [len(written(scene))]
    for _ in range(35):
        scene.now += 1.0
        seconds.append(len(written(scene)))
    assert sum(seconds[:15]) == 0
    assert max(seconds) <= 5
    assert sum(seconds[:31]) == 60
    scene.bound()
    for name in names:
        scene.create(name, 1)
        scene.bound()
    scene.now += 60.0
    assert len(written(scene)) == 40  # nothing is to be started


def test_a_queue_that_changes_all_the_time_is_written_every_half_a_minute() -> None:
    scene = Scene(a_queue("red"), a_queue("blue"))
    assert written(scene) == {"red": 0, "blue": 0}
    times: list[float] = []
    for number in range(100):
        scene.now += 1.0
        scene.create("red", 1 + number % 2)
        scene.bound()
        scene.create("blue", 1)  # to be started
        if "red" in written(scene):
            times.append(scene.now)
    assert len(times) == 3
    assert all(30.0 <= later - before <= 32.0 for before, later in pairwise(times))


def test_the_status_of_a_queue_is_written_on_change_and_every_half_a_minute_at_most() -> None:
    scene = Scene(a_queue("top"), a_queue("red", parent="top"), a_queue("blue"))
    assert written(scene) == {"top": 0, "red": 0, "blue": 0}

    scene.create("red", 2)
    bound = scene.bound()
    scene.now = 10.0
    assert written(scene) == {}
    assert scene.engine.queues.due_s() == 30.0
    scene.now = 30.0
    assert written(scene) == {"top": 2, "red": 2}
    scene.now = 45.0
    assert written(scene) == {}
    scene.now = 60.0
    assert written(scene) == {"top": 2, "red": 2}, "past use goes on"
    for pod in bound:
        scene.end(pod)
    written(scene)
    scene.now = 600.0
    assert written(scene) == {}, "nothing has changed"


def test_few_statuses_are_written_at_a_time() -> None:
    scene = Scene(*(a_queue(f"q{number}") for number in range(50)))
    counts = []
    for second in range(4):
        scene.now = float(second)
        counts.append(len(written(scene)))
    assert counts == [40, 10, 0, 0]


def test_a_bind_says_which_queue_the_pod_is_counted_for() -> None:
    scene = Scene(a_queue("red"))
    scene.create("red")
    see(scene.engine, a_pod("plain", gpus=1))
    assert {each.queue for each in scene.decide() if isinstance(each, Bind)} == {
        "fairlead/red",
        "",
    }


def test_units_of_a_queue_in_the_order_in_which_they_are_tried() -> None:
    scene = Scene(a_queue("red", 0), a_queue("blue", 0))
    low = a_pod("low", queue="fairlead/red", gpus=1)
    high = a_pod("high", queue="fairlead/red", gpus=1, priority=5)
    see(scene.engine, low, high)
    assert [entry.unit.pod.name for entry in scene.engine.queues.pending("fairlead/red")] == [
        "high",
        "low",
    ]
    refusal = scene.engine.queues.why(low)
    assert (refusal.resource, refusal.limit, refusal.used, refusal.asked) == (GPUS, 0, 0, 1000)


# -- past use and budgets --------------------------------------------------------------------


DAY = 86_400.0


def test_a_budget_holds_pods_back_until_the_next_day() -> None:
    scene = Scene(a_queue("red", budgets=(GpuBudget(Period.DAY, 2.0),)))
    scene.create("red", 2)
    assert len(scene.bound()) == 2
    scene.now = 3600.0 + 1.0
    scene.create("red", 1)
    ((reason, message),) = scene.failures()
    assert reason == "QueueBudget"
    assert message == (
        "queue red has a budget of 2 GPU-hours a day: 2.0 used; "
        "the next day begins at 1970-01-02T00:00Z"
    )
    see(scene.engine, a_pod("cpu", queue="fairlead/red", cpu=1), now=scene.now)
    assert len(scene.bound()) == 1, "a pod without GPUs uses no GPU-hours"
    scene.engine.tend(now=scene.now)
    assert scene.engine.wake_at_s() <= DAY

    scene.now = DAY + 1.0
    scene.engine.tend(now=scene.now)
    assert len(scene.bound()) == 1


def test_past_use_is_counted_exactly_and_goes_on_from_what_was_recorded() -> None:
    recorded = PastUse(at_s=0.0, gpu_seconds=0.0, day_hours=5.0, month_hours=7.0)
    scene = Scene(a_queue("top"), a_queue("red", parent="top", recorded=recorded))
    scene.create("red", 3)
    first = scene.bound()[0]
    scene.now = 3600.0 - 20.0
    scene.end(first)
    scene.now = 2 * 3600.0
    scene.engine.tend(now=scene.now)
    assert scene.report("red").past.day_hours == pytest.approx(5.0 + 3.0 + 2.0)
    assert scene.report("top").past.day_hours == pytest.approx(5.0)


def test_a_new_leader_agrees_to_within_half_a_minute() -> None:
    scene = Scene(a_queue("red"))
    scene.create("red", 4)
    bound = scene.bound()
    told: dict[str, PastUse] = {}
    for second in range(0, 1000, 10):
        scene.now = float(second)
        made = scene.engine.tend(now=scene.now)
        told |= {
            each.spec.key: each.status.past for each in made if isinstance(each, QueueStatusChanged)
        }
    other = Scene()
    other.now = 1000.0
    other.engine.handle(events.NodeSeen(a_node("n1", gpus=16)), now=other.now)
    see(other.engine, *(replace(pod, node="n1") for pod in bound), now=other.now)
    other.show(a_queue("red", recorded=told["fairlead/red"]))
    for each in (scene, other):
        each.now = 2000.0
        each.engine.tend(now=2000.0)
    hours = [each.report("red").past.day_hours for each in (scene, other)]
    assert hours[0] == pytest.approx(4 * 2000 / 3600)
    assert abs(hours[0] - hours[1]) <= 4 * 30 / 3600 + 1e-6


# -- pods that were bound by others, or before there were queues --------------------------------


@pytest.mark.parametrize("first", ["queue", "pod"])
def test_a_pod_of_another_scheduler_counts_only_where_its_namespace_may(first: str) -> None:
    """Its label is checked by nothing: it would use up the limit of another team."""
    red = replace(a_queue("red", 2), namespaces=frozenset({"red"}))
    scene = Scene(a_queue("blue", 1), *((red,) if first == "queue" else ()))
    foreign = a_pod("f", gpus=2, queue=red.key, node="n1", scheduler="default-scheduler")
    own = replace(foreign, name="own", uid="own", namespace="red")
    see(scene.engine, foreign, own)
    scene.engine.handle(events.QueueSeen(red), now=scene.now)
    scene.engine.tend(now=scene.now + 5.0)
    assert scene.used("red") == 2000, "that of its own namespace"
    see(scene.engine, foreign)
    scene.engine.handle(events.QueueSeen(a_queue("green", 1)), now=scene.now + 6.0)
    scene.engine.tend(now=scene.now + 10.0)
    assert scene.used("red") == 2000


@pytest.mark.parametrize("seen", ["gang first", "pods first"])
@pytest.mark.parametrize("charged", ["fairlead/red", ""])
def test_bound_members_of_a_gang_count_for_its_queue_after_a_restart(
    seen: str, charged: str
) -> None:
    """Without a record of the bind, too, whatever their own labels say."""
    scene = Scene(a_queue("red", 8), a_queue("blue", 8))
    key = "x/default/g"
    gang = events.GangSeen(GangSpec(key, 2, queue="fairlead/red"))
    members = [
        a_pod(f"g-{n}", gpus=1, gang=Membership(key), queue="fairlead/blue", node="n1",
              charged_queue=charged)
        for n in range(2)
    ]  # fmt: skip
    if seen == "gang first":
        scene.engine.handle(gang, now=scene.now)
    see(scene.engine, *members)
    scene.engine.handle(gang, now=scene.now)
    scene.engine.tend(now=scene.now + 5.0)
    assert (scene.used("red"), scene.used("blue")) == (2000, 0)
    other = events.GangSeen(GangSpec(key, 2, queue="fairlead/blue"))
    scene.engine.handle(other, now=scene.now + 6.0)
    scene.engine.tend(now=scene.now + 10.0)
    assert (scene.used("red"), scene.used("blue")) == (2000, 0), "an edited object moves no use"
