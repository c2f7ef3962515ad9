"""The sessions in examples/ happen as they are told: each is typed in, and its output compared."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from contract import check_plugin
from fairlead.apps import plugin_files
from fairlead.model.behaviour import behaviour_of
from fairlead.plugins.registry import Registry
from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, eventually, fairlead

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def gpus(count: int, **more: Any) -> dict[str, Any]:
    return {"allocatable": {"nvidia.com/gpu": str(count)} if count else {}, **more}


H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
KEPT = {"key": "dedicated", "value": "team-x", "effect": "NoSchedule"}
LARGE_AND_SMALL = {"gpu-a": gpus(8), "gpu-b": gpus(4)}

CARD = {"model": "NVIDIA A10", "memoryMib": 23028}
TWO_CARDS = [{"index": n, "uuid": f"GPU-a{n}", **CARD} for n in range(2)]
TWO_A10 = {"fairlead.dev/inventory": json.dumps({"version": 1, "cards": TWO_CARDS})}

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
}
#: Controllers of Kubernetes that a session needs.
CONTROLLERS = {"examples/06-scheduling-map": ("statefulset-controller",)}


def commands(readme: Path) -> Iterator[tuple[str, str]]:
    """What is typed in, and what is shown then."""
    blocks = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
    for block in blocks.findall(readme.read_text()):
        for typed in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = typed.partition("\n")
            yield command, shown


class Terminal:
    """A shell of a user who stands in the folder of an example."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._folder = folder
        programs = [str(Path(plane.program("kubectl")).parent), str(FAIRLEAD.parent)]
        self._env = {
            **os.environ,
            "KUBECONFIG": str(plane.kubeconfig_for()),
            "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
            "COLUMNS": "300",
        }

    def type(self, command: str) -> str:
        done = subprocess.run(
            shlex.split(command),
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stderr}"
        return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def test_every_session_is_tried() -> None:
    folders = [str(page.parent.relative_to(ROOT)) for page in EXAMPLES.glob("*/README.md")]
    assert sorted(folders) == sorted(set(SESSIONS) - {"."})


def _in_words_of(plane: ControlPlane, shown: str) -> str:
    """The sessions are told in the words of 1.36."""
    version = plane.api("GET", "/version")[1]
    if behaviour_of(int(version["major"]), int(version["minor"])).silent_about_claims:
        return shown.replace("no new claims to deallocate, ", "")
    return shown


def controllers(plane: ControlPlane, start: str) -> AbstractContextManager[Any]:
    wanted = CONTROLLERS.get(start)
    return plane.start_controller_manager(wanted) if wanted else nullcontext()


@pytest.mark.parametrize("start", SESSIONS)
def test_a_session_goes_as_it_is_told(
    start: str, control_plane: ControlPlane, create_nodes: Any
) -> None:
    folder = ROOT / start
    for name, options in SESSIONS[start].items():
        create_nodes([name], **options)
    (run, _), *rest = commands(folder / "README.md")
    assert run.split()[:2] == ["fairlead", "run"]
    options = [str(folder / word) if (folder / word).is_file() else word for word in run.split()]
    terminal = Terminal(control_plane, folder)
    try:
        with controllers(control_plane, start), fairlead(control_plane, *options[2:]) as program:
            eventually(lambda: program.get("/readyz")[0] == 200)
            for command, shown in rest:
                told = _in_words_of(control_plane, shown)
                assert terminal.type(command) == told, f"$ {command}"
    finally:
        terminal.type("kubectl delete statefulsets --all")
        terminal.type("kubectl delete pods --all --force --grace-period=0")


@pytest.mark.parametrize("reference", ["02-own-picker/picker.py:FewestPods",
                                       "03-own-score/score.py:WantedModel"])  # fmt: skip
def test_the_plugins_of_the_examples_keep_the_contract(reference: str) -> None:
    check_plugin(plugin_files.make(Registry(), reference, {}, EXAMPLES))
