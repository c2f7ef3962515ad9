"""GPUs of a pod that is gone: kept until the agent says that its processes have ended."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node, a_pod, an_engine, decide, decide_once, see
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.releases import OVERDUE_S, Releases
from fairlead.cluster.checking import misplaced, wrong_nodes
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, NodeGone, NodeSeen, PodGone, PodSeen
from fairlead.engine.instructions import AnnounceWarning, Bind, Evict, Instruction
from fairlead.engine.releases import OVERDUE
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.holders import claim_holder
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.telemetry.metrics import Metrics

WHOLE = GpuRequest(1, False, 1000, memory_milli=1000, dialect="fairlead")
STARTED = "2026-01-01T00:00:00Z"


def node(*released: str, confirms: bool = True) -> Node:
    listed = Inventory(
        (Gpu("GPU-a", 0, memory_mib=1000),),
        dialects=frozenset({"fairlead"}),
        confirms=confirms,
        released=frozenset(released),
    )
    return a_node("n", gpus=0, inventory=listed)


def there(**more: object) -> Pod:
    grant = Grant((GpuUse("GPU-a", False, 1000, 1000),), "fairlead")
    said = {"node": "n", "grant": grant, "gpu_request": WHOLE, "started": STARTED, **more}
    return a_pod("old", uid="old", **said)


class World:
    """An engine with one GPU, which a pod has, and another pod that waits for it."""

    def __init__(self, old: Pod, **of_node: bool) -> None:
        self.engine = Engine({SCHEDULER: built_in(SCHEDULER)})
        self.now = 100.0
        self.old = old
        self.tell(NodeSeen(node(**of_node)))
        self.tell(PodSeen(old))
        self.tell(PodSeen(a_pod("new", uid="new", gpu_request=WHOLE, priority=10)))

    def tell(self, event: Event) -> list[Instruction]:
        self.now += 1.0
        made = self.engine.handle(event, now=self.now)
        assert wrong_nodes(self.engine.cluster, ["n"]) == []
        return made

    def decide(self) -> Sequence[Instruction]:
        self.now += 1.0
        made = decide_once(self.engine, now=self.now)
        assert wrong_nodes(self.engine.cluster, ["n"]) == []
        return made

    def bound(self) -> bool:
        """Whether the pod that waits gets the GPU now; it may have to back off first."""
        self.now += 60.0
        return any(isinstance(one, Bind) for one in self.decide())


def test_a_gpu_is_kept_until_the_agent_says_that_the_processes_have_ended() -> None:
    world = World(there())
    assert world.tell(PodGone(world.old)) == []
    assert not world.bound()

    world.tell(NodeSeen(node("somebody else")))
    assert not world.bound()

    world.tell(NodeSeen(node("old")))
    assert world.bound()
    assert not world.engine.cluster.releasing


@pytest.mark.parametrize(
    ("last", "of_node"),
    [
        pytest.param(there(finished=True), {}, id="its kubelet said that it has ended"),
        pytest.param(there(started=""), {}, id="no kubelet had started it"),
        pytest.param(there(), {"confirms": False}, id="the node has no agent that says so"),
    ],
)
def test_nothing_is_kept_where_nothing_runs_or_nobody_would_say(
    last: Pod, of_node: dict[str, bool]
) -> None:
    world = World(there(), **of_node)
    assert world.tell(PodGone(last)) == []
    assert world.bound()


def test_a_pod_that_ends_frees_its_gpu_at_once() -> None:
    world = World(there())
    assert world.tell(PodSeen(replace(world.old, finished=True))) == []
    assert world.bound()
    assert world.tell(PodGone(world.old)) == []


def test_a_pod_that_is_seen_again_has_its_gpu_once() -> None:
    world = World(there())
    world.tell(PodGone(world.old))
    world.tell(PodSeen(world.old))
    assert not world.engine.cluster.releasing
    assert not world.bound()
    world.tell(PodSeen(replace(world.old, finished=True)))
    assert world.bound()


def test_a_node_that_goes_and_comes_back_still_keeps_it() -> None:
    world = World(there())
    world.tell(PodGone(world.old))
    world.tell(NodeGone("n"))
    world.tell(NodeSeen(node()))
    assert not world.bound()
    world.tell(NodeSeen(node("old")))
    assert world.bound()


def test_nobody_is_evicted_for_a_gpu_that_is_kept() -> None:
    world = World(there())
    world.tell(PodGone(world.old))
    world.now += 60.0
    assert not any(isinstance(one, Evict) for one in world.decide())


def test_the_check_of_the_ledger_finds_nothing_wrong() -> None:
    world = World(there())
    world.tell(PodGone(world.old))
    assert list(misplaced(world.engine.cluster, {})) == []


def test_a_gpu_is_not_kept_for_ever() -> None:
    world = World(there())
    said: list[Instruction] = []
    metrics = Metrics()
    releases = Releases(world.engine, lambda event: said.extend(world.tell(event)), metrics)
    world.tell(PodGone(world.old))
    since = world.now
    assert metrics.registry.get_sample_value("fairlead_pods_held_back") == 1

    releases.look(since + OVERDUE_S - 1)
    assert said == []
    releases.look(since + OVERDUE_S)
    (warning,) = said
    assert isinstance(warning, AnnounceWarning)
    assert warning.reason == OVERDUE
    assert "GPU-a can be assigned to other pods from now on. Check the agent" in warning.message
    assert metrics.registry.get_sample_value("fairlead_pods_held_back") == 0
    assert world.bound()


def test_what_was_confirmed_is_not_overdue() -> None:
    world = World(there())
    releases = Releases(world.engine, lambda event: pytest.fail(str(event)), Metrics())
    world.tell(PodGone(world.old))
    world.tell(NodeSeen(node("old")))
    releases.look(world.now + 2 * OVERDUE_S)


def test_what_pods_under_way_hold_together_outlives_a_rebuild() -> None:
    inventory = Inventory((Gpu("GPU-0", 0), Gpu("GPU-1", 1)))
    listed = a_node("n1", gpus=2, inventory=inventory)
    engine = an_engine(listed)
    see(engine, a_pod("a", uid="a", cpu=1), a_pod("b", uid="b", cpu=1))
    assert len([made for made in decide(engine) if isinstance(made, Bind)]) == 2
    for uid in ("a", "b"):
        engine.cluster.share(uid, claim_holder("c"), Grant((GpuUse("GPU-1"),)))
    engine.forget()
    engine.handle(NodeSeen(listed), now=1.0)
    assert engine.cluster.columns.devices.users[0, :2].tolist() == [0, 1]
    assert wrong_nodes(engine.cluster, ["n1"]) == []
