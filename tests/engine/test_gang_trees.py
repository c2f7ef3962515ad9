"""Gangs of which other gangs are parts: one unit, whatever order its objects and pods come in."""

from dataclasses import replace
from itertools import permutations

import pytest

from builders import a_node, a_pod, an_engine
from fairlead.engine.events import GangGone, GangKindSeen, GangSeen, NodeSeen, PodSeen
from fairlead.engine.gang_trees import GangTrees
from fairlead.engine.instructions import GangStatusChanged
from fairlead.model.gangs import (
    DEEPEST,
    MOST_GROUPS,
    Counting,
    GangSpec,
    GangState,
    Membership,
    TopologyRule,
)
from fairlead.model.pods import Pod
from gang_world import GangWorld, a_gang

LATER_S = 10.0


def composite(name: str, least: int, part_of: str = "", **more: object) -> GangSpec:
    parent = f"composite/default/{part_of}" if part_of else ""
    key = f"composite/default/{name}"
    return GangSpec(key, 1, least_groups=least, part_of=parent, counting=Counting.ALIVE, **more)


def leaf(name: str, minimum: int, part_of: str) -> GangSpec:
    parent = f"composite/default/{part_of}"
    return GangSpec(f"native/default/{name}", minimum, part_of=parent, counting=Counting.ALIVE)


def members(group: str, count: int, gpus: int = 1) -> list[Pod]:
    gang = Membership(f"native/default/{group}")
    return [a_pod(f"{group}-{n}", uid=f"{group}-{n}", gpus=gpus, gang=gang) for n in range(count)]


class TreeWorld(GangWorld):
    def __init__(self, gpus: int, *specs: GangSpec) -> None:
        super().__init__(an_engine(a_node("n", gpus=gpus)))
        self.states: dict[str, GangState] = {}
        for spec in specs:
            self.tell(GangSeen(spec))

    def _carry_out(self, made) -> None:
        super()._carry_out(made)
        for each in made:
            if isinstance(each, GangStatusChanged):
                self.states[each.spec.key.rpartition("/")[2]] = each.status.state

    def settle(self) -> dict[str, int]:
        """How many pods of each group have nodes when nothing more happens."""
        for _ in range(4):
            self.decide_all()
            self.answer_all()
            self.now += LATER_S
        bound = [pod.name.rpartition("-")[0] for pod in self.pods.values() if pod.node]
        return {group: bound.count(group) for group in sorted(set(bound))}

    def message(self, uid: str) -> str:
        return self.failures[uid].message


def test_parts_are_placed_together() -> None:
    world = TreeWorld(8, composite("root", 2), leaf("a", 2, "root"), leaf("b", 3, "root"))
    world.create(*members("a", 2))
    assert world.settle() == {}
    assert world.message("a-0") == (
        "gang default/root waits for its pods: 5 are needed without scheduling gates."
    )
    world.create(*members("b", 3))
    assert world.settle() == {"a": 2, "b": 3}
    assert world.states == {"root": "scheduled", "a": "scheduled", "b": "scheduled"}


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_order_in_which_objects_and_pods_come_does_not_matter(order: tuple[int, ...]) -> None:
    objects = [composite("root", 2), leaf("a", 1, "root"), leaf("b", 1, "root")]
    steps = [*map(GangSeen, objects), *map(PodSeen, (members("a", 1) + members("b", 1))[:1])]
    world = TreeWorld(8)
    for number in order:
        event = steps[number]
        if isinstance(event, PodSeen):
            world.create(event.pod)
        else:
            world.tell(event)
        world.decide_all()
        assert not world.binds
    world.create(*members("b", 1))
    assert world.settle() == {"a": 1, "b": 1}


def test_the_minimum_of_the_whole_is_that_of_the_groups_it_needs() -> None:
    world = TreeWorld(8, composite("root", 2), *(leaf(f"g{n}", n, "root") for n in (1, 3, 4)))
    pod, *_ = members("g3", 1)
    world.create(pod)
    found = world.engine.gang_outlook(pod)
    assert found is not None
    assert (found.spec.name, found.spec.minimum) == ("default/root", 4)


def test_a_group_that_does_not_fit_does_not_hold_back_the_others() -> None:
    specs = composite("root", 2), *(leaf(name, 2, "root") for name in "abc")
    world = TreeWorld(8, *specs)
    world.create(*members("a", 2), *members("b", 1), *members("c", 2))
    world.create(a_pod("b-large", uid="b-large", gpus=9, gang=members("b", 1)[0].gang))
    assert world.settle() == {"a": 2, "c": 2}
    assert world.states["b"] == "unschedulable"
    assert world.states["a"] == world.states["c"] == "scheduled"


def test_nothing_is_placed_below_a_group_that_is_not_satisfied() -> None:
    world = TreeWorld(
        20, composite("root", 1), composite("x", 2, "root"), composite("y", 1, "root"),
        leaf("x1", 1, "x"), leaf("x2", 1, "x"), leaf("y1", 1, "y"),
    )  # fmt: skip
    world.create(*members("x1", 1), *members("x2", 1, gpus=99), *members("y1", 1))
    assert world.settle() == {"y1": 1}


def test_groups_that_come_later_are_placed_beside_the_others() -> None:
    world = TreeWorld(20, composite("root", 1), leaf("a", 1, "root"))
    world.create(*members("a", 2))
    assert world.settle() == {"a": 2}
    world.tell(GangSeen(composite("sub", 2, "root")))
    world.tell(GangSeen(leaf("s1", 1, "sub")))
    world.create(*members("s1", 2))
    assert world.settle() == {"a": 2}
    assert world.states["s1"] == "unschedulable"
    assert world.message("s1-0") == (
        "gang default/root: 2 of 2 pods fit beside 2 that are bound; group s1, or one that it is "
        "part of, lacks pods."
    )
    world.tell(GangSeen(leaf("s2", 1, "sub")))
    world.create(*members("s2", 2))
    assert world.settle() == {"a": 2, "s1": 2, "s2": 2}
    assert world.states["s1"] == "scheduled"


def test_pods_wait_for_what_their_object_is_part_of() -> None:
    world = TreeWorld(8, leaf("a", 1, "root"))
    world.create(*members("a", 1))
    assert world.settle() == {}
    assert world.message("a-0") == (
        "waiting for the object of gang default/root, of which gang default/a is a part, which "
        "does not exist"
    )
    world.tell(GangKindSeen("composite", "CompositePodGroups are off"))
    assert world.settle() == {}
    assert world.message("a-0") == "CompositePodGroups are off"
    world.tell(GangSeen(composite("root", 1)))
    assert world.settle() == {"a": 1}


def test_a_root_that_goes_takes_its_pods_that_wait_and_gives_them_back() -> None:
    world = TreeWorld(1, composite("root", 1), leaf("a", 1, "root"))
    world.create(*members("a", 2))
    assert world.settle() == {"a": 1}
    world.tell(GangGone("composite/default/root"))
    world.settle()
    assert "does not exist" in world.message("a-1")
    assert world.engine.queue.gang("composite/default/root") is None
    world.tell(GangSeen(composite("root", 1)))
    world.end("a-0")
    assert world.settle() == {"a": 1}


def test_circles_are_named() -> None:
    world = TreeWorld(8, composite("x", 1, "y"), composite("y", 1, "x"), leaf("a", 1, "x"))
    world.create(*members("a", 1))
    assert world.settle() == {}
    assert world.message("a-0") == (
        "the gang default/a is invalid: default/x is part of itself; break that circle"
    )
    world.tell(GangSeen(composite("y", 1)))
    assert world.settle() == {"a": 1}


def test_trees_that_are_too_deep_are_named() -> None:
    names = [f"c{n}" for n in range(DEEPEST + 1)]
    parents = zip(names, ["", *names], strict=False)
    world = TreeWorld(8, *(composite(name, 1, parent) for name, parent in parents))
    world.tell(GangSeen(leaf("a", 1, names[-1])))
    world.create(*members("a", 1))
    assert world.settle() == {}
    assert world.message("a-0") == "the gang default/a is invalid: it is nested more than 8 deep"


def test_trees_with_too_many_groups_are_named() -> None:
    leaves = [leaf(f"g{n}", 1, "root") for n in range(MOST_GROUPS + 1)]
    world = TreeWorld(8, composite("root", 1), *leaves)
    world.create(*members("g0", 1))
    assert world.settle() == {}
    assert world.message("g0-0") == (
        "the gang is invalid: with default/root it has more than 1024 groups; write fewer"
    )


def test_a_composite_and_a_group_of_the_same_name_are_two() -> None:
    world = TreeWorld(8, composite("a", 1), leaf("a", 2, "a"))
    world.create(*members("a", 2))
    assert world.settle() == {"a": 2}


# -- where they go -----------------------------------------------------------------------------


def racks(*places: str, gpus: int = 2) -> TreeWorld:
    """Nodes named by zone and rack, such as `z1/r1/a`."""
    world = TreeWorld(0)
    for place in places:
        zone, rack, _ = place.split("/")
        labels = {"zone": zone, "rack": rack}
        world.tell(NodeSeen(a_node(place.replace("/", "-"), gpus=gpus, labels=labels)))
    return world


def under(spec: GangSpec, level: str) -> GangSpec:
    return replace(spec, topology=(TopologyRule(level),))


def test_the_level_of_a_group_is_below_that_of_the_group_around_it() -> None:
    world = racks("z1/r1/a", "z1/r2/b", "z2/r1/c")
    world.tell(GangSeen(under(composite("root", 2), "zone")))
    for name in ("g", "h"):
        world.tell(GangSeen(under(leaf(name, 2, "root"), "rack")))
    world.create(*members("g", 2), *members("h", 2))
    assert world.settle() == {"g": 2, "h": 2}
    assert {pod.node.split("-")[0] for pod in world.pods.values()} == {"z1"}


def test_a_group_that_no_domain_holds_does_not_hold_back_the_others() -> None:
    world = racks("z1/r1/a", "z1/r2/b")
    world.tell(GangSeen(composite("root", 1)))
    for name in ("g", "h"):
        world.tell(GangSeen(under(leaf(name, 3, "root"), "rack")))
    world.tell(GangSeen(under(leaf("i", 2, "root"), "rack")))
    world.create(*members("g", 3), *members("i", 2))
    assert world.settle() == {"i": 2}
    assert world.states["g"] == "unschedulable"


def test_groups_that_are_not_needed_are_left_out_where_all_do_not_fit() -> None:
    world = racks("z1/r1/a", "z1/r2/b")
    world.tell(GangSeen(under(composite("root", 1), "zone")))
    for name in ("g", "h", "i"):
        world.tell(GangSeen(under(leaf(name, 2, "root"), "rack")))
    world.create(*members("g", 2), *members("h", 2), *members("i", 2))
    assert sum(world.settle().values()) == 4


def test_a_pod_that_fits_nowhere_does_not_hold_back_a_basic_group() -> None:
    world = racks("z1/r1/a", "z1/r2/b")
    world.tell(GangSeen(under(GangSpec("native/default/g", 1), "rack")))
    world.create(
        *members("g", 1, gpus=3), a_pod("g-x", uid="g-x", gpus=1, gang=members("g", 1)[0].gang)
    )
    assert world.settle() == {"g": 1}


def test_room_is_made_where_pods_that_differ_need_the_same_rows() -> None:
    world = racks("z1/r1/a", "z1/r2/b", "z2/r1/c", gpus=2)
    low = replace(a_pod("low-0", uid="low", gpus=2, priority=0), node="z1-r1-a")
    world.create(low)
    world.tell(GangSeen(replace(under(composite("root", 2), "zone"), priority=5)))
    world.tell(GangSeen(under(leaf("g", 2, "root"), "rack")))
    world.tell(GangSeen(leaf("h", 2, "root")))
    world.create(*(replace(pod, priority=5) for pod in members("g", 2) + members("h", 2)))
    world.decide_all()
    assert [victim.name for evict in world.evictions for victim in evict.victims] == ["low-0"]


@pytest.mark.parametrize("never", ["root", "inner", "leaf", None])
def test_a_policy_of_never_counts_for_the_whole_tree(never: str | None) -> None:
    trees = GangTrees()
    trees.put(composite("root", 1, preempts=never != "root"))
    trees.put(composite("inner", 1, "root", preempts=never != "inner"))
    trees.put(replace(leaf("a", 2, "inner"), preempts=never != "leaf"))
    whole = trees.spec_of("composite/default/root")
    assert whole is not None
    assert whole.preempts is (never is None)


# -- eviction --------------------------------------------------------------------------------------


def evicted_for(gpus: int, *specs: GangSpec, groups: tuple[str, ...]) -> set[str]:
    """Groups of which pods are evicted for a gang that needs two GPUs; all are full before."""
    world = TreeWorld(gpus, *specs)
    for group in groups:
        world.create(*members(group, 2))
    assert world.settle() == dict.fromkeys(groups, 2)
    world.create(*a_gang("high", 2, priority=10))
    world.decide_all()
    victims = [pod.name for each in world.evictions for pod in each.victims]
    assert len(victims) == 2 * len({name[0] for name in victims})
    return {name[0] for name in victims}


def test_a_group_that_is_not_needed_is_evicted_without_the_others() -> None:
    specs = (composite("root", 1), leaf("a", 2, "root"), leaf("b", 2, "root"))
    assert evicted_for(4, *specs, groups=("a", "b")) == {"b"}


def test_groups_that_are_all_needed_are_evicted_together() -> None:
    specs = (composite("root", 2), leaf("a", 2, "root"), leaf("b", 2, "root"))
    assert evicted_for(4, *specs, groups=("a", "b")) == {"a", "b"}


def test_a_root_that_is_disrupted_whole_is_evicted_whole() -> None:
    specs = (composite("root", 1, evicted_whole=True), leaf("a", 2, "root"), leaf("b", 2, "root"))
    assert evicted_for(4, *specs, groups=("a", "b")) == {"a", "b"}


@pytest.mark.parametrize("whole", [True, False])
def test_an_inner_group_that_is_disrupted_whole_goes_with_all_of_its_groups(whole: bool) -> None:
    specs = (
        composite("root", 1),
        leaf("a", 2, "root"),
        composite("inner", 1, "root", evicted_whole=whole),
        leaf("b", 2, "inner"),
        leaf("c", 2, "inner"),
    )
    expected = [{"b", "c"}] if whole else [{"b"}, {"c"}]
    assert evicted_for(6, *specs, groups=("a", "b", "c")) in expected
