"""Single GPUs that people keep free for a time, on nodes that others may use besides."""

from dataclasses import replace
from itertools import count
from random import Random

import pytest
from test_advance_reservations import a_liar, demo

from builders import a_node
from fairlead.engine.advance_rooms import AdvanceRooms
from fairlead.engine.events import AdvanceGone, AdvanceSeen, NodeGone, NodeSeen, PodSeen
from fairlead.engine.held_gpus import HeldKind
from fairlead.engine.instructions import AdvanceStatusChanged, Instruction
from fairlead.engine.reasons import WAITING_FOR_RESERVATION
from fairlead.model.advance import AdvancePhase, AdvanceReservation, AdvanceStatus
from fairlead.model.backfill import BackfillTerms
from fairlead.model.gpus import FAIRLEAD, GpuRequest
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.testing.builders import a_gpu_node
from timed_world import EXACT, TimedWorld, a_job

TWO = AdvanceReservation(
    "demo", start_s=100, end_s=200, gpus=2, gpus_per_node=2, namespaces=frozenset({"demo"})
)


class GpuWorld(TimedWorld):
    """One node with four GPUs, unless others are given."""

    def __init__(self, *nodes: Node, terms: BackfillTerms | None = None) -> None:
        self.statuses: dict[str, AdvanceStatus] = {}
        super().__init__(*(nodes or (a_node("n", gpus=4),)), terms=terms or BackfillTerms())

    def _carry_out(self, made: "list[Instruction]") -> None:  # type: ignore[override]
        super()._carry_out(made)
        for each in made:
            if isinstance(each, AdvanceStatusChanged):
                self.statuses[each.name] = each.status

    def reserve(self, reservation: AdvanceReservation = TWO) -> None:
        self.tell(AdvanceSeen(reservation))
        self.work()

    def chosen(self, name: str = "demo") -> dict[str, int]:
        return dict(self.engine.plans.advance.gpus_of(name))


def share(name: str, run_s: float | None = None) -> list[Pod]:
    """Half of a GPU."""
    half = GpuRequest(1, milli=500, whole=False, dialect=FAIRLEAD)
    return a_job(name, 1, run_s, gpus=0, gpu_request=half)


def test_others_use_the_rest_of_the_node_and_no_more() -> None:
    world = GpuWorld()
    world.reserve()
    assert world.statuses["demo"] == AdvanceStatus(
        AdvancePhase.PENDING, ("n",), 2, gpus_on=(("n", 2),)
    )
    for name in ("one", "two", "three"):
        world.submit(*a_job(name, 1, None))
    assert world.runs("one")
    assert world.runs("two")
    failure = world.failures["three"]
    assert failure.reason == WAITING_FOR_RESERVATION
    assert failure.message == (
        "it could still run when the GPUs that fit it are reserved, at 1970-01-01T00:01:40Z"
    )
    world.submit(*a_job("short", 1, 100))
    assert world.runs("short"), "it ends before the start"
    world.submit(*a_job("no-gpus", 1, None, gpus=0))
    assert world.runs("no-gpus"), "only GPUs are reserved"
    world.run_until(199)
    assert not world.runs("three")
    world.run_until(201)
    assert world.start_of("three") == 200


def test_its_users_have_their_gpus_and_no_more_are_kept() -> None:
    world = GpuWorld()
    world.reserve()
    world.run_until(150)
    world.submit(*demo("mine", None))
    assert world.runs("mine")
    for name in ("one", "two", "three"):
        world.submit(*a_job(name, 1, None))
    assert [world.runs(name) for name in ("one", "two", "three")] == [True, True, False]
    world.submit(*demo("also-mine", None))
    assert world.runs("also-mine")


def test_gpus_of_pods_that_end_before_count_as_free() -> None:
    world = GpuWorld()
    for name in ("a", "b"):
        world.submit(*a_job(name, 1, 50))
    world.reserve()
    for name in ("one", "two", "three"):
        world.submit(*a_job(name, 1, None))
    assert [world.runs(name) for name in ("one", "two", "three")] == [True, True, False]
    world.run_until(60)
    assert not world.runs("three"), "two are free now, and both are reserved"


def test_a_gang_leaves_the_gpus_that_are_reserved() -> None:
    world = GpuWorld(a_node("m", gpus=4), a_node("n", gpus=4))
    world.reserve(replace(TWO, gpus=4))
    world.submit(*a_job("gang", 5, None))
    assert world.failures["gang-0"].reason == WAITING_FOR_RESERVATION
    world.submit(*a_job("four", 4, None))
    placed = [world.pods[f"four-{at}"].node for at in range(4)]
    assert all(placed)
    kept = world.chosen()
    assert all(placed.count(node) + kept.get(node, 0) <= 4 for node in set(placed))


def test_a_share_takes_a_gpu_from_the_reservation_only_once() -> None:
    world = GpuWorld(a_gpu_node("n", gpus=2))
    world.reserve(replace(TWO, gpus=1, gpus_per_node=1))
    for name in ("one", "two", "three"):
        world.submit(*share(name))
    placed = [world.pods[name].grant for name in ("one", "two", "three") if world.runs(name)]
    used = {use.uuid for grant in placed if grant for use in grant.uses}
    assert len(used) == 1


def test_gpus_are_chosen_on_nodes_with_the_least_to_spare_and_of_the_model() -> None:
    world = GpuWorld(
        a_gpu_node("t", gpus=8, model="T4"),
        a_gpu_node("h0", gpus=4, model="H100"),
        a_gpu_node("h1", gpus=4, model="H100"),
    )
    world.tell(PodSeen(replace(a_job("service", 1, None)[0], node="h1")))
    world.reserve(replace(TWO, gpus=2, gpus_per_node=1, model="H100"))
    assert world.chosen() == {"h1": 2}
    world.tell(NodeGone("h1"))
    world.run_until(20)
    assert world.chosen() == {"h0": 2}


def test_what_was_chosen_stays_after_a_restart() -> None:
    world = GpuWorld(*(a_node(f"n{at}", gpus=4) for at in range(3)))
    world.reserve(replace(TWO, gpus=4, chosen_gpus=(("n1", 2), ("n2", 2), ("gone", 2))))
    assert world.chosen() == {"n1": 2, "n2": 2}


def test_two_reservations_of_one_time_have_different_gpus_and_of_two_times_the_same() -> None:
    world = GpuWorld()
    world.reserve()
    world.reserve(replace(TWO, name="beside"))
    world.reserve(replace(TWO, name="third"))
    assert world.statuses["third"].message == "no node matches it"
    world.reserve(replace(TWO, name="later", start_s=300, end_s=400))
    assert world.chosen("later") == {"n": 2}
    for name in ("beside", "third"):
        world.tell(AdvanceGone(name))
    world.work()
    world.submit(*a_job("one", 1, None), *a_job("two", 1, None))
    assert world.runs("one"), "two of four are enough for each of them"
    assert world.runs("two")


def test_what_is_in_the_way_is_counted_and_stays() -> None:
    world = GpuWorld()
    for name in ("a", "b", "c"):
        world.submit(*a_job(name, 1, None))
    world.reserve()
    status = world.statuses["demo"]
    assert status.conflicts == 1
    assert status.message == "1 pod(s) of others may still run when it begins on GPUs that it needs"
    world.run_until(150)
    assert not world.evictions


def test_as_few_pods_as_are_enough_are_evicted_if_it_says_so() -> None:
    world = GpuWorld()
    for name, priority in (("a", 5), ("b", 0), ("c", 5)):
        world.submit(*a_job(name, 1, None, priority=priority))
    world.reserve(replace(TWO, preempts=True))
    world.run_until(100)
    victims = [victim.name for evict in world.evictions for victim in evict.victims]
    assert victims == ["b"]


def test_of_those_that_overrun_as_few_as_are_needed_lose_their_gpus() -> None:
    world = GpuWorld()
    world.reserve()
    for name in ("one", "two", "three"):
        world.submit(*a_liar(name, bound_s=90.0), runs_s=9000)
    assert all(map(world.runs, ("one", "two", "three")))
    world.run_until(125)
    assert len({victim.name for evict in world.evictions for victim in evict.victims}) == 1


@pytest.mark.parametrize(("gpus", "start_s"), [(2, 50), (3, 200)])
def test_planned_starts_leave_the_gpus_too(gpus: int, start_s: float) -> None:
    world = GpuWorld(terms=EXACT)
    world.submit(*a_job("r", 1, 50, gpus=4))
    world.reserve()
    world.submit(*a_job("head", 1, 1000, gpus=gpus))
    assert world.planned_s("head", 1) == start_s
    world.run_until(210)
    assert world.start_of("head") == start_s


def test_what_is_kept_free_is_counted() -> None:
    world = GpuWorld()
    world.reserve(replace(TWO, start_s=0))
    world.engine.held_gpus.tend(10.0)
    (held,) = world.engine.held_gpus
    assert (held.kind, held.gpus) == (HeldKind.RESERVATION, 2.0)


def test_a_dead_gpu_is_none_that_is_reserved() -> None:
    world = GpuWorld(a_gpu_node("n", gpus=4))
    world.reserve(replace(TWO, gpus=4, gpus_per_node=1))
    assert world.chosen() == {"n": 4}
    node = a_gpu_node("n", gpus=4)
    assert node.inventory is not None
    first, *others = node.inventory.gpus
    dead = replace(node.inventory, gpus=(replace(first, healthy=False), *others))
    world.tell(NodeSeen(replace(node, inventory=dead)))
    world.run_until(20)
    assert world.chosen() == {"n": 3}
    assert world.statuses["demo"].message == "its nodes have 3 of 4 GPUs"


def test_rooms_are_computed_again_only_where_pods_came(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node(f"n{at}", gpus=4) for at in range(50)]
    world = GpuWorld(*nodes)
    world.reserve(replace(TWO, gpus=100))
    world.submit(*a_job("first", 1, None))
    looks, room, names = count(), AdvanceRooms.room, (f"p{at}" for at in count())

    def counted(self: AdvanceRooms, *args: object, **more: object) -> int:
        next(looks)
        return room(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(AdvanceRooms, "room", counted)
    for _ in range(20):
        world.submit(*a_job(next(names), 1, None))
    assert next(looks) < 20 * 4


def test_pods_that_are_seen_bound_count_at_once() -> None:
    world = GpuWorld()
    world.reserve()
    pods = [replace(a_job(f"r{at}", 1, None)[0], node="n") for at in range(2)]
    for pod in pods:
        world.tell(PodSeen(pod))
    world.submit(*a_job("late", 1, None))
    assert not world.runs("late")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("mode", [BackfillTerms(), EXACT])
def test_no_unit_takes_a_reserved_gpu_if_run_times_are_true(
    mode: BackfillTerms, listed: bool, seed: int
) -> None:
    """Pods, gangs and shares, of users and of others, with and without run times."""
    rng = Random(seed)
    a_machine = a_gpu_node if listed else a_node
    world = GpuWorld(*(a_machine(f"n{at}", gpus=4) for at in range(3)), terms=mode)
    world.reserve(replace(TWO, gpus=6, gpus_per_node=rng.choice((1, 2))))
    kept, looks = world.chosen(), 0
    assert sum(kept.values()) == 6
    for at in range(16):
        world.submit(*drawn_unit(rng, f"u{at}", listed=listed))
        world.run_until(world.now + rng.choice((7, 15)))
        if 100 <= world.now < 200:
            looks += 1
            assert all(others_on(world, node) <= 4 - gpus for node, gpus in kept.items())
    assert looks


def drawn_unit(rng: Random, name: str, *, listed: bool) -> list[Pod]:
    run_s = rng.choice((None, 20, 90, 500))
    namespace = "demo" if rng.random() < 0.2 else "default"
    if listed and rng.random() < 0.2:
        pods = share(name, run_s)
    else:
        gpus = rng.choice((1, 2))
        named = {"gpus": 0, "gpu_request": GpuRequest(gpus, dialect=FAIRLEAD)}
        pods = a_job(name, rng.choice((1, 1, 2, 3)), run_s, **(named if listed else {"gpus": gpus}))
    return [replace(pod, namespace=namespace) for pod in pods]


def others_on(world: GpuWorld, node: str) -> int:
    """GPUs of the node that pods of others have."""
    found = set[str]()
    unnamed = 0
    for held in world.engine.cluster.held_on(node):
        if held.pod.namespace != "demo":
            uses = [use for _, grant in held.grants() for use in grant.uses]
            found |= {use.uuid for use in uses if use.uuid}
            named = sum(bool(use.uuid) for use in uses)
            unnamed += max(0, dict(held.amounts).get(GPU, 0) - named)
    return len(found) + unnamed
