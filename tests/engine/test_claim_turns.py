"""What looks at devices cost: once for all nodes that see the same, and divided over turns."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, decide_once, see
from claim_objects import DRIVER, GPU_CLASS, a_claim, a_claiming_pod, a_slice
from fairlead.claims import turn_limit
from fairlead.cluster import claim_blocks, claiming
from fairlead.cluster.device_taints import MOST_TAINTS
from fairlead.cluster.device_work import counted_work
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Instruction
from fairlead.model.claims import (
    ALL_DEVICES,
    ClaimObject,
    DeviceConstraint,
    DeviceNeed,
    DeviceRequest,
)
from fairlead.model.devices import (
    DeviceNodes,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ResourceSlice,
)
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import Requirement

_DEVICES = 512
_NODES = tuple(f"n{number}" for number in range(400))


def for_all_nodes(count: int = _DEVICES) -> ResourceSlice:
    part = a_slice("n1", *(f"gpu-{number}" for number in range(count)), pool="all")
    return replace(part, nodes=DeviceNodes(all_nodes=True))


def engine_with(*objects: ClaimObject, nodes: tuple[str, ...] = _NODES, gpus: int = 0) -> Engine:
    engine = an_engine(*(a_node(name, gpus=gpus) for name in nodes))
    for each in (GPU_CLASS, *objects):
        engine.handle(events.ClaimObjectSeen(each), now=0.0)
    return engine


def decide_slowly(engine: Engine) -> tuple[int, list[Instruction]]:
    """How many turns it took, and what was decided."""
    turns = 1
    while not (made := decide_once(engine)):
        turns += 1
        assert turns < 200
    return turns, [*made]


def kinds(name: str, count: int, mode: str = "ExactCount") -> DeviceRequest:
    """A request with alternatives that tolerate different taints."""
    needs = (
        DeviceNeed(
            GPU_CLASS.name,
            name=f"s{number}",
            mode=mode,
            tolerations=(DeviceToleration(key=f"{name}-{number}", operator="Exists"),),
        )
        for number in range(count)
    )
    return DeviceRequest(name, first_available=tuple(needs))


def test_devices_for_all_nodes_are_looked_at_once() -> None:
    engine = engine_with(for_all_nodes(), a_claim())
    see(engine, a_claiming_pod("p", "c"))

    decide_slowly(engine)

    inventory = engine.cluster.claims.inventory
    assert inventory.gathered < 2 * _DEVICES + 16 * len(_NODES)
    assert inventory.answers.asked < 2 * _DEVICES


@pytest.mark.parametrize("mode", ["ExactCount", ALL_DEVICES])
def test_a_look_at_one_node_is_divided(mode: str) -> None:
    """Requests that all ask for something else, of more devices than a turn has time for."""
    requests = tuple(kinds(f"r{at}", 8, mode) for at in range(32))
    engine = engine_with(for_all_nodes(4096), a_claim(requests=requests), nodes=("n1", "n2"))
    see(engine, a_claiming_pod("p", "c"))

    turns, _ = decide_slowly(engine)

    assert turns > 5
    assert turns < 90, "it is not given up"


def test_a_look_ends_when_all_slices_and_their_class_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The nodes are looked at once for the class, and not again for their slices."""
    monkeypatch.setattr(turn_limit, "_STEPS", 600)
    slices = [a_slice(node, *(f"gpu-{number}" for number in range(8))) for node in _NODES]
    apart = a_claim(count=2, constraints=(DeviceConstraint(distinct_attribute=f"{DRIVER}/type"),))
    engine = engine_with(*slices, apart)
    pod = a_claiming_pod("p", "c")
    see(engine, pod)
    first, _ = decide_slowly(engine)
    engine.handle(events.PodGone(pod), now=0.0)
    for each in slices:
        engine.handle(events.ClaimObjectSeen(replace(each, generation=2)), now=0.0)
    changed = replace(GPU_CLASS, selectors=(f"'{DRIVER}' == device.driver",))
    engine.handle(events.ClaimObjectSeen(changed), now=0.0)

    see(engine, a_claiming_pod("q", "c"))
    again, made = decide_slowly(engine)

    assert 4 < again <= first + 1
    assert isinstance(made[0], AnnounceFailure)


def test_devices_that_serve_a_node_are_those_that_say_so() -> None:
    names = [f"gpu-{number}" for number in range(_DEVICES)]
    part = a_slice("n1", *names, pool="all")
    devices = tuple(
        replace(device, form=replace(device.form, nodes=DeviceNodes(f"n{at % 4}")))
        for at, device in enumerate(part.devices)
    )
    part = replace(part, nodes=DeviceNodes(), per_device=True, devices=devices)
    engine = engine_with(part, nodes=("n1", "n2", "n5"))
    state = engine.cluster.claims

    found = {
        node.name: state.allocate(node, [a_claim()])
        for node in map(engine.cluster.node_at, range(3))
    }

    chosen = {name: given[0].devices[0].device for name, given in found.items() if given}
    assert chosen == {"n1": "gpu-1", "n2": "gpu-2"}


def test_nodes_with_gpus_in_use_otherwise_are_looked_at_once_by_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: Counter[str] = Counter()
    whole = claim_blocks.ClaimBlocks.on

    def counting(blocks: claim_blocks.ClaimBlocks, node: str) -> object:
        asked[node] += 1
        return whole(blocks, node)

    names = tuple(f"n{number}" for number in range(1500))
    slices = (a_slice(name, *(f"gpu-{at}" for at in range(4))) for name in names)
    engine = engine_with(*slices, a_claim(), nodes=names, gpus=4)
    for name in names:
        see(engine, a_pod(f"on-{name}", gpus=1, node=name))
    see(engine, a_claiming_pod("p", "c"))
    monkeypatch.setattr(claim_blocks.ClaimBlocks, "on", counting)

    turns, _ = decide_slowly(engine)

    assert turns > 1
    assert sum(asked.values()) <= 2 * len(names), "by counts, and by a search"


def test_steps_within_counted_steps_count_once() -> None:
    engine = engine_with(for_all_nodes(8), nodes=("n1",))
    cluster, node = engine.cluster, engine.cluster.node_at(0)
    claims = [a_claim(str(number), requests=(kinds("r", 1 + number),)) for number in range(3)]
    cluster.claims.allocate(node, [a_claim()])
    work, spent = cluster.claims.work, cluster.work.spent

    with counted_work(cluster):
        cluster.claims.allocate(node, claims[:1])
        with counted_work(cluster):
            cluster.claims.allocate(node, claims[1:2])
        cluster.claims.allocate(node, claims[2:])

    assert cluster.claims.work > work
    assert cluster.work.spent - spent == 10 * (cluster.claims.work - work)


def test_rules_that_add_too_many_taints_close_a_pool() -> None:
    engine = engine_with(a_slice("n1", "gpu-0"), a_claim(), nodes=("n1",))
    for number in range(MOST_TAINTS + 1):
        taint = DeviceTaint(f"k{number}", "v", "None")
        rule = DeviceTaintRule(f"r{number}", taint, has_selector=True, driver=DRIVER)
        engine.handle(events.ClaimObjectSeen(rule), now=0.0)
    engine.cluster.claims.settle_taints()

    (pool,) = engine.cluster.claims.inventory.on("n1", {}).pools
    assert "taints" in pool.invalid
    engine.handle(events.ClaimObjectGone(rule), now=0.0)
    engine.cluster.claims.settle_taints()
    (pool,) = engine.cluster.claims.inventory.on("n1", {}).pools
    assert len(pool.devices[0].form.taints) == MOST_TAINTS


def test_lines_of_selectors_of_slices_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "MOST_LINES", 16)

    def selecting(name: str, lines: int) -> ResourceSlice:
        term = NodeTerm(tuple(Requirement(f"{name}-{at}", "DoesNotExist") for at in range(lines)))
        return replace(
            a_slice("n1", f"gpu-{name}", name=name, pool=name), nodes=DeviceNodes(terms=(term,))
        )

    engine = engine_with(selecting("a", 10), selecting("b", 10), nodes=("n1",))
    inventory = engine.cluster.claims.inventory
    assert [pool.key[1] for pool in inventory.on("n1", {}).pools] == ["a"]
    engine.handle(events.ClaimObjectGone(selecting("a", 10)), now=0.0)
    engine.handle(events.ClaimObjectSeen(replace(selecting("b", 10), version="2")), now=0.0)
    assert [pool.key[1] for pool in inventory.on("n1", {}).pools] == ["b"]
    assert inventory.shared_lines == 10


def test_devices_of_all_nodes_go_to_pods_one_after_the_other() -> None:
    """What is kept for all nodes follows what claims hold."""
    pods = random.Random(7).sample(range(300), 300)
    engine = engine_with(for_all_nodes(300), nodes=("n1", "n2"))
    taken = set()
    for number in pods:
        claim = a_claim(f"c{number}")
        (given,) = engine.cluster.claims.allocate(engine.cluster.node_at(0), [claim]) or ()
        taken.add(given.devices[0].device)
        held = replace(claim, allocation=given, version="2")
        engine.handle(events.ClaimObjectSeen(held), now=0.0)
    assert len(taken) == 300
    see(engine, a_claiming_pod("p", "c"))
    engine.handle(events.ClaimObjectSeen(a_claim()), now=0.0)
    _, made = decide_slowly(engine)
    assert isinstance(made[0], AnnounceFailure)
