"""Counted resources: licences and watts that pods wait for."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.counted_measures import expose_counted_of
from fairlead.cluster import counted_books, counted_layers
from fairlead.cluster.counted_book import CountedBook
from fairlead.engine import counted, counted_statuses
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    CountedGone,
    CountedSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from fairlead.engine.instructions import Bind, CountedStatusChanged, Instruction
from fairlead.engine.reasons import (
    COUNTED_RESOURCE_NOT_ALLOWED,
    COUNTED_RESOURCE_NOT_FOUND,
    WAITING_FOR_COUNTED_RESOURCE,
)
from fairlead.model.backfill import BackfillTerms
from fairlead.model.counted import (
    CountedAsk,
    CountedLayer,
    CountedMode,
    CountedResource,
    CountedStatus,
    OutsideTerms,
    OutsideUse,
    read_charges,
    written_charges,
)
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.queue.retry_times import RetryTimes
from fairlead.telemetry.metrics import Metrics
from fairlead.testing.builders import a_gpu_node
from timed_world import TimedWorld, a_job
from turn_costs import counting_lines

SOLVER = CountedResource("solver", total=2)
RACKS = CountedResource(
    "racks", layers=(CountedLayer("rack", 1, label="rack"),), mode=CountedMode.ALL
)
RACK_OF_9 = (CountedLayer("rack", 9, label="rack"),)


class CountedWorld(TimedWorld):
    """Two racks of two nodes with four GPUs each."""

    def __init__(self, *specs: CountedResource, nodes: Sequence[Node] = ()) -> None:
        self.statuses: dict[str, CountedStatus] = {}
        self.written: dict[str, str] = {}
        made = [
            a_node(f"{rack}{at}", gpus=4, labels={"rack": rack}) for rack in "ab" for at in "12"
        ]
        super().__init__(*(nodes or made), terms=BackfillTerms())
        for spec in specs:
            self.count(spec)

    def _carry_out(self, made: Sequence[Instruction]) -> None:
        for each in made:
            if isinstance(each, CountedStatusChanged):
                self.statuses[each.name] = each.status
            if isinstance(each, Bind):
                self.written[each.pod.name] = each.counted
        super()._carry_out(made)

    def count(self, spec: CountedResource) -> None:
        self.tell(CountedSeen(spec))
        self.work()

    def work(self) -> None:
        """Until all pods are charged as well."""
        super().work()
        while (books := self.engine.cluster.counted) and books.partial:
            super().work()

    def used(self, name: str = "solver") -> int:
        assert self.engine.cluster.counted
        return self.engine.cluster.counted.books[name].used

    def racks(self, *names: str) -> str:
        return "".join(self.pods[name].node[:1] for name in names)

    def restarted(self, *specs: CountedResource) -> None:
        profiles = {SCHEDULER: built_in(SCHEDULER)}
        nodes = [self.engine.cluster.node_at(row) for row in self.engine.cluster.row_of.values()]
        engine = Engine(profiles, retries=RetryTimes(0.0, 0.0, float("inf")))
        self.engine = engine
        for node in nodes:
            self.tell(NodeSeen(node))
        for spec in specs:
            self.tell(CountedSeen(spec))
        self.restart(engine)
        self.work()


def asking(
    name: str, *asked: tuple[str, int], run_s: float | None = None, pods: int = 1, **more: object
) -> list[Pod]:
    return [replace(pod, counted=CountedAsk(asked)) for pod in a_job(name, pods, run_s, **more)]


def test_a_pod_waits_until_one_is_given_back() -> None:
    world = CountedWorld(SOLVER)
    world.submit(*asking("one", ("solver", 1), run_s=50))
    world.submit(*asking("two", ("solver", 1)))
    world.submit(*asking("three", ("solver", 1)))
    world.submit(*a_job("plain", 1, None))
    assert not world.runs("three")
    assert all(map(world.runs, ("one", "two", "plain")))
    failure = world.failures["three"]
    assert failure.reason == WAITING_FOR_COUNTED_RESOURCE
    assert failure.message == (
        "counted resource solver: 1 requested, 0 of 2 free; pods of namespace default hold 2, "
        "those of others 0"
    )
    world.run_until(51)
    assert world.runs("three")
    assert world.written["three"] == "solver=1"
    world.run_until(60)
    assert world.statuses["solver"] == CountedStatus(2, 0, 0, (("default", 2),))


def test_a_gang_has_all_or_none() -> None:
    world = CountedWorld(replace(SOLVER, total=3))
    world.submit(*asking("one", ("solver", 1), run_s=50))
    world.submit(*asking("gang", ("solver", 1), pods=3))
    assert not world.runs("gang-0")
    assert world.failures["gang-0"].reason == WAITING_FOR_COUNTED_RESOURCE
    world.submit(*asking("other", ("solver", 2), run_s=30))
    assert world.runs("other")
    world.run_until(51)
    assert all(world.runs(f"gang-{number}") for number in range(3))
    assert world.used() == 3


def test_a_restart_counts_what_binds_said_whatever_pods_say_now() -> None:
    world = CountedWorld(SOLVER)
    world.submit(*asking("one", ("solver", 2)))
    assert world.pods["one"].counted == CountedAsk(charged=(("solver", 2, ""),))
    world.restarted(SOLVER)
    assert world.used() == 2
    world.submit(*asking("two", ("solver", 1)))
    assert not world.runs("two")
    world.end("one")
    world.work()
    assert world.runs("two")
    assert world.used() == 1


def test_objects_may_come_later_and_go() -> None:
    world = CountedWorld()
    world.submit(*asking("one", ("solver", 1)))
    assert world.failures["one"].reason == COUNTED_RESOURCE_NOT_FOUND
    assert world.failures["one"].message == (
        "the counted resource solver does not exist; correct the annotation "
        "fairlead.dev/counted-resources, or ask an administrator to create it"
    )
    world.count(SOLVER)
    assert world.runs("one")
    world.tell(CountedGone("solver"))
    world.submit(*asking("two", ("solver", 1)))
    assert not world.runs("two")
    world.count(SOLVER)
    assert world.runs("two")
    assert world.used() == 2


def test_an_object_beyond_the_limit_takes_the_place_of_one_that_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counted, "MOST_RESOURCES", 1)
    world = CountedWorld(SOLVER)
    world.count(replace(SOLVER, name="late"))
    world.count(replace(SOLVER, name="one too many"))
    world.submit(*asking("one", ("late", 1)))
    assert world.failures["one"].message == (
        "the counted resource late has no effect, since there are 1 others; ask an "
        "administrator to delete one"
    )
    world.tell(CountedGone("one too many"))
    world.work()
    assert not world.runs("one")
    world.tell(CountedGone("solver"))
    world.work()
    assert world.runs("one")


def test_a_lower_count_ends_no_pod() -> None:
    world = CountedWorld(SOLVER)
    world.submit(*asking("one", ("solver", 2), run_s=50))
    world.count(replace(SOLVER, total=1))
    world.submit(*asking("two", ("solver", 1)))
    world.run_until(10)
    assert world.statuses["solver"].message == "1 more are used than there are"
    assert "0 of 1 free" in world.failures["two"].message
    world.run_until(51)
    assert world.runs("two")
    world.count(replace(SOLVER, total=3))
    world.submit(*asking("three", ("solver", 2)))
    assert world.runs("three")


def test_other_numbers_of_layers_leave_charges_as_they_are() -> None:
    world = CountedWorld(RACKS)
    for name in ("one", "two", "three"):
        world.submit(*asking(name, ("racks", 1)))
    assert not world.runs("three")
    world.count(replace(RACKS, layers=(CountedLayer("rack", 2, label="rack", base=0),)))
    assert world.runs("three")
    assert world.used("racks") == 3
    world.end("one", "two", "three")
    world.count(replace(RACKS, layers=(CountedLayer("rack", 0, label="rack"),)))
    assert world.used("racks") == 0


def test_only_its_namespaces_may_ask_for_it_and_others_are_one_number() -> None:
    world = CountedWorld(replace(SOLVER, namespaces=frozenset({"default", "team"})))
    other = [replace(pod, namespace="team") for pod in asking("one", ("solver", 2))]
    world.submit(*other)
    world.submit(*asking("two", ("solver", 1)))
    assert "hold 0, those of others 2" in world.failures["two"].message
    assert "team" not in world.failures["two"].message
    world.submit(*(replace(pod, namespace="x") for pod in asking("three", ("solver", 1))))
    assert world.failures["three"].reason == COUNTED_RESOURCE_NOT_ALLOWED


def test_each_layer_of_the_node_has_to_have_enough() -> None:
    world = CountedWorld(RACKS)
    for name in ("one", "two", "three"):
        world.submit(*asking(name, ("racks", 1), run_s=50))
    assert sorted(world.racks("one", "two")) == ["a", "b"]
    assert world.failures["three"].reason == WAITING_FOR_COUNTED_RESOURCE
    assert world.failures["three"].message == (
        "counted resource racks: 1 requested, and no node that fits has a layer with so many left; "
        "most are left on: rack/a 0, rack/b 0; "
        "pods of namespace default hold 2, those of others 0"
    )
    world.run_until(51)
    assert world.runs("three")


def test_a_gang_spreads_over_layers_that_have_enough() -> None:
    counts = (("a", 3),)
    world = CountedWorld(replace(RACKS, layers=(CountedLayer("rack", 1, (), "rack", counts),)))
    world.submit(*asking("gang", ("racks", 1), pods=4))
    assert sorted(world.racks(*(f"gang-{number}" for number in range(4)))) == ["a", "a", "a", "b"]
    world.submit(*asking("more", ("racks", 1), pods=2))
    assert not world.runs("more")
    assert world.failures["more-0"].reason == WAITING_FOR_COUNTED_RESOURCE


def test_any_one_layer_is_enough_and_a_running_pod_keeps_it() -> None:
    east = CountedLayer("east", 1, (("rack", "a"),))
    both = CountedLayer("both", 1, (("room", "1"),))
    sites = CountedResource("sites", mode=CountedMode.ANY, layers=(east, both))
    labels = {"rack": "a", "room": "1"}
    world = CountedWorld(sites, nodes=[a_node("n1", gpus=4, labels=labels), a_node("n2", gpus=4)])
    for name in ("one", "two", "three"):
        world.submit(*asking(name, ("sites", 1)))
    assert {world.written[name] for name in ("one", "two")} == {"sites=1@east", "sites=1@both"}
    assert {world.pods[name].node for name in ("one", "two")} == {"n1"}
    assert not world.runs("three")
    swapped = replace(sites, layers=(both, east))
    world.restarted(swapped)
    world.end(next(name for name in ("one", "two") if world.written[name].endswith("east")))
    world.work()
    assert world.written["three"] == "sites=1@east"


def test_a_tree_sums_up_and_has_loads_that_are_no_pods() -> None:
    hall = CountedLayer("hall", 2000, base=100)
    rack = CountedLayer("rack", 1500, label="rack", parent="hall")
    power = CountedResource("power", mode=CountedMode.TREE, layers=(hall, rack), unit="W")
    world = CountedWorld(power)
    for name in ("one", "two", "three"):
        world.submit(*asking(name, ("power", 700)))
    assert world.racks("one", "two") in ("aa", "ab", "ba", "bb")
    assert not world.runs("three")
    assert "700 W requested" in world.failures["three"].message
    assert "hall 500" in world.failures["three"].message


def test_gpus_are_charged_by_their_model_without_an_annotation() -> None:
    rack = CountedLayer("rack", 1400, label="rack")
    power = CountedResource("power", layers=(rack,), per_gpu=(("H100", 700), ("*", 300)))
    nodes = [
        a_gpu_node("a1", gpus=4, model="H100", labels={"rack": "a"}),
        a_gpu_node("b1", gpus=8, model="A100", labels={"rack": "b"}),
    ]
    world = CountedWorld(power, nodes=nodes)
    for number in range(7):
        world.submit(*a_job(f"p{number}", 1, None))
    racks = world.racks(*(f"p{number}" for number in range(6)))
    assert sorted(racks) == list("aabbbb")
    assert world.failures["p6"].reason == WAITING_FOR_COUNTED_RESOURCE
    assert world.used("power") == 2 * 700 + 4 * 300


def test_charges_of_gpus_follow_the_object() -> None:
    power = CountedResource("power", total=5000, per_gpu=(("H100", 700),))
    world = CountedWorld(power, nodes=two_models())
    for number in range(6):
        world.submit(*a_job(f"p{number}", 1, None))
    racks = CountedLayer("rack", 5000, label="rack")
    uses = []
    for spec in (
        replace(power, layers=(racks,)),
        replace(power, per_gpu=(("H100", 500), ("*", 100))),
        replace(power, per_gpu=()),
        replace(power, per_gpu=(("*", 10),), layers=(racks,)),
    ):
        world.count(spec)
        uses.append(world.used("power"))
    assert uses == [4 * 700, 4 * 500 + 2 * 100, 0, 60]
    assert world.engine.cluster.counted
    assert world.engine.cluster.counted.books["power"].by_layer == {"rack/a": 40, "rack/b": 20}


def test_an_object_that_became_invalid_still_limits_gpus() -> None:
    power = CountedResource("power", total=700, per_gpu=(("*", 700),))
    world = CountedWorld(power, nodes=two_models())
    world.submit(*a_job("one", 1, None))
    world.count(CountedResource("power", problem="it makes no sense"))
    world.submit(*a_job("two", 1, None))
    assert not world.runs("two")
    world.run_until(10)
    assert world.statuses["power"].message == "it makes no sense"
    world.submit(*asking("asks", ("power", 1)))
    assert world.failures["asks"].reason == COUNTED_RESOURCE_NOT_FOUND
    world.count(replace(power, total=3000))
    assert world.runs("two")
    assert world.runs("asks")


def two_models() -> list[Node]:
    return [
        a_gpu_node("a1", gpus=4, model="H100", labels={"rack": "a"}),
        a_gpu_node("b1", gpus=2, model="A100", labels={"rack": "b"}),
    ]


def test_gpus_of_models_that_are_not_listed_are_free() -> None:
    power = CountedResource("power", total=700, per_gpu=(("H100", 700),))
    world = CountedWorld(power, nodes=two_models())
    for number in range(4):
        world.submit(*a_job(f"p{number}", 1, None))
    assert sorted(world.racks("p0", "p1", "p2")) == list("abb")
    assert world.failures["p3"].reason == WAITING_FOR_COUNTED_RESOURCE
    assert "700 requested, 0 of 700 free" in world.failures["p3"].message
    world.count(replace(power, total=0))
    world.end(next(name for name in ("p0", "p1", "p2") if world.racks(name) == "b"))
    world.work()
    assert world.racks("p3") == "b"


def test_models_that_cost_nothing_leave_the_others_to_wait() -> None:
    power = CountedResource("power", total=400, per_gpu=(("T4", 0), ("*", 400)))
    world = CountedWorld(power, nodes=two_models())
    world.submit(*a_job("one", 1, None))
    world.submit(*a_job("two", 1, None))
    world.submit(*a_job("gang", 2, None))
    reasons = {world.failures[name].reason for name in ("two", "gang-0")}
    assert reasons == {WAITING_FOR_COUNTED_RESOURCE}
    assert "400 requested, 0 of 400 free" in world.failures["two"].message


def test_thousands_of_layers_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_gpu_node(f"n{at}", gpus=8, labels={"rack": f"r{at}"}) for at in range(20)]
    rack = CountedLayer("rack", 100, label="rack")
    world = CountedWorld(CountedResource("power", layers=(rack,), per_gpu=(("*", 1),)), nodes=nodes)
    world.submit(*a_job("first", 1, None))
    looked: list[str] = []
    real = CountedBook.left_on

    def left_on(book: CountedBook, layer: str) -> int:
        looked.append(layer)
        return real(book, layer)

    monkeypatch.setattr(CountedBook, "left_on", left_on)
    world.submit(*(pod for at in range(10) for pod in a_job(f"p{at}", 1, None)))
    assert all(world.runs(f"p{at}") for at in range(10))
    assert len(looked) <= 10 * 4


ROOM = [a_node("n1", gpus=8, labels={"room": "1"})]
SITES = CountedResource(
    "sites",
    mode=CountedMode.ANY,
    layers=tuple(CountedLayer(name, 1, (("room", "1"),)) for name in ("east", "west")),
)


def test_a_layer_with_another_name_has_the_pods_of_its_nodes() -> None:
    world = CountedWorld(SITES, nodes=ROOM)
    for name in ("one", "two"):
        world.submit(*asking(name, ("sites", 1)))
    renamed = tuple(replace(layer, name=f"new-{layer.name}") for layer in SITES.layers)
    world.count(replace(SITES, layers=renamed))
    world.submit(*asking("three", ("sites", 1)))
    assert not world.runs("three")
    world.restarted(replace(SITES, layers=renamed))
    assert not world.runs("three")


def test_an_object_that_was_invalid_for_a_while_leaves_pods_on_their_layers() -> None:
    world = CountedWorld(SITES, nodes=ROOM)
    for name in ("one", "two"):
        world.submit(*asking(name, ("sites", 1)))
    world.end(next(name for name in ("one", "two") if world.written[name].endswith("east")))
    world.work()
    world.count(CountedResource("sites", problem="it makes no sense"))
    world.count(SITES)
    assert world.engine.cluster.counted
    assert world.engine.cluster.counted.books["sites"].by_layer == {"west": 1}


def test_charges_of_a_bound_pod_stay_whatever_is_written_later() -> None:
    world = CountedWorld(SOLVER, RACKS)
    world.submit(*asking("one", ("solver", 2), ("racks", 1)))
    pod = world.pods["one"]
    world.tell(PodSeen(replace(pod, counted=None)))
    world.tell(NodeSeen(a_node(pod.node, gpus=4, labels={"rack": "c"})))
    world.count(replace(SOLVER, layers=(CountedLayer("rack", 2, label="rack"),)))
    assert (world.used("solver"), world.used("racks")) == (2, 1)
    world.end("one")
    assert (world.used("solver"), world.used("racks")) == (0, 0)


def test_values_of_labels_that_no_node_has_any_more_take_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counted_layers, "MOST_VALUES", 3)
    world = CountedWorld(RACKS)
    for rack in "cdefg":
        world.tell(NodeSeen(a_node("new", gpus=4, labels={"rack": rack})))
        world.tell(NodeGone("new"))
    world.tell(NodeSeen(a_node("new", gpus=8, labels={"rack": "h"})))
    assert world.engine.cluster.counted
    book = world.engine.cluster.counted.books["racks"]
    assert sorted(book.layers.known()) == ["rack/a", "rack/b", "rack/h"]
    for name in ("one", "two", "three", "four"):
        world.submit(*asking(name, ("racks", 1), run_s=10.0))
    assert not world.runs("four")
    world.run_until(11)
    world.run_until(22)
    assert not book.by_layer


def test_no_node_at_all_is_unschedulable_and_not_a_wait_for_a_layer() -> None:
    world = CountedWorld(RACKS)
    world.submit(*asking("large", ("racks", 1), gpus=8))
    assert world.failures["large"].reason == "Unschedulable"
    assert world.failures["large"].message.startswith("0/4 nodes are available")
    for name in ("one", "two"):
        world.submit(*asking(name, ("racks", 1)))
    world.submit(*asking("larger", ("racks", 1), gpus=9))
    assert world.failures["larger"].reason == "Unschedulable"
    assert world.failures["larger"].message.startswith("0/4 nodes are available")


def test_use_outside_the_cluster_counts_until_it_is_too_old() -> None:
    terms = OutsideTerms(max_age_s=100, fallback=1)
    world = CountedWorld(replace(SOLVER, outside=terms, measured=OutsideUse(2, 0.0)))
    world.submit(*asking("one", ("solver", 1)))
    assert "2 are used outside the cluster" in world.failures["one"].message
    world.run_until(99)
    assert not world.runs("one")
    world.run_until(101)
    assert world.runs("one")
    assert world.statuses["solver"].outside == 1
    assert world.statuses["solver"].message == (
        "use outside the cluster is not known; 1 are assumed"
    )


def test_only_statuses_of_what_changed_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    real = counted_statuses.status_of

    def status_of(book: CountedBook) -> CountedStatus:
        computed.append(book.spec.name)
        return real(book)

    monkeypatch.setattr(counted_statuses, "status_of", status_of)
    world = CountedWorld(SOLVER, RACKS)
    world.run_until(10)
    computed.clear()
    world.submit(*asking("one", ("solver", 1)))
    world.run_until(20)
    assert computed == ["solver"]
    assert world.statuses["solver"].used == 1


def test_statuses_of_many_layers_are_computed_over_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = CountedWorld(*(replace(RACKS, name=f"racks-{at}") for at in range(4)))
    world.run_until(10)
    world.tell(NodeSeen(a_node("c1", labels={"rack": "c"})))  # each has another layer then
    monkeypatch.setattr(counted_statuses, "_LAYERS_OF_TURN", 2)
    turns = [[each.name for each in world.engine.tend(now=20.0 + at)] for at in range(5)]
    assert turns == [["racks-0"], ["racks-1"], ["racks-2"], ["racks-3"], []]


def test_a_number_from_the_future_is_not_known() -> None:
    terms = OutsideTerms(max_age_s=100)
    world = CountedWorld(replace(SOLVER, outside=terms, measured=OutsideUse(2, 1e9)))
    world.submit(*asking("one", ("solver", 2)))
    assert world.runs("one")


def test_a_number_of_a_licence_server_has_our_pods_in_it() -> None:
    terms = OutsideTerms(max_age_s=1000, includes_pods=True)
    spec = replace(SOLVER, total=4, outside=terms)
    world = CountedWorld(replace(spec, measured=OutsideUse(1, 0.0)))
    world.submit(*asking("one", ("solver", 2)))
    world.count(replace(spec, measured=OutsideUse(3, 0.0)))
    world.submit(*asking("two", ("solver", 2)))
    assert not world.runs("two")
    assert "1 of 4 free" in world.failures["two"].message
    world.count(replace(spec, measured=OutsideUse(2, 0.0)))
    assert world.runs("two")


def test_a_node_with_another_label_counts_for_another_rack() -> None:
    world = CountedWorld(replace(RACKS, layers=(CountedLayer("rack", 2, label="rack"),)))
    world.submit(*asking("one", ("racks", 1)))
    node = world.pods["one"].node
    assert world.engine.cluster.counted
    book = world.engine.cluster.counted.books["racks"]
    world.tell(NodeSeen(a_node(node, gpus=4, labels={"rack": "c"})))
    assert book.by_layer["rack/c"] == 1
    assert book.by_layer[f"rack/{node[0]}"] == 0
    assert book.left_on("rack/c") == 1


def test_no_pod_gets_any_until_all_that_run_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_books, "_SLICE", 1)
    world = CountedWorld()
    for number in range(14):
        world.submit(*a_job(f"p{number}", 1, None))
    world.tell(CountedSeen(CountedResource("power", 15, per_gpu=(("*", 1),))))
    assert 0 < world.used("power") < 14
    world.create(*a_job("q0", 1, None), *a_job("q1", 1, None))
    world.engine.decide(now=world.now)
    assert world.used("power") < 14
    assert not any(map(world.runs, ("q0", "q1")))
    world.work()
    assert world.used("power") == 15
    assert sorted(map(world.runs, ("q0", "q1"))) == [False, True]
    assert "are not all counted yet" in world.failures["q1"].message
    waits = world.engine.counted.why(world.pods["q1"])
    assert waits
    assert "0 of 15 free" in waits.message


def test_pods_and_nodes_that_change_while_pods_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_books, "_SLICE", 1)
    power = CountedResource("power", 99, per_gpu=(("*", 1),))
    racks = replace(power, layers=(CountedLayer("rack", 50, label="rack"),))
    world = CountedWorld()
    for number in range(14):
        world.submit(*a_job(f"p{number}", 1, None))
    world.tell(CountedSeen(power))
    world.tell(CountedSeen(racks))
    world.end("p0", "p1", "p12", "p13")
    world.tell(CountedSeen(replace(racks, total=98)))
    for name in ("a1", "b2"):
        world.tell(NodeSeen(a_node(name, gpus=4, labels={"rack": "c"})))
    assert world.engine.wake_at_s() == 0.0
    world.work()
    books = world.engine.cluster.counted
    assert books
    book, nodes = books.books["power"], [pod.node for pod in world.pods.values() if pod.node]
    moved = Counter({"a1": "c", "b2": "c"}.get(node, node[0]) for node in nodes)
    assert (book.used, book.spec.total, books.partial) == (10, 98, {})
    assert book.by_layer == {f"rack/{rack}": count for rack, count in moved.items()}
    world.tell(CountedSeen(power))
    world.tell(CountedGone("power"))
    assert not books.partial
    world.submit(*a_job("later", 1, None))
    assert world.runs("later")


def test_a_node_that_many_resources_cover_is_counted_over_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watts = [replace(RACKS, name=f"w{at}", per_gpu=(("*", 1),)) for at in range(3)]
    world = CountedWorld(*(replace(each, layers=RACK_OF_9) for each in watts))
    world.submit(*a_job("one", 1, None))
    node = world.pods["one"].node
    assert world.engine.cluster.counted
    books = world.engine.cluster.counted
    monkeypatch.setattr(counted_books, "_SLICE", 1)
    world.tell(NodeSeen(a_node(node, gpus=4, labels={"rack": "c"})))
    assert list(books.partial) == ["w1", "w2"]
    world.create(*a_job("two", 1, None))
    world.engine.decide(now=world.now)
    assert not world.runs("two")
    world.work()
    assert world.runs("two")
    on = Counter({node: "c"}.get(world.pods[name].node, "ab") for name in ("one", "two"))
    assert all(
        book.by_layer["rack/c"] == on["c"] and book.used == 2 for book in books.books.values()
    )


def test_the_row_of_a_node_that_went_before_it_was_counted_is_free_for_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = CountedWorld(*(replace(RACKS, name=name) for name in ("racks", "solver")))
    monkeypatch.setattr(counted_books, "_SLICE", 1)
    world.tell(NodeSeen(a_node("b1", gpus=4, labels={"rack": "c"})))
    world.tell(NodeGone("b1"))
    world.tell(NodeSeen(a_node("d1", gpus=4, labels={"rack": "d"})))
    world.work()
    assert world.engine.cluster.counted
    for book in world.engine.cluster.counted.books.values():
        assert sorted(book.layers.known()) == ["rack/a", "rack/b", "rack/d"]
        assert_rows_are_those_of_a_new_book(world, book)


def lines_after_a_change(nodes: int) -> int:
    """Of a node on a deep tree with a leaf for each node, and of the decision after it."""
    above = [CountedLayer(f"l{at}", 99, parent=f"l{at - 1}" if at else "") for at in range(20)]
    leaf = CountedLayer("leaf", 9, label="leaf", parent="l19")
    made = [a_node(f"n{at}", labels={"leaf": f"f{at}"}) for at in range(nodes)]
    tree = CountedResource("tree", mode=CountedMode.TREE, layers=(*above, leaf))
    world = CountedWorld(tree, nodes=made)
    world.submit(*asking("one", ("tree", 1), gpus=0))
    world.create(*asking("two", ("tree", 1), gpus=0))
    with counting_lines() as counted_lines:
        world.tell(NodeSeen(a_node("n1", labels={"leaf": "other"})))
        world.engine.decide(now=world.now)
    assert world.used("tree") == 2
    return counted_lines.lines


def test_a_change_of_one_node_costs_the_same_in_a_cluster_of_any_size() -> None:
    assert lines_after_a_change(nodes=200) < lines_after_a_change(nodes=20) + 1000


def test_layers_that_come_and_go_unread_are_not_kept() -> None:
    world = CountedWorld(RACKS)
    for number in range(200):
        world.tell(NodeSeen(a_node("new", gpus=4, labels={"rack": f"r{number}"})))
    assert world.engine.cluster.counted
    book = world.engine.cluster.counted.books["racks"]
    assert len(book.rows_with.changed) < 20
    assert book.layers.rows.size < 10


def test_all_resources_together_have_a_limit_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "MOST_LAYERS", 2)
    world = CountedWorld(RACKS, replace(RACKS, name="two"), replace(RACKS, name="three"))
    world.submit(*asking("fits", ("two", 1)), *asking("late", ("three", 1)))
    assert world.runs("fits")
    assert "more than 2 layers" in world.failures["late"].message
    world.tell(CountedGone("racks"))
    world.count(replace(RACKS, name="three"))
    assert world.runs("late")
    world.count(replace(RACKS, name="three", layers=(*RACKS.layers, *RACK_OF_9)))
    world.submit(*asking("later", ("three", 1)))
    assert "more than 2 layers" in world.failures["later"].message


def test_gpus_are_charged_for_a_limited_number_of_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counted, "MOST_OF_GPUS", 2)
    watts = [CountedResource(f"w{at}", 8, per_gpu=(("*", 1),)) for at in range(3)]
    world = CountedWorld(*watts, SOLVER)
    world.submit(*a_job("one", 1, None))
    world.run_until(10)
    assert [world.used(each.name) for each in watts] == [1, 1, 0]
    assert world.statuses["w2"].message == "more than 2 CountedResources have spec.perGpu"
    world.count(replace(watts[0], total=9))
    assert world.used("w0") == 1


@pytest.mark.parametrize("slice_", [1, 60_000])
@pytest.mark.parametrize("mode", list(CountedMode))
def test_the_books_are_right_after_any_of_it(
    mode: CountedMode, slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random pods come, go and restart; what is used is what bound pods were charged with."""
    monkeypatch.setattr(counted_books, "_SLICE", slice_)
    rng = random.Random(mode)
    layer = CountedLayer("rack", 4, (("room", "x"),) if mode is CountedMode.ANY else (), "rack")
    layers = (replace(layer, selector=()), CountedLayer("all", 6, (("rack", "a"),)))
    spec = CountedResource("solver", 7, mode=mode, layers=layers)
    world = CountedWorld(spec)
    for step in range(60):
        draw = rng.random()
        if draw < 0.6:
            size = rng.choice((1, 1, 2, 3))
            world.submit(*asking(f"j{step}", ("solver", rng.randint(1, 2)), pods=size))
        elif draw < 0.9 and world.pods:
            world.end(world.pods[rng.choice(list(world.pods))].name)
            world.work()
        elif draw < 0.95:
            node = rng.choice(("a1", "a2", "b1"))
            if not any(pod.node == node for pod in world.pods.values()):
                labels = {"rack": rng.choice("abc")}
                world.tell(NodeSeen(a_node(node, gpus=4, labels=labels)))
        elif draw < 0.97:
            world.restarted(spec)
        else:
            world.count(replace(spec, layers=spec.layers[:1]))
            world.count(spec)
        held = [pod.counted for pod in world.pods.values() if pod.node]
        assert world.used() == sum(n for ask in held if ask for _, n, _ in ask.charged) <= 7
        assert world.engine.cluster.counted
        book = world.engine.cluster.counted.books["solver"]
        assert all(book.left_on(name) >= 0 for name in book.layers.known())
        assert_rows_are_those_of_a_new_book(world, book)


@pytest.mark.parametrize("seed", range(4))
def test_binds_that_fail_and_pods_that_go_meanwhile_give_back_what_they_had(seed: int) -> None:
    rng = random.Random(seed)
    world = CountedWorld(replace(SOLVER, total=9), replace(RACKS, total=4))
    for step in range(40):
        asked = rng.choice(((("solver", 2),), (("racks", 1), ("solver", 1))))
        world.create(*asking(f"j{step}", *asked, pods=rng.choice((1, 2, 3))))
        world.now += 20.0
        world.decide_all()
        for uid in list(world.binds):
            if rng.random() < 0.2 and uid in world.pods:
                world.end(world.pods[uid].name)
            if uid in world.binds:
                world.answer(uid, well=rng.random() < 0.6)
        if rng.random() < 0.4 and world.pods:
            world.end(world.pods[rng.choice(list(world.pods))].name)
        world.decide_all()
        held = [pod.counted for pod in world.pods.values() if pod.node]
        bound = sum(n for ask in held if ask for name, n, _ in ask.charged if name == "solver")
        written = [read_charges(world.binds[uid].counted) for uid in world.binds]
        on_their_way = sum(n for each in written for name, n, _ in each if name == "solver")
        assert bound <= world.used() <= 9
        assert bound + on_their_way == world.used()
    world.end(*(pod.name for pod in world.pods.values()))
    for uid in list(world.binds):
        world.answer(uid)
    assert (world.used("solver"), world.used("racks")) == (0, 0)


def assert_rows_are_those_of_a_new_book(world: CountedWorld, book: CountedBook) -> None:
    cluster, new = world.engine.cluster, CountedBook(book.spec)
    for row in cluster.row_of.values():
        new.put_node(row, cluster.node_at(row).labels)
    for uid, charge in book.charges.items():
        new.add(uid, charge)
    for amount in range(1, 8):
        found, expected = book.rows(cluster, amount), new.rows(cluster, amount)
        assert (found is None) == (expected is None)
        assert found is None or expected is None or found.tolist() == expected.tolist()


@pytest.mark.parametrize("text", ["solver=2", "a=1,b=20@east", "a=1@rack"])
def test_charges_are_read_as_they_are_written(text: str) -> None:
    read = {name: (amount, layer) for name, amount, layer in read_charges(text)}
    assert written_charges(read) == text


def test_its_metrics_are_those_of_the_books() -> None:
    world, metrics = CountedWorld(), Metrics()
    expose_counted_of(world.engine, metrics)
    labels, value_of = {"resource": "solver"}, metrics.registry.get_sample_value
    assert value_of("fairlead_counted_resource_used", labels) is None
    terms = OutsideTerms(max_age_s=10, fallback=1)
    world.count(replace(SOLVER, total=4, outside=terms))
    world.submit(*asking("one", ("solver", 2)))
    for name, value in (("total", 4), ("used", 2), ("outside", 1), ("outside_unknown", 1)):
        assert value_of(f"fairlead_counted_resource_{name}", labels) == value


def test_a_holder_that_comes_again_under_its_name_is_another_one() -> None:
    """Its controller may create it before the end of the first one is seen."""
    world = CountedWorld(SOLVER)
    world.submit(*asking("one", ("solver", 2)))
    first = world.pods["one"]
    (second,) = asking("one", ("solver", 2))
    world.submit(replace(second, uid="another"))
    assert not world.runs("another"), "the first one still has them"
    world.tell(PodGone(world.pods.pop(first.uid)))
    world.work()
    assert world.runs("another")
    assert world.used() == 2


def test_a_pod_that_has_finished_gives_back_while_its_object_is_still_there() -> None:
    world = CountedWorld(SOLVER)
    world.submit(*asking("one", ("solver", 2)))
    world.submit(*asking("two", ("solver", 2)))
    assert not world.runs("two")
    world.tell(PodSeen(replace(world.pods["one"], finished=True)))
    world.work()
    assert world.runs("two")
    assert world.used() == 2


def test_two_clusters_with_one_pool_see_the_use_of_the_other() -> None:
    """Each is told what the other uses, after every start."""
    spec = replace(SOLVER, total=3, outside=OutsideTerms(max_age_s=1000))
    here, there = CountedWorld(spec), CountedWorld(spec)
    for number in range(3):
        for world, other in ((here, there), (there, here)):
            world.count(replace(spec, measured=OutsideUse(other.used(), 0.0)))
            world.submit(*asking(f"p{number}", ("solver", 1)))
    assert (here.used(), there.used()) == (2, 1)
    assert "1 are used outside the cluster" in here.failures["p2"].message
