"""Sessions as pages tell them: what is typed in at a terminal, and what is shown then."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fairlead.model.behaviour import behaviour_of
from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, PATIENCE_S

ROOT = Path(__file__).parents[2]


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """What is typed in, and what is shown then."""
    blocks = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
    for block in blocks.findall(page.read_text()):
        for typed in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = typed.partition("\n")
            yield command, shown


def options(run: str, folder: Path) -> list[str]:
    """Those of the `fairlead run` that a session begins with; files are found from its folder."""
    assert run.split()[:2] == ["fairlead", "run"]
    words = run.split()[2:]
    return [str(folder / word) if (folder / word).is_file() else word for word in words]


class Terminal:
    """A shell of a user who stands in a folder."""

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
        words = shlex.split(command)
        if words[:2] == ["kubectl", "wait"]:  # it waits for 30 s; a busy machine is slow
            words += [f"--timeout={PATIENCE_S:.0f}s"]
        done = subprocess.run(
            words,
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stderr}"
        return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def in_words_of(plane: ControlPlane, shown: str) -> str:
    """The sessions are told in the words of 1.36."""
    version = plane.api("GET", "/version")[1]
    if behaviour_of(int(version["major"]), int(version["minor"])).silent_about_claims:
        return shown.replace("no new claims to deallocate, ", "")
    return shown
