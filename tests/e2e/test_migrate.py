"""The sessions in docs/migrate happen as they are told, with the very manifests that they quote."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from device_plugins import Alnair, Cluster, Hami, Kubelet, Plugin
from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually, fairlead
from sessions import ROOT, Terminal, commands, in_words_of, options
from webhooks import environment, pod

Json = dict[str, Any]

PAGES = ROOT / "docs" / "migrate"
CONTROLLERS = (
    "statefulset-controller", "replicaset-controller", "deployment-controller",
)  # fmt: skip
#: Tried in tests/stories/test_gang_dialects.py and tests/peers, with the kinds that they need.
WITH_CONTROLLERS = {"kai", "scheduler-plugins", "volcano"}
INJECTING = "kubectl apply -f deploy/inject-policy.yaml"


class OtherAlnair(Alnair):
    uuids = ("GPU-dddd", "GPU-cccc")


def gpus(count: int, **more: Any) -> Json:
    return {"allocatable": {"nvidia.com/gpu": str(count)}, **more}


def model(name: str, **labels: str) -> Json:
    return {"labels": {"nvidia.com/gpu.product": name, **labels}}


def alnair(plugin: type[Alnair]) -> Json:
    return {
        "annotations": {
            "ai.centaurus.io/physical-gpu-count": "2",
            "ai.centaurus.io/physical-gpu-uuids": ",".join(plugin.uuids),
            "ai.centaurus.io/vitual-gpu-count": "16,16",
        },
        "allocatable": {"alnair/vgpu-memory": "32", "alnair/vgpu-compute": "200"},
    }


def profiled(count: int, name: str, gib: int) -> Json:
    """What the profiler of Alnair writes on a node, in the letters of its Python."""
    static = {"count": str(count), "model": name, "mem_size": f"{gib}GB", "pcie_gen_width": "1x16"}
    gpu = {"mem_used": "1GB", "mem_free": f"{gib - 1}GB", "process_cnt": 0, "pid-mem": []}
    gpus = {f"ai.centaurus.io/gpu-{number}": str(gpu) for number in range(count)}
    return {"annotations": {"ai.centaurus.io/gpu-static": str(static), **gpus}}


HAMI = (
    '[{"id":"GPU-1111","index":0,"count":10,"devmem":16384,"devcore":100,"type":"NVIDIA-V100",'
    '"mode":"hami-core","health":true}]'
)
#: The nodes that each session was recorded on, by its page.
NODES: Mapping[str, Mapping[str, Json]] = {
    "toyscheduler": {"gpu-a": gpus(8), "gpu-b": gpus(4)},
    "alnair-vgpu": {
        "alnair-a": alnair(Alnair),
        "alnair-b": alnair(OtherAlnair),
        "hami-a": gpus(10, annotations={"hami.io/node-nvidia-register": HAMI}),
    },
    "custom-scheduler": {
        "a10": gpus(8, **model("NVIDIA-A10", **{"gpu.node": "true"})),
        "cpu": {},
        "h100": gpus(
            8, **model("NVIDIA-H100-80GB-HBM3", **{"gpu.node": "true", "gpu.nvlink": "true"})
        ),
    },
    "utilsched": {
        "k80": gpus(4, **model("Tesla-K80"), **profiled(4, "Tesla K80", 12)),
        "v100-a": gpus(4, **model("Tesla-V100-SXM2-16GB"), **profiled(4, "V100", 16)),
        "v100-b": gpus(4, **model("Tesla-V100-SXM2-16GB")),
    },
    "gpu-scheduling-map": {
        f"gpu-{letter}": gpus(4, labels={"gpu-node-name": f"node{number}"})
        for number, letter in enumerate("abcd", start=1)
    },
}
PLUGINS: Mapping[str, Callable[[Cluster], Plugin]] = {
    "alnair-a": Alnair,
    "alnair-b": OtherAlnair,
    "hami-a": Hami,
}
#: Annotations of which a session shows no value, since it is another one each time.
TOLD = {
    "trainer": {"ai.centaurus.io/scheduler-timestamp": r"\d{19}"},
    "server-after": {"hami.io/vgpu-node": "hami-a", "hami.io/bind-time": r"\d{10}"},
}


@contextmanager
def admitting(plane: ControlPlane, node: str) -> Iterator[None]:
    """A kubelet and its device plugin at work; what goes wrong there is raised at the end."""
    cluster = Cluster(plane, "default", node)
    kubelet = Kubelet(cluster, PLUGINS[node](cluster))
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.1):
            kubelet.admit()

    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(work)
        try:
            yield
        finally:
            over.set()
    working.result()


@contextmanager
def machines(plane: ControlPlane, system: str) -> Iterator[None]:
    """The controllers, and kubelets: with device plugins where the session needs them."""
    with ExitStack() as stack:
        stack.enter_context(plane.start_controller_manager(CONTROLLERS))
        if "alnair-a" in NODES[system]:
            for node in NODES[system]:
                stack.enter_context(admitting(plane, node))
        else:
            stack.enter_context(plane.start_kwok())
        yield


def injecting(plane: ControlPlane) -> bool:
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    status, answer = plane.api("POST", path, pod("probe"))
    return status == 201 and environment(answer) != [[]]


def told(plane: ControlPlane) -> None:
    _, found = plane.api("GET", "/api/v1/namespaces/default/pods")
    for each in found["items"]:
        said = each["metadata"].get("annotations", {})
        for key, pattern in TOLD.get(each["metadata"]["name"], {}).items():
            assert re.fullmatch(pattern, said.get(key, "")), (each["metadata"]["name"], key, said)


def test_every_page_is_tried() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")} - {"README"}
    assert pages == {*NODES, *WITH_CONTROLLERS}


@pytest.mark.usefixtures("kwok_program")
@pytest.mark.parametrize("system", NODES)
def test_a_page_tells_what_happens(
    system: str, control_plane: ControlPlane, create_nodes: Any
) -> None:
    for name, node in NODES[system].items():
        create_nodes([name], **node)
    (run, _), *rest = commands(PAGES / f"{system}.md")
    terminal = Terminal(control_plane, ROOT)
    started = fairlead(
        control_plane, *options(run, ROOT), kubeconfig=control_plane.kubeconfig_for()
    )
    try:
        with machines(control_plane, system), started as program:
            eventually(lambda: program.get("/readyz")[0] == 200)
            for command, shown in rest:
                expected = in_words_of(control_plane, shown)
                assert terminal.type(command) == expected, f"$ {command}"
                if command == INJECTING:
                    eventually(lambda: injecting(control_plane))
            told(control_plane)
    finally:
        terminal.type("kubectl delete --ignore-not-found -f deploy/inject-policy.yaml")
        terminal.type("kubectl delete statefulsets,deployments --all --cascade=background")
        terminal.type("kubectl delete replicasets,pods --all --force --grace-period=0")
