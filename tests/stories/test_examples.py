"""The sessions in examples/ happen as they are told: each is typed in, and its output compared."""

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import definitions
from fairlead.apps.config import plugin_files
from fairlead.plugins.registry import Registry
from fairlead.sim.controlplane import ControlPlane
from fairlead.testing import check_plugin
from fairleads import eventually, fairlead
from sessions import ROOT, Terminal, commands, in_words_of, options

EXAMPLES = ROOT / "examples"


def gpus(count: int, **more: Any) -> dict[str, Any]:
    return {"allocatable": {"nvidia.com/gpu": str(count)} if count else {}, **more}


H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
KEPT = {"key": "dedicated", "value": "team-x", "effect": "NoSchedule"}
LARGE_AND_SMALL = {"gpu-a": gpus(8), "gpu-b": gpus(4)}

GPU = {"model": "NVIDIA A10", "memoryMib": 23028}
TWO_GPUS = [{"index": n, "uuid": f"GPU-a{n}", **GPU} for n in range(2)]
TWO_A10 = {"fairlead.dev/inventory": json.dumps({"version": 2, "gpus": TWO_GPUS})}


H200 = {"index": 0, "model": "NVIDIA H200", "memoryMib": 143771}
SLICES = [
    {"name": "1g.18gb", "size": 1, "starts": [0, 1, 2, 3, 4, 5, 6], "mib": 16384},
    {"name": "2g.35gb", "size": 2, "starts": [0, 2, 4], "mib": 33280},
    {"name": "3g.71gb", "size": 4, "starts": [0, 4], "mib": 71424},
]
SLICED = {"uuid": "GPU-a0", **H200, "mig": True, "slices": SLICES, "cut": "free", "slots": 8}
LIMITED = {"uuid": "GPU-b0", **H200, "mps": 48}
ISOLATING = {
    name: {"fairlead.dev/inventory": json.dumps({"version": 2, "gpus": [gpu]})}
    for name, gpu in (("gpu-a", SLICED), ("gpu-b", LIMITED))
}


def profiled(*percent: int) -> dict[str, str]:
    """As Alnair's profiler notes how busy GPUs are."""
    return {f"ai.centaurus.io/gpu-{n}": f"{{'max_gpu_util': {p}}}" for n, p in enumerate(percent)}


#: The nodes that each session was recorded on, by the folder that it starts in.
SESSIONS: Mapping[str, Mapping[str, dict[str, Any]]] = {
    ".": {
        "cpu-a": gpus(0),
        "gpu-a": gpus(8),
        "gpu-b": gpus(8),
        "gpu-c": gpus(4, taints=[KEPT]),
    },
    "examples/01-first-pod": LARGE_AND_SMALL,
    "examples/02-own-picker": LARGE_AND_SMALL,
    "examples/03-own-score": {"gpu-a": gpus(4), "gpu-b": gpus(8, labels=H100)},
    "examples/04-two-profiles": LARGE_AND_SMALL,
    "examples/05-from-kube-scheduler": LARGE_AND_SMALL,
    "examples/06-scheduling-map": {
        f"gpu-{letter}": gpus(4, labels={"gpu-node-name": f"node{number}"})
        for number, letter in enumerate("abcd", start=1)
    },
    "examples/07-parts-of-a-gpu": {"gpu-a": gpus(2, annotations=TWO_A10)},
    "examples/10-isolation": {
        name: gpus(0, annotations=listed) for name, listed in ISOLATING.items()
    },
    "examples/11-gang": {"gpu-a": gpus(4), "gpu-b": gpus(4)},
    "examples/12-prefill-and-decode": {
        name: gpus(4, labels={"example.com/rack": rack})
        for name, rack in (("gpu-a", "r1"), ("gpu-b", "r1"), ("gpu-c", "r2"))
    },
    "examples/13-queues": {"gpu-a": gpus(4), "gpu-b": gpus(4)},
    "examples/15-backfill": {"gpu-a": gpus(4), "gpu-b": gpus(4)},
    "examples/14-spot-training": {
        "gpu-a": gpus(8, labels={"karpenter.sh/capacity-type": "on-demand"}),
        "gpu-b": gpus(4, labels={"karpenter.sh/capacity-type": "spot"}),
    },
    "examples/16-licensed-solver": {"gpu-a": gpus(4)},
    "examples/09-by-utilisation": {
        "gpu-a": gpus(2, annotations=profiled(95, 90)),
        "gpu-b": gpus(2, annotations=profiled(5, 0)),
    },
    "examples/21-latency-classes": {"gpu-a": gpus(2, annotations=TWO_A10 | profiled(60, 0))},
}
#: Readings of GPUs that a session waits for.
READINGS = {
    "examples/09-by-utilisation": ("alnair", 4),
    "examples/21-latency-classes": ("alnair", 2),
}
#: Controllers of Kubernetes that a session needs.
CONTROLLERS = {
    f"examples/{name}": ("statefulset-controller",)
    for name in ("06-scheduling-map", "11-gang", "12-prefill-and-decode", "13-queues")
}
#: Sessions with a kind of ours. Their scheduler may read and write all of its objects.
KINDS = {"examples/13-queues": "queues", "examples/16-licensed-solver": "countedresources"}


def test_every_session_is_tried() -> None:
    pages = [page for page in EXAMPLES.glob("*/README.md") if "```console" in page.read_text()]
    folders = [str(page.parent.relative_to(ROOT)) for page in pages]
    assert sorted(folders) == sorted(set(SESSIONS) - {"."})


@pytest.fixture
def controllers(control_plane: ControlPlane, start: str) -> Iterator[None]:
    wanted = CONTROLLERS.get(start)
    with control_plane.start_controller_manager(wanted) if wanted else nullcontext():
        yield


@pytest.fixture
def access(control_plane: ControlPlane, start: str) -> Iterator[Path | None]:
    """The kubeconfig of the scheduler, where it is not the usual one."""
    if start not in KINDS:
        yield None
        return
    with definitions.installed(control_plane, definitions.ours(KINDS[start])):
        yield control_plane.kubeconfig_for()


@pytest.mark.usefixtures("assets", "controllers")
@pytest.mark.parametrize("start", SESSIONS)
def test_a_session_goes_as_it_is_told(
    start: str, control_plane: ControlPlane, create_nodes: Any, access: Path | None
) -> None:
    folder = ROOT / start
    for name, node in SESSIONS[start].items():
        create_nodes([name], **node)
    (run, _), *rest = commands(folder / "README.md")
    terminal = Terminal(control_plane, folder)
    try:
        with fairlead(control_plane, *options(run, folder), kubeconfig=access) as program:
            eventually(lambda: program.get("/readyz")[0] == 200)
            source, gpus = READINGS.get(start, ("", 0))
            read = "fairlead_telemetry_readings_total"
            eventually(lambda: program.metric(read, source=source) >= gpus)
            for command, shown in rest:
                told = in_words_of(control_plane, shown)
                assert terminal.type(command) == told, f"$ {command}"
    finally:
        terminal.type("kubectl delete statefulsets --all")
        terminal.type("kubectl delete pods --all --force --grace-period=0")


@pytest.mark.parametrize("reference", ["02-own-picker/picker.py:FewestPods",
                                       "03-own-score/score.py:WantedModel"])  # fmt: skip
def test_the_plugins_of_the_examples_keep_the_contract(reference: str) -> None:
    check_plugin(plugin_files.make(Registry(), reference, {}, EXAMPLES))
