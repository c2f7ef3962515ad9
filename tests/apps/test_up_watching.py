"""What is gathered from the scheduler at work, and what the view makes of it."""

from builders import a_node, a_pod, a_taint, an_engine, decide, see
from fairlead.apps.up.watching import Watching
from fairlead.engine.events import BindDone, NodeSeen, PodGone, PodSeen, QueueSeen
from fairlead.engine.instructions import Bind
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.gpus import Gpu, GpuUse, Grant, Inventory
from fairlead.model.nodes import GPU
from fairlead.model.queues import QueueSpec
from fairlead.sim.workload import SAMPLE, WorkloadPods


class Scene:
    """An engine, and somebody who watches it."""

    def __init__(self, *nodes):
        self.now = 0.0
        self.engine = an_engine(*nodes)
        self.watching = Watching(lambda: self.now)
        self.watching.follow(self.engine)

    def place(self, *pods):
        for pod in pods:
            see(self.engine, pod, now=self.now)
        for created in decide(self.engine, now=self.now):
            self.watching.note(created)
            if isinstance(created, Bind):
                for told in self.engine.handle(BindDone(created.pod.uid), now=self.now):
                    self.watching.note(told)

    def gpus(self):
        return [f"{row.name} {row.gpus}" for row in self.watching.screen("").nodes]


def work(name, gpus=1, of=None):
    return a_pod(name, gpus=gpus, labels={SAMPLE: of or name})


def test_gpus_fill_and_keep_their_seats():
    scene = Scene(a_node("n1", gpus=4))
    first, second = work("a"), work("b", gpus=2)
    scene.place(first, second)
    assert scene.gpus() == ["n1 ABB."]
    scene.engine.handle(PodGone(first), now=1.0)
    assert scene.gpus() == ["n1 .BB."]
    scene.place(work("c"))
    assert scene.gpus() == ["n1 CBB."]


def test_pods_of_one_piece_of_work_share_a_letter():
    scene = Scene(a_node("n1", gpus=4))
    scene.place(work("s-0", of="s"), work("s-1", of="s"), a_pod("alone", gpus=1))
    assert scene.gpus() == ["n1 AAB."]


def test_letters_run_out_gracefully():
    scene = Scene(a_node("n1", gpus=100))
    scene.place(*(work(f"w{number}") for number in range(70)))
    [row] = scene.watching.screen("").nodes
    assert row.used == 70
    assert len(set(row.gpus)) == 62  # every letter, and a free GPU


def test_a_lost_gpu_is_crossed_out():
    scene = Scene(a_node("n1", gpus=3, labels={"nvidia.com/gpu.count": "4"}))
    scene.place(work("a"))
    assert scene.gpus() == ["n1 A..x"]


def test_nodes_in_trouble_are_named():
    down = a_node("n1", taints=(a_taint("node.kubernetes.io/not-ready", effect="NoExecute"),))
    scene = Scene(down, a_node("n2", unschedulable=True), a_node("n3"))
    assert [row.state for row in scene.watching.screen("").nodes] == ["not ready", "cordoned", ""]


def test_decisions_come_latest_first_and_refusals_once():
    scene = Scene(a_node("n1", gpus=1))
    scene.place(work("fits"), work("big", gpus=4))
    scene.now = 400.0  # waiting pods are tried again after five minutes
    scene.place()
    shown = scene.watching.screen("").decisions
    assert [(each.pod, each.bound) for each in shown] == [("big", False), ("fits", True)]
    assert shown[0].text == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
    assert shown[1].text == "n1"


def test_who_still_waits_is_told_apart():
    scene = Scene(a_node("n1", gpus=1))
    gone, stays = work("gone", gpus=4), work("stays", gpus=4)
    scene.place(gone, stays)
    scene.engine.handle(PodGone(gone), now=1.0)
    screen = scene.watching.screen("")
    assert [each.pod for each in screen.waiting] == ["stays"]
    assert len(screen.decisions) == 2


def test_a_pod_that_is_being_deleted_is_not_said_to_wait():
    scene = Scene(a_node("n1", gpus=1))
    pod = work("vain", gpus=4)
    scene.place(pod)
    for created in see(scene.engine, a_pod("vain", uid=pod.uid, gpus=4, deleting=True), now=1.0):
        scene.watching.note(created)
    screen = scene.watching.screen("")
    assert (len(screen.decisions), screen.waiting) == (1, ())


def test_the_load_generator_sees_what_lives():
    scene = Scene(a_node("n1", gpus=2))
    pod = work("a")
    vain = work("v", gpus=4)
    scene.place(pod, vain, a_pod("other"))
    assert scene.watching.seen() == {"a": WorkloadPods(1, 0), "v": WorkloadPods(0, 1)}
    assert scene.watching.gpus() == 2
    scene.engine.handle(PodGone(pod), now=1.0)
    scene.engine.handle(PodGone(vain), now=1.0)
    assert scene.watching.seen() == {}


def test_totals_add_up():
    scene = Scene(a_node("n1", gpus=4))
    pods = [work(f"p{number}") for number in range(3)]
    scene.place(*pods, work("vain", gpus=8))
    for pod in pods:  # the server shows them bound, then one ends
        scene.engine.handle(PodSeen(a_pod(pod.name, uid=pod.uid, gpus=1, node="n1")), now=1.0)
    scene.engine.handle(PodGone(pods[0]), now=2.0)
    scene.now = 10.0
    totals = scene.watching.totals()
    assert (totals.bound, totals.finished, totals.refused, totals.never_placed) == (3, 1, 1, 1)
    assert (totals.gpus, totals.gpus_used, totals.seconds) == (4, 2, 10.0)
    assert totals.first_s == totals.p50_ms == 0.0


def test_nothing_bound_is_no_division_by_zero():
    scene = Scene()
    totals = scene.watching.totals()
    assert (totals.bound, totals.p50_ms, totals.first_s, totals.gpus) == (0, None, None, 0)


def test_the_rate_forgets_what_was_long_ago():
    scene = Scene(a_node("n1", gpus=8))
    scene.now = 100.0
    scene.place(*(work(f"p{number}") for number in range(5)))
    assert scene.watching.binds_per_s() == 1.0
    scene.now = 110.0
    assert scene.watching.binds_per_s() == 0.0


def test_a_node_that_shrinks_seats_nobody_twice():
    scene = Scene(a_node("n1", gpus=4))
    scene.place(work("a", gpus=4))
    scene.engine.handle(NodeSeen(a_node("n1", gpus=2)), now=1.0)
    assert scene.gpus() == ["n1 AA"]
    assert GPU in dict(scene.engine.cluster.node_at(0).allocatable)


def test_listed_gpus_show_who_is_on_which_and_who_shares():
    gpus = tuple(Gpu(f"GPU-{n}", n, healthy=n != 3) for n in range(4))
    listed = Inventory(gpus, dialects=frozenset({"fairlead"}))
    scene = Scene(a_node("n1", gpus=4, inventory=listed))
    half = GpuUse("GPU-2", whole=False, milli=500)
    whole, shared = Grant((GpuUse("GPU-1"),)), Grant((half,), "fairlead")
    see(scene.engine, a_pod("a", node="n1", grant=whole), a_pod("b", node="n1", grant=shared))
    assert scene.gpus() == ["n1 .ABx"]
    see(scene.engine, a_pod("c", node="n1", grant=shared))
    assert scene.gpus() == ["n1 .A+x"]


def test_a_gang_has_one_letter_and_one_line():
    scene = Scene(a_node("n1", gpus=2), a_node("n2", gpus=2))
    said = GangSpec("fairlead/default/job", 3)
    members = [a_pod(f"job-{n}", gpus=1, gang=Membership(said.key, rank=n, spec=said))
               for n in range(3)]  # fmt: skip
    scene.place(*members, work("plain"))
    assert sorted("".join(scene.gpus()).count(letter) for letter in "AB") == [1, 3]
    shown = scene.watching.screen("").decisions
    assert [(each.pod, each.text) for each in shown if each.pod == "job"] == [
        ("job", "n1 ×2, n2 ×1 (gang of 3)")
    ]


def test_a_gang_that_waits_is_shown_once():
    scene = Scene(a_node("n1", gpus=2))
    said = GangSpec("fairlead/default/job", 3)
    scene.place(*(a_pod(f"job-{n}", gpus=1, gang=Membership(said.key, rank=n, spec=said))
                  for n in range(3)))  # fmt: skip
    screen = scene.watching.screen("")
    assert len(screen.decisions) == len(screen.waiting) == 1
    assert screen.refused == 3
    assert screen.waiting[0].text.startswith("gang default/job: 2 of 3 pods fit")


def test_pods_of_one_queue_share_a_letter_and_each_queue_has_a_bar():
    scene = Scene(a_node("n1", gpus=4))
    for name in ("research", "product"):
        spec = QueueSpec(f"fairlead/{name}", guaranteed=((GPU, 2000),))
        scene.engine.handle(QueueSeen(spec), now=0.0)
    scene.place(
        a_pod("a", gpus=1, queue="fairlead/research"),
        a_pod("b", gpus=1, queue="fairlead/research"),
        a_pod("c", gpus=1, queue="fairlead/product"),
        a_pod("plain", gpus=1),
    )
    assert sorted(scene.gpus()[0].removeprefix("n1 ")) == ["A", "P", "R", "R"]
    bars = {bar.name: bar for bar in scene.watching.screen("").queues}
    assert (bars["research"].mark, bars["research"].used, bars["research"].guaranteed) == (
        "R", 2.0, 2.0,
    )  # fmt: skip
    assert bars["product"].used == 1
