"""Explanations as data: what a pod asks for and was given, and what a reader may not see."""

import io
import json
from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, decide, pod_term, see
from claim_objects import GPU_CLASS, a_claim, a_claiming_pod, a_device, a_slice
from fairlead.apps.explain.explain import show
from fairlead.apps.explain.explanation import (
    ALL,
    Answer,
    Explainer,
    ExplanationScope,
    asked,
    gpus_told,
)
from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectSeen
from fairlead.kube.codec import decode_pod
from fairlead.model.claims import DeviceNeed, DeviceRequest
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, Isolation
from fairlead.model.pods import Pod
from fairlead.plugins.inter_pod_affinity import InterPodAffinity

TENANT = ExplanationScope(nodes=False, pods=False)


def told(engine: Engine, pod: Pod, shown: ExplanationScope = ALL) -> Answer:
    found = Explainer(engine, {pod.key: pod}.get)(pod.key, shown)
    assert found is not None
    return found


def shown_as_text(answer: Answer) -> str:
    out = io.StringIO()
    show(answer, "text", out)
    return out.getvalue()


def crowded() -> tuple[Engine, Pod]:
    """Two full nodes, and a pod for which somebody would have to go."""
    engine = an_engine(a_node("node-a", gpus=1), a_node("node-b", gpus=1))
    see(engine, a_pod("victim-a", gpus=1, node="node-a"), a_pod("victim-b", gpus=1, node="node-b"))
    urgent = a_pod("urgent", gpus=1, priority=10)
    see(engine, urgent)
    return engine, urgent


def test_a_reader_without_rights_gets_counts_and_no_names() -> None:
    engine, urgent = crowded()
    everything, little = told(engine, urgent), told(engine, urgent, TENANT)
    assert {node["node"] for node in everything["nodes"]} == {"node-a", "node-b"}
    assert "victim-a" in everything["message"]
    assert little["nodes"] == []
    assert little["reasons"] == [{"reason": "Insufficient nvidia.com/gpu", "nodes": 2}]
    assert "0/2 nodes are available" in little["message"]
    for secret in ("node-a", "node-b", "victim"):
        assert secret not in json.dumps(little)
    assert "NODES  REASON\n    2  Insufficient nvidia.com/gpu\n" in shown_as_text(little)


def test_who_may_list_nodes_sees_no_pods_of_others() -> None:
    engine, urgent = crowded()
    found = told(engine, urgent, ExplanationScope(pods=False))
    assert "after the eviction of 1 pod(s) of lower priority" in found["message"]
    assert "victim" not in json.dumps(found)

    decide(engine)  # nominates it, so that room is kept for it
    see(engine, a_node_free := a_pod("second", gpus=1))
    engine.cluster.remove(next(iter(engine.cluster.held_on("node-a"))).pod.uid)
    kept = json.dumps(told(engine, a_node_free, ExplanationScope(pods=False)))
    assert "its room is reserved for 1 other pod(s)" in kept
    assert "urgent" not in kept
    assert "its room is reserved for default/urgent" in json.dumps(told(engine, a_node_free))


def test_a_node_that_fits_is_named_to_who_may_list_nodes() -> None:
    engine, pod = an_engine(a_node("node-a")), a_pod("p", gpus=1)
    assert "it would go to node node-a" in told(engine, pod)["message"]
    assert told(engine, pod, TENANT)["message"] == "the pod fits now"


def test_a_pod_on_its_way_and_one_of_another_scheduler() -> None:
    engine, pod = an_engine(a_node("node-a")), a_pod("p", gpus=1)
    see(engine, pod)
    decide(engine)
    assert told(engine, pod)["message"] == "the pod is being bound to node node-a"
    assert told(engine, pod, TENANT)["message"] == "the pod is being bound"
    assert told(engine, replace(pod, scheduler="other"))["state"] == "unserved"
    assert Explainer(engine, {}.get)("default/nothing", ALL) is None


def test_of_many_nodes_the_best_are_shown() -> None:
    engine = an_engine(*(a_node(f"n{number}", gpus=number % 2) for number in range(50)))
    found = told(engine, a_pod("p", gpus=1), ExplanationScope(most_nodes=30))
    assert [node["rule"] for node in found["nodes"]] == [""] * 25 + ["NodeResourcesFit"] * 5
    assert found["nodesLeftOut"] == 20
    assert "and 20 other nodes" in shown_as_text(found)


def test_rules_that_look_around_are_not_asked_node_by_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each such question walks all nodes, and the loop that answers is the one that schedules."""
    zone = {"zone": "z"}
    engine = an_engine(*(a_node(f"n{number}", labels=zone) for number in range(100)))
    see(engine, a_pod("there", node="n0", labels={"app": "a"}))
    pod = a_pod("p", anti_affinity=(pod_term("zone", app="a"),))
    see(engine, pod)
    decide(engine)
    questions, rule = [0], InterPodAffinity.allows

    def counted(self: InterPodAffinity, *asked: object) -> object:
        questions[0] += 1
        return rule(self, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(InterPodAffinity, "allows", counted)
    found = told(engine, pod, ExplanationScope(most_nodes=100))
    assert {node["rule"] for node in found["nodes"]} == {"InterPodAffinity"}
    assert questions[0] < 5


# -- what was asked for, and what was given --------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (None, ""),
        (GpuRequest(2), ""),
        (GpuRequest(1, whole=False, milli=500, memory_milli=500), "0.5 of a GPU"),
        (GpuRequest(1, whole=False, milli=0, memory_mib=16384), "16 GiB of a GPU's memory"),
        (GpuRequest(2, whole=False, milli=250, memory_mib=4000),
         "2 × 0.25 of a GPU with 4000 MiB of a GPU's memory"),
        (GpuRequest(3, whole=False, milli=0, profile="1g.18gb"), "3 × a 1g.18gb slice"),
        (GpuRequest(2, models=frozenset({"H200", "H100"}), linked=True),
         "of model H100 or H200, joined by NVLink"),
    ],
)  # fmt: skip
def test_what_annotations_ask_for_is_told(ask: GpuRequest | None, words: str) -> None:
    assert asked(ask) == words
    engine = an_engine(a_node())
    text = shown_as_text(told(engine, a_pod("p", gpu_request=ask)))
    assert (f"requests: {words}\n" in text) is bool(words)


def test_memory_on_a_gpu_is_told_as_memory() -> None:
    use = GpuUse("GPU-a0", whole=False, milli=0, memory_mib=16384)
    assert gpus_told(Grant((use,))) == ", 16 GiB of GPU-a0"
    assert gpus_told(Grant((GpuUse("GPU-a0"), GpuUse("GPU-a1")))) == ", GPU-a0, GPU-a1"


def test_gpus_that_a_device_plugin_chose_are_counted() -> None:
    pod = a_pod("p", node="node-a", grant=Grant((GpuUse(""), GpuUse(""))))
    message = told(an_engine(), pod)["message"]
    assert message.endswith("node-a, 2 GPU(s) that the device plugin of the node chose")


@pytest.mark.parametrize("grant", [None, Grant((GpuUse(""), GpuUse("")))])
def test_gpus_that_a_device_plugin_chose_are_named_where_the_kubelet_says_which(
    grant: Grant | None,
) -> None:
    pod = a_pod("p", node="node-a", grant=grant)
    both = (Gpu("GPU-a", 0), Gpu("GPU-b", 1))
    inventory = Inventory(both, named=False, picked={pod.uid: ("GPU-a", "GPU-b")})
    answer = told(an_engine(a_node("node-a", inventory=inventory)), pod)
    named = "GPU-a, GPU-b, which the device plugin of the node chose"
    assert answer["message"] == f"the pod is bound to node node-a, {named}"
    assert [one["gpu"] for one in answer["gpus"]] == ["GPU-a", "GPU-b"]


def test_a_bound_pod_tells_what_was_decided() -> None:
    use = GpuUse("GPU-a0", whole=False, milli=500)
    pod = a_pod("p", node="node-a", grant=Grant((use,), "fairlead"),
                annotations={"fairlead.dev/epoch": "3/fairlead-0"})  # fmt: skip
    answer = told(an_engine(), pod)
    assert answer["state"] == "bound"
    assert answer["gpus"] == [{"gpu": "GPU-a0", "part": "0.5"}]
    assert shown_as_text(answer) == (
        "default/p: the pod is bound to node node-a, 0.5 of GPU-a0 (advisory)\n"
        "placed by: fairlead-0\n"
    )


@pytest.mark.parametrize(
    ("grant", "isolation"),
    [
        (Grant((GpuUse("GPU-a", False, 500),), "fairlead"), "advisory"),
        (Grant((GpuUse("GPU-a", False, 500),), "fairlead", isolation=Isolation.MPS), "mps"),
        (Grant((GpuUse("GPU-a", False, 0, 0, "1g.18gb", 0, 1),), "fairlead"), "mig"),
        (Grant((GpuUse("GPU-a", False, 500),), "kai"), "advisory"),
        (Grant((GpuUse("GPU-a", False, 500),), "hami"), ""),
        (Grant((GpuUse("GPU-a"),)), ""),
    ],
)
def test_what_keeps_a_share_apart_is_said(grant: Grant, isolation: str) -> None:
    answer = told(an_engine(), a_pod("p", node="node-a", grant=grant))
    assert answer["isolation"] == isolation
    assert answer["message"].endswith(f" ({isolation})") == bool(isolation)


def test_a_demand_for_isolation_is_part_of_the_request() -> None:
    ask = GpuRequest(1, False, 250, dialect="fairlead", isolation=Isolation.MPS)
    assert asked(ask) == "0.25 of a GPU, isolation mps"


def test_a_pod_that_waits_for_a_better_place_says_so_and_where_it_would_go() -> None:
    engine = an_engine(a_node("node-a", gpus=1))
    said = ("WaitingForBetterPlace", "it fits now, and waits 60 s more at most for spot capacity")
    answer = told(engine, a_pod("patient", gpus=1, condition=said))
    assert answer["state"] == "held back"
    assert answer["message"] == f"{said[1]}; the pod fits now; it would go to node node-a"


@pytest.mark.parametrize(
    ("selector", "guarded"),
    [
        ("{d}.colour == 'red'", "'colour' in {d} && {d}.colour == 'red'"),
        (
            "{d}.colour == 'red' || {d}.size > 3",
            "'colour' in {d} && 'size' in {d} && ({d}.colour == 'red' || {d}.size > 3)",
        ),
        ("{d}.type < 5", None),
    ],
)
def test_a_selector_that_fails_on_a_missing_attribute_is_shown_with_a_guard(
    selector: str, guarded: str | None
) -> None:
    domain = "device.attributes['gpu.nvidia.com']"
    engine = an_engine(a_node("n1", gpus=0))
    need = DeviceNeed("gpu", (selector.format(d=domain),))
    objects = (
        GPU_CLASS,
        a_slice("n1", a_device("gpu-0", type="gpu")),
        a_claim(requests=(DeviceRequest("r", need),)),
    )
    for each in objects:
        engine.handle(ClaimObjectSeen(each), now=0.0)
    pod = a_claiming_pod("p", "c")
    see(engine, pod)

    found = told(engine, pod)

    assert found["state"] == "failed"
    if guarded is None:
        assert "selectors" not in found, "a guard does not help against an error of types"
        return
    assert [each["guarded"] for each in found["selectors"]] == [guarded.format(d=domain)]
    text = shown_as_text(found)
    assert (
        "selector #0 of claim default/c, request r reads what device gpu.nvidia.com/n1/gpu-0 "
        f"does not have; write instead:\n  {guarded.format(d=domain)}\n"
    ) in text
    assert "n1" not in json.dumps(told(engine, pod, TENANT)["selectors"])


def test_plain_gpus_that_a_class_serves_are_explained_by_their_devices() -> None:
    requests = {"nvidia.com/gpu": "2"}
    body = {
        "metadata": {"namespace": "default", "name": "p", "uid": "p"},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
    }
    pod = decode_pod(json.dumps(body).encode())
    engine = an_engine(a_node("plugin", gpus=1), a_node("dra", gpus=0))
    mapped = replace(GPU_CLASS, extended_resource="nvidia.com/gpu")
    for each in (mapped, a_slice("dra", "gpu-0")):
        engine.handle(ClaimObjectSeen(each), now=0.0)
    see(engine, pod)

    assert {each["node"]: each["detail"] for each in told(engine, pod)["nodes"]} == {
        "plugin": "requested 2 nvidia.com/gpu, 1 of 1 free",
        "dra": "request container-0-request-0: 2 of class gpu; devices there: 1 free",
    }
