"""Pods of a service class get quiet GPUs, keep others away from them, and share them up to a load.

By readings, with a margin, and only while readings are there.
"""

import random
from dataclasses import replace

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.audit import shared_by_classes
from fairlead.apps.config.profiles import built_in
from fairlead.engine.attempts import Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.events import (
    BindDone,
    NodeGone,
    NodeSeen,
    PodGone,
    QueueKindSeen,
    QueueSeen,
    ReadingsTaken,
    ServiceClassesSeen,
)
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, MigProfile
from fairlead.model.loads import PodLoad
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.model.service_classes import SERVICE_CLASS, GpuTerms, ServiceClass
from fairlead.placement.explain import explain

CHAT = ServiceClass("chat", 60.0, gpus=GpuTerms(quiet=0.4, neighbours=0.6))
ALONE = ServiceClass("alone", 60.0, gpus=GpuTerms(neighbours=0.0), queues=frozenset({"serving"}))
SMALL = ServiceClass("small", 3600.0, gpus=GpuTerms(quiet=0.7, packed=True))
PLAIN = ServiceClass("plain", 3600.0)
TOO_BUSY = "1 node(s) had only GPUs too busy for the service class"
GUARDED = "1 node(s) had only GPUs with pods of service classes that are kept apart"
LIGHT = PodLoad(0.1)


def share(milli: int = 100) -> GpuRequest:
    return GpuRequest(1, False, milli, 1000, dialect="fairlead")


def an_engine(
    gpus: int = 1, nodes: int = 1, profile: str = "gpu-scheduler", **gpu: object
) -> Engine:
    engine = Engine({SCHEDULER: built_in(profile)})
    engine.handle(ServiceClassesSeen((CHAT, ALONE, SMALL, PLAIN)), now=0.0)
    for number in range(nodes):
        name = f"n{number}"
        listed = tuple(Gpu(f"{name}-{n}", n, "H100", 80_000, **gpu) for n in range(gpus))
        inventory = Inventory(listed, dialects=frozenset({"fairlead"}))
        engine.handle(NodeSeen(a_node(name, gpus=gpus, inventory=inventory)), now=0.0)
    return engine


def measure(engine: Engine, now: float, **busy: list[float]) -> None:
    told = tuple(
        NodeReadings(node, now, {str(i): GpuReading(share) for i, share in enumerate(shares)})
        for node, shares in busy.items()
    )
    engine.handle(ReadingsTaken(told), now=now)


def of_class(name: str, class_: str, ask: GpuRequest | None = None, **more: object) -> Pod:
    ask = ask or share()
    pod = a_pod(name, uid=name, gpus=ask.gpus if ask.whole else 0, gpu_request=ask, **more)
    return replace(pod, annotations={SERVICE_CLASS: class_} if class_ else {})


def tried(engine: Engine, pod: Pod, now: float) -> str:
    """The GPU it got, or why not."""
    see(engine, pod, now=now)
    for made in decide(engine, now=now):
        if isinstance(made, Bind) and made.pod.uid == pod.uid:
            assert made.grant is not None
            return made.grant.uses[0].uuid
        if isinstance(made, AnnounceFailure) and made.pod.uid == pod.uid:
            return made.message
    return ""


def bound(engine: Engine, now: float) -> list[str]:
    return [made.pod.uid for made in decide(engine, now=now) if isinstance(made, Bind)]


def test_a_pod_of_the_class_gets_a_quiet_gpu_and_waits_if_there_is_none() -> None:
    engine = an_engine(gpus=2)
    measure(engine, 10.0, n0=[0.8, 0.1])
    assert tried(engine, of_class("p", "chat", load=LIGHT), 11.0) == "n0-1"
    measure(engine, 12.0, n0=[0.8, 0.9])
    assert TOO_BUSY in tried(engine, of_class("q", "chat"), 13.0)
    assert tried(engine, of_class("other", "plain", GpuRequest(1)), 13.0) == "n0-0"


def test_a_gpu_is_quiet_again_only_clearly_below_the_level() -> None:
    engine = an_engine()
    measure(engine, 10.0, n0=[0.5])
    assert TOO_BUSY in tried(engine, of_class("p", "chat"), 11.0)
    for now, busy in ((100.0, 0.39), (200.0, 0.36), (290.0, 0.39)):
        measure(engine, now + 300.0, n0=[0.5])  # keeps it measured
        measure(engine, now + 900.0, n0=[busy])
    measure(engine, 1300.0, n0=[0.33])
    assert not bound(engine, 1301.0), "0.33 is below the level, and not clearly"
    measure(engine, 2000.0, n0=[0.2])
    measure(engine, 2600.0, n0=[0.2])
    assert bound(engine, 2601.0) == ["p"]


def test_readings_that_swing_within_the_margin_wake_no_pod() -> None:
    engine = an_engine()
    measure(engine, 10.0, n0=[0.9])
    assert TOO_BUSY in tried(engine, of_class("p", "chat"), 11.0)
    attempts = []
    for step in range(60):
        measure(engine, 900.0 + 30.0 * step, n0=[0.33 if step % 2 else 0.39])
        attempts.append(engine.decide(now=900.5 + 30.0 * step))
    found = [each.outcome for each in attempts if each is not None]
    assert Outcome.SCHEDULED not in found
    assert len(found) <= 60 * 30 / 300, "all pods are tried once in five minutes"


def test_without_readings_and_with_old_ones_nothing_is_too_busy() -> None:
    engine = an_engine()
    assert tried(engine, of_class("a", "chat"), 1.0) == "n0-0", "nothing was ever measured"
    measure(engine, 10.0, n0=[0.9])
    assert TOO_BUSY in tried(engine, of_class("b", "chat"), 11.0)
    assert GUARDED in tried(engine, of_class("other", ""), 12.0)
    engine.handle(ReadingsTaken(), now=400.0)  # the source is gone
    assert sorted(bound(engine, 401.0)) == ["b", "other"]


def test_others_join_below_a_load_and_not_above() -> None:
    engine = an_engine()
    measure(engine, 10.0, n0=[0.1])
    assert tried(engine, of_class("p", "chat", load=LIGHT), 11.0) == "n0-0"
    assert tried(engine, of_class("calm", "", load=LIGHT), 12.0) == "n0-0"
    measure(engine, 200.0, n0=[0.7])
    assert GUARDED in tried(engine, of_class("noisy", ""), 201.0)
    assert GUARDED in tried(engine, of_class("plain", "plain"), 201.0)
    measure(engine, 800.0, n0=[0.2])
    measure(engine, 1400.0, n0=[0.2])
    assert sorted(bound(engine, 1401.0))[:1] == ["noisy"]


def test_where_there_are_to_be_no_neighbours_there_are_none() -> None:
    engine = an_engine(gpus=2)
    assert tried(engine, of_class("p", "alone"), 1.0) == "n0-0"
    assert tried(engine, of_class("like", "alone", share(500)), 1.0) == "n0-0"
    assert tried(engine, of_class("q", ""), 1.0) == "n0-1"
    assert tried(engine, of_class("whole", "", GpuRequest(1)), 1.0) != "n0-0"
    assert tried(engine, of_class("s", "small"), 2.0) == "n0-1"
    assert GUARDED in tried(engine, of_class("r", "alone", share(500)), 2.0), "not beside others"


def test_a_pod_that_leaves_lets_others_in() -> None:
    engine = an_engine()
    first = of_class("p", "alone")
    tried(engine, first, 1.0)
    assert GUARDED in tried(engine, of_class("q", ""), 2.0)
    engine.handle(PodGone(first), now=60.0)
    assert bound(engine, 60.0) == ["q"]


def test_explain_says_which_class_and_which_load_are_in_the_way() -> None:
    engine = an_engine()
    tried(engine, of_class("p", "alone"), 1.0)
    placement = engine.placement(SCHEDULER)
    assert placement is not None
    (answer,) = explain(placement, engine.cluster, of_class("q", "")).nodes
    assert answer.detail == "its GPUs with room have pods of service classes that are kept apart"
    assert [gpu.missing for gpu in answer.gpus] == [
        "has pods of service class alone, which others do not join"
    ]
    measure(engine, 10.0, n0=[0.9])
    (answer,) = explain(placement, engine.cluster, of_class("r", "small")).nodes
    assert answer.detail == "its quietest GPU with room is 90% busy at its busiest"
    assert [gpu.missing for gpu in answer.gpus] == ["too busy for service class small"]


def test_small_pods_of_a_class_share_gpus_up_to_a_load() -> None:
    engine = an_engine(gpus=2, nodes=3, profile="alnair-high-performance")  # which spreads
    measure(engine, 10.0, n0=[0.0, 0.0], n1=[0.0, 0.0], n2=[0.0, 0.0])
    first = tried(engine, of_class("s0", "small", load=LIGHT), 11.0)
    beside = [tried(engine, of_class(f"s{n}", "small", load=LIGHT), 11.0) for n in range(1, 7)]
    assert set(beside) == {first}, "six more of 0.1 each"
    assert tried(engine, of_class("s7", "small", load=LIGHT), 11.0) != first, "0.7 is reached"
    spread = {tried(engine, of_class(f"p{n}", "plain", load=LIGHT), 11.0) for n in range(4)}
    assert len(spread) == 4, "pods of other classes go where the profile puts them"


def test_pods_that_came_just_now_count_until_they_are_measured() -> None:
    engine = an_engine()
    measure(engine, 10.0, n0=[0.0])
    assert tried(engine, of_class("a", "small"), 11.0) == "n0-0"
    assert tried(engine, of_class("b", "small"), 11.0) == "n0-0", "half busy, as is assumed"
    assert TOO_BUSY in tried(engine, of_class("c", "small"), 11.0)
    for now in (60.0, 120.0, 180.0):
        measure(engine, now, n0=[0.05])
    assert bound(engine, 181.0) == ["c"], "they are measured to do next to nothing"


def test_a_free_gpu_on_which_something_runs_is_not_quiet() -> None:
    engine = an_engine(gpus=2)
    measure(engine, 10.0, n0=[0.9, 0.0])
    assert tried(engine, of_class("p", "chat", GpuRequest(1)), 11.0) == "n0-1"
    assert TOO_BUSY in tried(engine, of_class("q", "chat", GpuRequest(1)), 11.0)


def test_pods_that_no_class_concerns_share_their_answers_with_plain_ones() -> None:
    engine = an_engine()
    cluster = engine.cluster
    assert cluster.request_of(of_class("a", "plain")) == cluster.request_of(of_class("b", ""))
    whole = of_class("c", "plain", GpuRequest(1))
    assert cluster.request_of(whole) is whole.request
    only_small = Engine({SCHEDULER: built_in("gpu-scheduler")})
    only_small.handle(ServiceClassesSeen((SMALL,)), now=0.0)
    plain = of_class("d", "")
    assert only_small.cluster.request_of(plain) is plain.request


def test_slices_are_not_concerned() -> None:
    mig = (MigProfile("1g.10gb", 1, (0, 1, 2)),)
    engine = an_engine(mig=mig, slots=8)
    ask = GpuRequest(1, False, 0, profile="1g.10gb", dialect="fairlead")
    measure(engine, 10.0, n0=[0.9])
    assert tried(engine, of_class("p", "alone", ask), 11.0) == "n0-0"
    assert tried(engine, of_class("q", "", ask), 11.0) == "n0-0"


def test_the_class_of_a_queue_counts_and_is_known_again_after_a_restart() -> None:
    engine = an_engine()
    engine.handle(QueueKindSeen("fairlead", is_served=True), now=0.0)
    engine.handle(QueueSeen(QueueSpec("fairlead/serving")), now=0.0)
    pod = of_class("p", "", queue="fairlead/serving")
    see(engine, pod)
    (bind,) = (made for made in decide(engine) if isinstance(made, Bind))
    assert GUARDED in tried(engine, of_class("q", ""), 2.0)
    again = an_engine()  # pods are seen before queues
    see(again, replace(pod, node="n0", grant=bind.grant, charged_queue="fairlead/serving"))
    assert GUARDED in tried(again, of_class("q", ""), 2.0)


def test_classes_that_are_told_late_hold_for_pods_that_are_there() -> None:
    engine = Engine({SCHEDULER: built_in("gpu-scheduler")})
    listed = (Gpu("n0-0", 0, "H100", 80_000),)
    inventory = Inventory(listed, dialects=frozenset({"fairlead"}))
    engine.handle(NodeSeen(a_node("n0", gpus=1, inventory=inventory)), now=0.0)
    assert tried(engine, of_class("p", "alone"), 1.0) == "n0-0"
    engine.handle(ServiceClassesSeen((ALONE,)), now=2.0)
    assert GUARDED in tried(engine, of_class("q", ""), 3.0)


def test_a_pod_of_higher_priority_evicts_one_that_keeps_others_away_but_not_for_quiet() -> None:
    engine = an_engine()
    tried(engine, of_class("low", "alone"), 1.0)
    engine.handle(BindDone("low"), now=1.0)
    high = of_class("high", "", priority=10)
    made = [*see(engine, high, now=2.0), *decide(engine, now=2.0)]
    (evicted,) = (each for each in made if isinstance(each, Evict))
    assert [pod.uid for pod in evicted.victims] == ["low"]
    busy = an_engine()
    tried(busy, of_class("low", ""), 1.0)
    busy.handle(BindDone("low"), now=1.0)
    measure(busy, 10.0, n0=[0.9])
    made = [*see(busy, of_class("high", "chat", priority=10), now=11.0), *decide(busy, now=11.0)]
    assert not [each for each in made if isinstance(each, Evict)]


def test_the_audit_finds_pods_beside_a_class_without_neighbours() -> None:
    """They were there before the administrator changed the class."""
    engine = an_engine(gpus=2)
    for name, class_ in (("p", "plain"), ("q", "plain"), ("r", "plain")):
        see(engine, replace(of_class(name, class_), node="n0", grant=a_grant("n0-0")))
    assert not list(shared_by_classes(engine))
    see(engine, replace(of_class("a", "alone"), node="n0", grant=a_grant("n0-0")))
    see(engine, replace(of_class("b", "alone"), node="n0", grant=a_grant("n0-1")))
    found = list(shared_by_classes(engine))
    assert {each.pod for each in found} == {f"default/{name}" for name in "pqra"}
    assert found[0].why == "GPU n0-0 has pods of the service classes alone, plain"


def a_grant(uuid: str) -> Grant:
    return Grant((GpuUse(uuid, False, 100, 1000),), "fairlead")


def test_looking_changes_nothing() -> None:
    engine = an_engine()
    measure(engine, 10.0, n0=[0.35])
    tried(engine, of_class("a", "small", load=LIGHT), 11.0)
    placement, waiting = engine.placement(SCHEDULER), of_class("b", "small", load=LIGHT)
    assert placement is not None
    for _ in range(20):
        with engine.cluster.trial() as trial:
            found = placement.find(waiting)
            assert found is not None
            trial.assume(waiting, found.node, found.grant)
    assert tried(engine, waiting, 12.0) == "n0-0"


def test_a_class_without_neighbours_has_none_in_random_runs() -> None:
    for seed in range(5):
        drawn, engine, there = random.Random(seed), an_engine(gpus=3), dict[str, Pod]()
        on: dict[str, tuple[str, str]] = {}
        for number in range(60):
            now = 20.0 * number
            if there and drawn.random() < 0.4:
                gone = there.pop(drawn.choice(sorted(there)))
                on.pop(gone.uid)
                engine.handle(PodGone(gone), now=now)
            measure(engine, now, n0=[drawn.random() for _ in range(3)])
            class_ = drawn.choice(("alone", "small", "plain", ""))
            see(engine, of_class(f"p{number}", class_, share(300)), now=now)
            for bind in (m for m in decide(engine, now=now + 0.5) if isinstance(m, Bind)):
                assert bind.grant is not None
                there[bind.pod.uid] = bind.pod
                named = bind.pod.annotations.get(SERVICE_CLASS, "")
                on[bind.pod.uid] = bind.grant.uses[0].uuid, named
            for gpu in {gpu for gpu, _ in on.values()}:
                classes = {class_ for its, class_ in on.values() if its == gpu}
                assert "alone" not in classes or classes == {"alone"}, (seed, gpu, classes)


def classes_on(engine: Engine) -> dict[str, set[str]]:
    """The classes on each GPU, as they are marked."""
    devices, found = engine.cluster.columns.devices, dict[str, set[str]]()
    assert devices.services is not None
    for node, row in engine.cluster.row_of.items():
        pick = slice(row, row + 1)
        for uuid, slot in devices.slots_of(row).items():
            if not uuid.startswith(node):
                continue
            for name in ("chat", "alone", "small", ""):
                marked = devices.services.with_pods_of(name, pick, devices.load)[0, slot]
                if marked:
                    found.setdefault(uuid, set()).add(name)
    return found


def classes_held(engine: Engine) -> dict[str, set[str]]:
    """The same, by what pods hold."""
    found: dict[str, set[str]] = {}
    for held in engine.cluster.holdings.values():
        name = held.pod.annotations.get(SERVICE_CLASS, "")
        name = name if name in ("chat", "alone", "small") else ""
        row = engine.cluster.row_of.get(held.node)
        known = engine.cluster.columns.devices.slots_of(row) if row is not None else {}
        for use in held.grant.uses if held.grant else ():
            if use.uuid in known:
                found.setdefault(use.uuid, set()).add(name)
    return found


def a_listed(name: str, gpus: int):
    listed = tuple(Gpu(f"{name}-{n}", n, "H100", 80_000) for n in range(gpus))
    inventory = Inventory(listed, dialects=frozenset({"fairlead"}))
    return a_node(name, gpus=gpus, inventory=inventory)


def test_marks_follow_what_pods_hold_whatever_happens() -> None:
    for seed in range(8):
        drawn, engine, there = random.Random(seed), an_engine(gpus=2, nodes=2), dict[str, Pod]()
        for number in range(120):
            now, choice = 7.0 * number, drawn.random()
            node = f"n{drawn.randrange(4)}"
            if choice < 0.15:
                engine.handle(NodeGone(node), now=now)
            elif choice < 0.35:
                engine.handle(NodeSeen(a_listed(node, drawn.choice((1, 2, 9)))), now=now)
            elif choice < 0.5 and there:
                engine.handle(PodGone(there.pop(drawn.choice(sorted(there)))), now=now)
            elif choice < 0.6:
                busy = [drawn.random() for _ in range(2)]
                measure(engine, now, **{node: busy})
            elif choice < 0.65:
                engine.forget()
                for pod in [*there.values()]:
                    see(engine, pod, now=now)
                for each in range(4):
                    engine.handle(NodeSeen(a_listed(f"n{each}", 2)), now=now)
            else:
                class_ = drawn.choice(("alone", "small", "chat", "plain", ""))
                see(engine, of_class(f"p{number}", class_, share(300)), now=now)
            for made in decide(engine, now=now):
                if isinstance(made, Bind):
                    pod = replace(made.pod, node=made.node, grant=made.grant)
                    engine.handle(BindDone(pod.uid), now=now)
                    see(engine, pod, now=now)
                    there[pod.uid] = pod
            assert classes_on(engine) == classes_held(engine), (seed, number)
        assert there, "pods were placed"
