"""A real kube-scheduler places GPU pods on a real API server, and asks Fairlead about GPUs."""

import json
import shutil
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from device_plugins import Cluster, Hami, Kubelet
from extenders import SCHEDULER, Asking, advised, complaints, extender, inventory, kube_scheduler
from fairlead.sim.controlplane import ControlPlane, served
from fairlead.sim.controlplane.certificates import Authority, KeyPair
from fairlead.sim.controlplane.client import trusting
from fairlead.sim.controlplane.commands import free_port
from fairleads import Pods, eventually
from yaml_texts import yaml_of

pytestmark = pytest.mark.server

SHARE, GPUS = "fairlead.dev/gpu-share", "fairlead.dev/gpus"
HAMI = json.dumps([
    {"id": f"GPU-h{n}", "index": n, "count": 10, "devmem": 16000, "devcore": 100,
     "type": "NVIDIA-V100", "numa": 0, "mode": "hami-core", "health": True}
    for n in range(2)
])  # fmt: skip


@pytest.fixture
def priorities(control_plane: ControlPlane) -> Iterator[None]:
    values = {"ext-low": 1, "ext-middle": 2, "ext-high": 3}
    with served.priority_classes(control_plane, values):
        yield


def ask(pods: Pods, name: str, limits: dict[str, int] | None = None, **more: Any) -> None:
    texts = {key: str(value) for key, value in (limits or {}).items()}
    pods.create(name, scheduler=SCHEDULER, container={"resources": {"limits": texts}}, **more)


def share(pods: Pods, name: str, of_a_gpu: str, **more: Any) -> None:
    ask(pods, name, metadata={"annotations": {SHARE: of_a_gpu}}, **more)


def gpus_of(pods: Pods, *names: str) -> list[str]:
    return [pods.get(name)["metadata"]["annotations"][GPUS] for name in names]


@pytest.mark.parametrize("cached", [True, False], ids=["names", "nodes in full"])
def test_whole_gpus_are_each_given_once(
    cached: bool, control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    for node in ("w1", "w2"):
        create_nodes([node], annotations=inventory(node, 4), allocatable={"nvidia.com/gpu": "4"})
    create_nodes(["w3"])
    everybody = [f"p{n}" for n in range(4)]
    with advised(control_plane, nodeCacheCapable=cached):
        for name in everybody:
            ask(pods, name, {"nvidia.com/gpu": 2})
        pods.wait_bound(*everybody)
        given = ",".join(gpus_of(pods, *everybody)).split(",")
        assert sorted(given) == [f"GPU-{node}-{n}" for node in ("w1", "w2") for n in range(4)]
        assert complaints(control_plane) == []


def test_shares_fill_every_gpu_and_none_is_sold_twice(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    """kube-scheduler counts no shares, so all of them might go to the same GPU at once."""
    for node in ("s1", "s2"):
        create_nodes([node], annotations=inventory(node, 3))
    everybody = [f"p{n}" for n in range(12)]
    with advised(control_plane, managedResources=None):
        for name in everybody:
            share(pods, name, "0.5")
        pods.wait_bound(*everybody)
        assert set(Counter(gpus_of(pods, *everybody)).values()) == {2}
        assert complaints(control_plane) == []

        share(pods, "late", "0.5")
        said = "0/2 nodes are available: 2 node(s) had no GPU with a large enough free share."
        assert pods.wait_refused("late")["message"].startswith(said)
        event, *_ = eventually(lambda: pods.events("late", "FailedScheduling"))
        assert event["note"].startswith(said)
        assert event["reportingController"] == SCHEDULER

        pods.delete("p3")
        pods.wait_bound("late")
        assert complaints(control_plane) == []


def test_a_crash_in_the_middle_loses_nothing_and_sells_nothing_twice(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    for node in ("c1", "c2"):
        create_nodes([node], annotations=inventory(node, 3))
    everybody = [f"p{n}" for n in range(12)]
    port = str(free_port())
    with kube_scheduler(control_plane, f"http://127.0.0.1:{port}", managedResources=None):
        with extender(control_plane, "--port", port, ends_with=-9, loads=True) as process:
            for name in everybody:
                share(pods, name, "0.5")
            eventually(lambda: any(pods.nodes().values()), what="the first is bound")
            process.process.kill()
        with extender(control_plane, "--port", port):
            pods.wait_bound(*everybody)
            assert set(Counter(gpus_of(pods, *everybody)).values()) == {2}
            assert complaints(control_plane) == []


def test_parts_in_the_words_of_hami_reach_its_device_plugin(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    annotations = {"hami.io/node-nvidia-register": HAMI}
    create_nodes(["h1"], annotations=annotations, allocatable={"nvidia.com/gpu": "20"})
    here = Cluster(control_plane, pods.namespace, "h1")
    machine = Kubelet(here, Hami(here))
    everybody = [f"p{n}" for n in range(4)]
    # HAMi's lock is an annotation of the node, which kube-scheduler may not write.
    admin = ("--kubeconfig", str(control_plane.kubeconfig_for()))
    with advised(control_plane, *admin):
        for name in everybody:
            ask(pods, name, {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 6000})
        eventually(lambda: len(machine.admit()) == 4, what="four parts admitted")
        assert machine.used() == {"GPU-h0": 12000, "GPU-h1": 12000}
        ask(pods, "late", {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 6000})
        said = "1 node(s) had no GPU with enough free memory"
        assert said in pods.wait_refused("late")["message"]


def test_who_makes_room_is_who_has_the_right_gpu(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods, priorities: None
) -> None:
    """kube-scheduler counts GPUs, and would send away the least important pod, whatever it has."""
    gpus = [
        {"uuid": "GPU-m0", "index": 0, "model": "H100", "memoryMib": 80_000},
        {"uuid": "GPU-m1", "index": 1, "model": "A100", "memoryMib": 80_000},
    ]
    told = {"fairlead.dev/inventory": json.dumps({"version": 2, "gpus": gpus})}
    create_nodes(["m"], annotations=told, allocatable={"nvidia.com/gpu": "2"})

    def one_gpu(name: str, priority: str, model: str) -> None:
        spec = {"priorityClassName": priority, "terminationGracePeriodSeconds": 0}
        wants = {"annotations": {"fairlead.dev/gpu-model": model}}
        ask(pods, name, {"nvidia.com/gpu": 1}, metadata=wants, **spec)

    with advised(control_plane) as process:
        one_gpu("has-h100", "ext-middle", "H100")
        one_gpu("has-a100", "ext-low", "A100")
        pods.wait_bound("has-h100", "has-a100")
        one_gpu("urgent", "ext-high", "H100")
        assert pods.wait_bound("urgent") == {"urgent": "m"}
        assert gpus_of(pods, "urgent", "has-a100") == ["GPU-m0", "GPU-m1"]
        assert pods.get("has-h100") == {}
        assert process.metric("fairlead_extender_answers_total", verb="preempt") >= 1


def test_pods_without_gpus_are_bound_while_the_extender_is_away(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    create_nodes(["i"], annotations=inventory("i", 1), allocatable={"nvidia.com/gpu": "1"})
    nobody = "http://127.0.0.1:1"
    with kube_scheduler(control_plane, nobody, ignorable=True, managedResources=None):
        ask(pods, "ignores-it")
        pods.wait_bound("ignores-it")
    with kube_scheduler(control_plane, nobody):
        ask(pods, "needs-gpus", {"nvidia.com/gpu": 1})
        ask(pods, "asks-nobody")
        pods.wait_bound("asks-nobody")
        eventually(lambda: pods.events("needs-gpus", "FailedScheduling"))
        assert pods.node("needs-gpus") == ""
    with advised(control_plane):
        pods.wait_bound("needs-gpus")
        assert gpus_of(pods, "needs-gpus") == ["GPU-i-0"]


def test_pods_without_gpus_are_bound_as_they_are(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    """Without managedResources all binds are ours to write."""
    create_nodes(["j"], annotations=inventory("j", 1))
    with advised(control_plane, managedResources=None):
        ask(pods, "plain")
        pods.wait_bound("plain")
        assert "annotations" not in pods.get("plain")["metadata"]
        told = eventually(lambda: pods.events("plain"))  # written after the bind
        assert [e["reportingController"] for e in told] == [SCHEDULER]


def test_tls_and_who_may_ask(
    control_plane: ControlPlane,
    create_nodes: Callable[..., Any],
    pods: Pods,
    tmp_path: Path,
) -> None:
    create_nodes(["t"], annotations=inventory("t", 1), allocatable={"nvidia.com/gpu": "1"})
    authority = Authority(tmp_path / "ca")
    serving, client = authority.server("extender"), authority.client("kube-scheduler")
    show(serving, tmp_path)
    secured = (
        "--cert-dir", str(tmp_path), "--client-ca", str(authority.certificate),
        "--client-name", "kube-scheduler",
    )  # fmt: skip
    with extender(control_plane, *secured, ready=False) as process:
        trusted = Asking(process.url, trusting(authority.certificate, client))
        other = Asking(process.url, trusting(authority.certificate))
        eventually(lambda: other.get("/readyz")[0] == 200)
        refused = 403, "a client certificate from a CA in --client-ca is required\n"
        assert other.post("filter", b"{}") == refused
        kubelet = Asking(process.url, trusting(authority.certificate, authority.client("kubelet")))
        assert kubelet.post("filter", b"{}")[0] == 403
        assert trusted.post("filter", b"{}")[0] == 400
        tls = {
            "caFile": str(authority.certificate), "certFile": str(client.certificate),
            "keyFile": str(client.key),
        }  # fmt: skip
        with kube_scheduler(control_plane, process.url, enableHTTPS=True, tlsConfig=tls):
            ask(pods, "p", {"nvidia.com/gpu": 1})
            pods.wait_bound("p")
            assert gpus_of(pods, "p") == ["GPU-t-0"]
        renewed = authority.server("renewed")
        show(renewed, tmp_path)
        there = "127.0.0.1", int(process.url.rpartition(":")[2])
        wanted = renewed.certificate.read_text().strip()
        eventually(lambda: ssl.get_server_certificate(there).strip() == wanted)
        assert trusted.post("filter", b"{}")[0] == 400


def show(pair: KeyPair, folder: Path) -> None:
    shutil.copy(pair.certificate, folder / "tls.crt")
    shutil.copy(pair.key, folder / "tls.key")


# -- asked by hand -------------------------------------------------------------------------------


def test_a_bind_that_fails_gives_the_gpus_back_and_one_that_works_keeps_them(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    create_nodes(["b"], annotations=inventory("b", 1))
    with extender(control_plane) as process:
        asking = Asking(process.url)
        share(pods, "gated", "0.6", schedulingGates=[{"name": "example.com/wait"}])
        error = asking.bind(pods.get("gated"), "b")["Error"]
        assert "schedulingGates" in error
        share(pods, "one", "0.6")
        share(pods, "two", "0.6")
        both = [pods.get(name) for name in ("one", "two")]
        with ThreadPoolExecutor(2) as threads:
            answers = [a["Error"] for a in threads.map(lambda pod: asking.bind(pod, "b"), both)]
        assert sorted(map(bool, answers)) == [False, True]
        assert "node(s) had no GPU with a large enough free share" in max(answers)
        bound = next(pod for pod, error in zip(both, answers, strict=True) if not error)
        assert asking.bind(bound, "b") == {"Error": ""}, "the answer may have been lost"
        assert "is on b" in asking.bind(bound, "elsewhere")["Error"]
        assert complaints(control_plane) == []


def test_questions_that_make_no_sense(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    create_nodes(["q"], annotations=inventory("q", 1))
    share(pods, "p", "0.5")
    share(pods, "odd", "a lot")
    with extender(control_plane) as process:
        asking = Asking(process.url)
        names = {"NodeNames": ["q", "unknown"]}
        answer = asking.ask("filter", {"Pod": pods.get("p"), **names})
        assert answer["NodeNames"] == ["q"]
        assert answer["FailedAndUnresolvableNodes"] == {
            "unknown": "node(s) were not known to Fairlead yet"
        }
        answer = asking.ask("filter", {"Pod": pods.get("odd"), **names})
        assert answer["NodeNames"] == []
        assert "the pod is invalid" in answer["FailedAndUnresolvableNodes"]["q"]
        for verb in ("filter", "prioritize", "preempt", "bind"):
            for body in (b"", b"[]", b"{", b"null", b'{"Pod": 3}', b"{}"):
                status, said = asking.post(verb, body)
                assert (status, said.count("\n")) == (400, 1), (verb, body, said)
        huge = {**pods.get("p"), "spec": {"containers": [{"name": "c"}] * 30_000}}
        question = json.dumps({"Pod": huge, **names}).encode()
        status, said = asking.post("filter", question)
        assert (status, "Fairlead reads pods of up to 20000" in said) == (400, True)
        assert asking.post("bind", b" " * 20_000)[0] == 413
        status, said = asking.post("bind", b'{"PodName": "p"}')
        assert said.startswith("PodNamespace, PodUID, Node must not be empty")
        gone = {"PodName": "x", "PodNamespace": pods.namespace, "PodUID": "u", "Node": "q"}
        assert "not found" in asking.ask("bind", gone)["Error"]
        other = {**gone, "PodName": "p"}
        assert "is a different pod now" in asking.ask("bind", other)["Error"]


def test_before_it_knows_the_cluster_it_asks_for_patience(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    config = yaml_of(control_plane.kubeconfig_for())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(yaml.safe_dump(config))
    with extender(control_plane, "--kubeconfig", str(elsewhere), ready=False) as process:
        status, said = Asking(process.url).post("filter", b"{}")
        assert status == 503
        assert said.startswith("Fairlead cannot answer yet: not synced yet: nodes, pods")


def test_of_two_only_one_answers(control_plane: ControlPlane, namespace: str) -> None:
    """Each has a book of GPUs of its own, and what one gives away the other learns too late."""
    elects = ("--leader-elect", "--leader-elect-resource-namespace", namespace)
    admin = ("--kubeconfig", str(control_plane.kubeconfig_for()))
    with (
        extender(control_plane, *elects, *admin) as leader,
        extender(control_plane, *elects, *admin, ready=False) as standby,
    ):
        eventually(lambda: "standby: " in standby.get("/readyz")[1])
        assert leader.get("/readyz") == (200, "ok")
        assert Asking(leader.url).post("filter", b"{}")[0] == 400
        status, said = Asking(standby.url).post("filter", b"{}")
        assert (status, said[:36]) == (503, "Fairlead cannot answer yet: standby:")
