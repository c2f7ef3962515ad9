"""Nobody waits for what is there: whatever makes room is noticed by those who could use it."""

from dataclasses import replace

from builders import a_node, a_pod, an_engine, decide, near, see, selects
from fairlead.engine.engine import Engine
from fairlead.engine.events import EvictionEnded, NodeGone, NodeSeen, PodGone
from fairlead.engine.instructions import Bind, Evict
from fairlead.model.pods import HostPort
from fairlead.model.selectors import SpreadRule

EVEN = SpreadRule("zone", 1, selects(app="web"))


def bound(engine: Engine, now: float = 1.0) -> set[str]:
    return {step.pod.name for step in decide(engine, now=now) if isinstance(step, Bind)}


def evicted(engine: Engine, now: float = 2.0) -> list[str]:
    made = decide(engine, now=now)
    return [victim.name for step in made if isinstance(step, Evict) for victim in step.victims]


def test_an_empty_zone_that_goes_holds_nobody_back() -> None:
    full = a_node("full", gpus=0, labels={"zone": "z2"})
    engine = an_engine(a_node("n1", labels={"zone": "z1"}), full)
    there = a_pod("there", node="n1", labels={"app": "web"})
    see(engine, there, a_pod("asks", gpus=1, labels={"app": "web"}, spread=(EVEN,)))
    assert bound(engine) == set()
    engine.handle(NodeGone("full"), now=1.0)
    assert bound(engine) == {"asks"}


def test_a_promise_on_a_node_that_went_hinders_no_other() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    low = a_pod("low", gpus=2, node="n1")
    see(engine, low, a_pod("high", uid="h", priority=9, gpus=2))
    assert evicted(engine) == ["low"]
    see(engine, replace(low, deleting=True, evicted=True))  # and takes its time
    engine.handle(NodeSeen(a_node("n2", gpus=2)), now=1.0)
    see(engine, a_pod("other", gpus=2, node="n2"), now=1.0)
    engine.handle(NodeGone("n1"), now=1.0)
    assert evicted(engine) == []  # the first eviction is still under way
    engine.handle(EvictionEnded("h", ""), now=2.0)
    assert evicted(engine) == ["other"]


def test_pods_that_were_alike_are_told_apart_once_somebody_minds_a_label() -> None:
    engine = an_engine(a_node("n1", gpus=0, labels={"zone": "z1"}))
    see(engine, a_pod("minded", gpus=1, labels={"app": "minded"}))
    see(engine, *(a_pod(f"fine-{n}", gpus=1, labels={"app": "fine"}) for n in range(3)))
    assert bound(engine) == set()
    see(engine, a_pod("minds", node="n1", apart=(near("zone", app="minded"),)))
    engine.handle(NodeSeen(a_node("n2", labels={"zone": "z1"})), now=1.0)
    assert bound(engine) == {"fine-0", "fine-1", "fine-2"}


def test_a_promised_port_is_free_when_the_promise_ends() -> None:
    engine = an_engine(a_node("n1", gpus=8))
    high = a_pod("high", priority=9, host_ports=(HostPort(80),), gpus=8)
    see(engine, a_pod("there", gpus=8, node="n1"), high)
    decide(engine)  # the one there has to go, and the node is promised
    see(engine, a_pod("low", host_ports=(HostPort(80),)))
    assert bound(engine) == set()
    engine.handle(PodGone(high), now=1.0)
    assert bound(engine) == {"low"}


def test_a_promise_that_is_not_needed_any_more_is_room_for_others() -> None:
    engine = an_engine(a_node("n1", gpus=2, labels={"disk": "ssd"}))
    high = a_pod("high", priority=9, gpus=2)
    see(engine, a_pod("there", gpus=1, node="n1"), high)
    decide(engine)
    see(engine, a_pod("low", gpus=1, node_selector=(("disk", "ssd"),)))
    assert bound(engine) == set()
    engine.handle(NodeSeen(a_node("n2", gpus=2)), now=1.0)
    assert bound(engine) == {"high", "low"}


def test_a_pod_that_goes_before_its_turn_passes_it_on() -> None:
    engine = an_engine(a_node("n1", gpus=1))
    see(engine, a_pod("there", uid="t", gpus=1, node="n1"))
    first, second = a_pod("first", gpus=1), a_pod("second", gpus=1)
    see(engine, first, second)
    assert bound(engine) == set()
    engine.handle(PodGone(a_pod("there", uid="t", node="n1")), now=1.0)
    # The urgent one is tried before the first, which is awake by then.
    see(engine, a_pod("urgent", priority=9, gpus=0), now=1.0)
    assert bound_once(engine) == "urgent"
    engine.handle(PodGone(first), now=1.0)
    assert bound(engine) == {"second"}


def bound_once(engine: Engine) -> str:
    (step,) = (s for s in decide(engine, now=1.0, times=1) if isinstance(s, Bind))
    return step.pod.name


def test_a_denied_eviction_is_tried_again_in_good_time() -> None:
    engine = an_engine(a_node("n1", gpus=1))
    see(engine, a_pod("low", gpus=1, node="n1"), a_pod("high", uid="h", priority=9, gpus=1))
    assert evicted(engine, 10.0) == ["low"]
    engine.handle(EvictionEnded("h", "not today"), now=10.1)
    assert evicted(engine, 10.2) == []
    assert engine.wake_at_s() == 12.0
    assert evicted(engine, 12.0) == ["low"]
