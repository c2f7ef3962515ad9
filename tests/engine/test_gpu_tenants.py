"""Pods of different tenants share no GPU, whatever is relabelled, restarted or evicted."""

import random
from dataclasses import replace
from itertools import groupby

from builders import SCHEDULER, a_node, a_pod, decide, see
from fairlead.apps.audit import shared_by_tenants
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, NamespaceSeen, NodeSeen, PodGone
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict
from fairlead.model.gpu_tenants import TenantTerms
from fairlead.model.gpus import Gpu, GpuRequest, Inventory, MigProfile
from fairlead.model.pods import Pod
from fairlead.placement.explain import explain

LABEL = "example.com/tenant"
A, B, NONE = {LABEL: "a"}, {LABEL: "b"}, {}
MIG = (MigProfile("1g.10gb", 1, (0, 1, 2)),)
SLICE = GpuRequest(1, False, 0, profile="1g.10gb", dialect="fairlead")
OTHERS = "1 node(s) had only GPUs with pods of other tenants"


def share(milli: int = 250) -> GpuRequest:
    return GpuRequest(1, False, milli, 1000, dialect="fairlead")


def an_engine(gpus: int = 1, *, slices: bool = False, **gpu: object) -> Engine:
    profile = built_in("alnair-cost-saving")
    engine = Engine({SCHEDULER: profile}, tenants=TenantTerms(LABEL, slices))
    listed = tuple(Gpu(f"GPU-{n}", n, "H100", 80_000, **gpu) for n in range(gpus))
    inventory = Inventory(listed, dialects=frozenset({"fairlead"}))
    engine.handle(NodeSeen(a_node("n1", gpus=gpus, inventory=inventory)), now=0.0)
    for name, labels in (("a", A), ("a2", A), ("b", B), ("none", NONE)):
        engine.handle(NamespaceSeen(name, labels), now=0.0)
    return engine


def a_share(name: str, namespace: str, ask: GpuRequest | None = None, **more: object) -> Pod:
    ask = ask or share()
    counted = ask.gpus if ask.whole else 0
    pod = a_pod(name, uid=name, gpus=counted, gpu_request=ask, **more)
    return replace(pod, namespace=namespace)


def tried(engine: Engine, pod: Pod, now: float = 0.0) -> str:
    """The GPU it got, or why not."""
    see(engine, pod, now=now)
    for made in decide(engine, now=now):
        if isinstance(made, Bind) and made.pod.uid == pod.uid:
            assert made.grant is not None
            return made.grant.uses[0].uuid
        if isinstance(made, AnnounceFailure) and made.pod.uid == pod.uid:
            return made.message
    return ""


def test_pods_of_one_tenant_share_and_others_get_another_gpu() -> None:
    engine = an_engine(gpus=2)
    first = tried(engine, a_share("p", "a"))
    assert tried(engine, a_share("q", "a2")) == first
    second = tried(engine, a_share("r", "b"))
    assert {first, second} == {"GPU-0", "GPU-1"}
    assert OTHERS in tried(engine, a_share("s", "none"))


def test_namespaces_without_the_label_are_one_tenant() -> None:
    engine = an_engine()
    engine.handle(NamespaceSeen("none2", {"other": "label"}), now=0.0)
    assert tried(engine, a_share("p", "none")) == "GPU-0"
    assert tried(engine, a_share("q", "none2")) == "GPU-0"
    assert OTHERS in tried(engine, a_share("r", "a"))


def test_explain_says_whose_pods_are_in_the_way() -> None:
    engine = an_engine()
    tried(engine, a_share("p", "a"))
    pod = a_share("q", "b")
    placement = engine.placement(SCHEDULER)
    assert placement is not None
    (answer,) = explain(placement, engine.cluster, pod).nodes
    assert answer.detail == "its GPUs with room have pods of other tenants"
    assert [gpu.missing for gpu in answer.gpus] == ["has pods of the tenant a"]


def test_a_pod_that_leaves_lets_another_tenant_in() -> None:
    engine = an_engine()
    first = a_share("p", "a")
    tried(engine, first)
    assert OTHERS in tried(engine, a_share("q", "b"))
    engine.handle(PodGone(first), now=60.0)
    (bind,) = (made for made in decide(engine, now=60.0) if isinstance(made, Bind))
    assert bind.pod.uid == "q"


def test_a_relabelled_namespace_counts_by_its_new_label_and_waiting_pods_are_tried() -> None:
    engine = an_engine()
    tried(engine, a_share("p", "a"))
    assert OTHERS in tried(engine, a_share("q", "b"))
    engine.handle(NamespaceSeen("b", A), now=60.0)
    (bind,) = (made for made in decide(engine, now=60.0) if isinstance(made, Bind))
    assert bind.pod.uid == "q"
    engine.handle(NamespaceSeen("b", B), now=61.0)
    for namespace in ("a", "b", "none"):
        assert OTHERS in tried(engine, a_share(f"late-{namespace}", namespace), 62.0)
    (found, *_) = breaches = list(shared_by_tenants(engine.cluster))
    assert {each.pod for each in breaches} == {"a/p", "b/q"}
    assert found.why == "GPU GPU-0 has pods of the tenants a, b"


def test_after_a_restart_the_same_holds() -> None:
    engine = an_engine()
    pod = a_share("p", "a")
    see(engine, pod)
    (bind,) = (made for made in decide(engine) if isinstance(made, Bind))
    again = an_engine()
    see(again, a_share("p", "a", node="n1", grant=bind.grant))
    assert OTHERS in tried(again, a_share("q", "b"))
    assert tried(again, a_share("r", "a2")) == "GPU-0"


def test_a_namespace_that_was_not_seen_yet_shares_with_no_other() -> None:
    engine = an_engine(gpus=2)
    first = tried(engine, a_share("p", "new"))
    second = tried(engine, a_share("q", "newer"))
    assert {first, second} == {"GPU-0", "GPU-1"}
    assert OTHERS in tried(engine, a_share("r", "none"))
    engine.handle(NamespaceSeen("new", NONE), now=60.0)
    (bind,) = (made for made in decide(engine, now=60.0) if isinstance(made, Bind))
    assert bind.grant is not None
    assert bind.grant.uses[0].uuid == first


def test_slices_share_unless_the_administrator_says_otherwise() -> None:
    for slices, outcome in ((False, "GPU-0"), (True, OTHERS)):
        engine = an_engine(slices=slices, mig=MIG, slots=8)
        assert tried(engine, a_share("p", "a", SLICE)) == "GPU-0"
        assert outcome in tried(engine, a_share("q", "b", SLICE))


def test_whole_gpus_are_not_restricted_and_a_pod_of_another_tenant_can_be_evicted() -> None:
    engine = an_engine()
    low = a_share("low", "a")
    tried(engine, low)
    engine.handle(BindDone("low"), now=0.0)
    made = [*see(engine, a_share("high", "b", priority=10)), *decide(engine)]
    (evicted,) = (each for each in made if isinstance(each, Evict))
    assert [pod.uid for pod in evicted.victims] == ["low"]
    assert tried(an_engine(), a_share("whole", "b", GpuRequest(1))) in ("GPU-0", "")


def test_no_gpu_has_pods_of_two_tenants_in_random_runs() -> None:
    for seed in range(6):
        drawn = random.Random(seed)
        engine, there = an_engine(gpus=3), {}
        for number in range(50):
            if there and drawn.random() < 0.4:
                engine.handle(PodGone(there.pop(drawn.choice(list(there)))), now=number * 20.0)
            pod = a_share(f"p{number}", drawn.choice(("a", "a2", "b", "none")), share(300))
            see(engine, pod, now=number * 20.0)
            binds = [m for m in decide(engine, now=number * 20.0) if isinstance(m, Bind)]
            there |= {bind.pod.uid: bind.pod for bind in binds}
            assert not list(shared_by_tenants(engine.cluster)), seed
        tenants = groupby(sorted(pod.namespace for pod in there.values()))
        assert len(list(tenants)) > 1, "several tenants run at once"


def test_values_that_labels_had_before_are_forgotten_and_tenants_stay_apart() -> None:
    engine = an_engine(gpus=2)
    first, second = (tried(engine, a_share(name, name)) for name in "ab")
    assert first != second
    for number in range(500):
        engine.handle(NamespaceSeen("a", {LABEL: f"value-{number}"}), now=float(number))
    tenancy = engine.cluster.columns.devices.tenancy
    assert tenancy is not None
    assert len(tenancy._codes) < 100
    assert tried(engine, a_share("q", "a"), now=600.0) == first
    assert tried(engine, a_share("r", "b"), now=600.0) == second
    assert OTHERS in tried(engine, a_share("s", "none"), now=600.0)
