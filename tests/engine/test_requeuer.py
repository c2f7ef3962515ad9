"""Nobody waits for what is there: whatever makes room is noticed by those who could use it."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from builders import (
    SCHEDULER,
    a_node,
    a_pod,
    a_taint,
    an_engine,
    decide,
    pod_term,
    see,
    selects,
)
from examples import examples
from fairlead.apps.config.profiles import built_in
from fairlead.engine import requeuer
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    Event,
    EvictionEnded,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from fairlead.engine.instructions import Bind, ClearNomination, Evict, Instruction
from fairlead.model.pods import HostPort, Pod, Toleration
from fairlead.model.selectors import SpreadRule
from fairlead.placement.place import Placement
from fairlead.queue.entries import Pool

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


def test_a_nomination_on_a_node_that_went_hinders_no_other() -> None:
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


def test_who_lost_its_nomination_to_a_higher_pod_does_not_wait_for_victims_of_old() -> None:
    engine = an_engine(a_node("n1", gpus=3), a_node("n2", gpus=2))
    low, other = a_pod("low", gpus=2, node="n1"), a_pod("other", priority=4, gpus=2, node="n2")
    middle = a_pod("middle", uid="m", priority=5, gpus=2)
    see(engine, low, a_pod("small", priority=1, gpus=1, node="n1"), other, middle)
    assert evicted(engine) == ["low"]
    see(engine, replace(middle, nominated="n1"), replace(low, deleting=True, evicted=True))
    engine.handle(EvictionEnded("m", ""), now=3.0)
    see(engine, a_pod("high", priority=9, gpus=3), now=4.0)
    assert evicted(engine, now=4.0) == ["small", "other"]  # for middle: high has its place
    assert engine.cluster.nominations.node_of("m") == "n2"


def test_who_waits_for_pods_that_leave_anyway_clears_no_nominations() -> None:
    engine = an_engine(a_node("n1", gpus=2))
    leaving = a_pod("leaves", gpus=2, node="n1", deleting=True)
    see(engine, leaving, a_pod("nominated", nominated="n1", gates=("wait",)))
    see(engine, a_pod("high", priority=9, gpus=2))
    made = decide(engine)
    assert [step for step in made if isinstance(step, Evict | ClearNomination)] == []
    see(engine, a_pod("stays", gpus=0, node="n1", host_ports=(HostPort(80),)))
    see(engine, a_pod("higher", priority=10, gpus=0, host_ports=(HostPort(80),)))
    assert [s.pod.name for s in decide(engine) if isinstance(s, ClearNomination)] == [
        "nominated", "high",
    ]  # fmt: skip


def test_pods_that_were_alike_are_told_apart_once_somebody_minds_a_label() -> None:
    engine = an_engine(a_node("n1", gpus=0, labels={"zone": "z1"}))
    see(engine, a_pod("minded", gpus=1, labels={"app": "minded"}))
    see(engine, *(a_pod(f"fine-{n}", gpus=1, labels={"app": "fine"}) for n in range(3)))
    assert bound(engine) == set()
    see(engine, a_pod("minds", node="n1", anti_affinity=(pod_term("zone", app="minded"),)))
    engine.handle(NodeSeen(a_node("n2", labels={"zone": "z1"})), now=1.0)
    assert bound(engine) == {"fine-0", "fine-1", "fine-2"}


def test_a_nominated_port_is_free_when_the_nomination_ends() -> None:
    engine = an_engine(a_node("n1", gpus=8))
    high = a_pod("high", priority=9, host_ports=(HostPort(80),), gpus=8)
    see(engine, a_pod("there", gpus=8, node="n1"), high)
    decide(engine)  # the one there has to go, and the node is promised
    see(engine, a_pod("low", host_ports=(HostPort(80),)))
    assert bound(engine) == set()
    engine.handle(PodGone(high), now=1.0)
    assert bound(engine) == {"low"}


def test_a_nomination_that_is_not_needed_any_more_is_room_for_others() -> None:
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


ZONE_A = (("zone", "a"),)


def test_a_node_that_comes_before_it_is_ready_is_not_forgotten() -> None:
    """First the selector refuses, then the taint: the pod waits for the end of both."""
    engine = an_engine(a_node("n1"))
    first, second = (a_pod(name, node_selector=ZONE_A) for name in ("first", "second"))
    see(engine, first, second)
    assert bound(engine) == set()
    not_ready = a_node("n2", labels={"zone": "a"}, taints=(a_taint("not-ready"),))
    engine.handle(NodeSeen(not_ready), now=1.0)
    assert bound(engine) == set()
    engine.handle(PodGone(first), now=1.0)  # the next in line keeps watch
    engine.handle(NodeSeen(replace(not_ready, taints=())), now=2.0)
    assert bound(engine, now=2.0) == {"second"}


nodes = st.builds(
    lambda n, zone, tainted, gpus: NodeSeen(
        a_node(f"n{n}", gpus=gpus, labels={"zone": zone},
               taints=(a_taint("k"),) if tainted else ())
    ),
    st.integers(0, 2), st.sampled_from("ab"), st.booleans(), st.integers(0, 2),
)  # fmt: skip
pods = st.builds(
    lambda n, zone, tolerant, gpus, node: PodSeen(
        a_pod(f"p{n}", gpus=gpus, node=node, node_selector=(("zone", zone),) if zone else (),
              tolerations=(Toleration(operator="Exists"),) if tolerant else ())
    ),
    st.integers(0, 9), st.sampled_from(["", "a", "b"]), st.booleans(), st.integers(0, 2),
    st.sampled_from(["", "", "n0"]),
)  # fmt: skip
gone = st.integers(0, 9).map(lambda n: PodGone(a_pod(f"p{n}")))
lost = st.integers(0, 2).map(lambda n: NodeGone(f"n{n}"))


def decide_on(engine: Engine, now: float) -> list[Instruction]:
    """As the driver does it: until there is nothing to do, and nothing more to look at."""
    made: list[Instruction] = []
    for _ in range(1000):
        attempt = engine.decide(now=now)
        made += attempt.instructions if attempt else ()
        due = engine.wake_at_s()
        if attempt is None and (due is None or due > 0.0):
            return made
    raise AssertionError("it never ends")


@pytest.mark.parametrize("slice_", [None, 0], ids=["at once", "one look a turn"])
@examples(400, few=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(happenings=st.lists(nodes | pods | gone | lost, min_size=3, max_size=12))
def test_nobody_waits_for_what_is_there(
    happenings: list[Event], slice_: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if slice_ is not None:
        monkeypatch.setattr(requeuer, "_SLICE", slice_)
        monkeypatch.setattr(requeuer, "_RECLASSIFIED", 1)
    engine = an_engine()
    placement = Placement(built_in(SCHEDULER), engine.cluster)
    seen: dict[str, Pod] = {}
    for now, event in enumerate(happenings, start=1):
        if isinstance(event, PodSeen) and event.pod.uid in seen:
            continue  # a pod's spec stays as it is
        if isinstance(event, PodGone) and event.pod.uid not in seen:
            continue
        engine.handle(event, now=float(now))
        if isinstance(event, PodSeen):
            seen[event.pod.uid] = event.pod
        elif isinstance(event, PodGone):
            del seen[event.pod.uid]
        for bind in [s for s in decide_on(engine, now=float(now)) if isinstance(s, Bind)]:
            seen[bind.pod.uid] = replace(bind.pod, node=bind.node)
            see(engine, seen[bind.pod.uid], now=float(now))
        waiting = [uid for uid in seen if (entry := engine.queue.get(uid)) and
                   entry.pool is Pool.WAITING and placement.fits(entry.unit.pod)]  # fmt: skip
        assert not waiting, f"after {event}"
