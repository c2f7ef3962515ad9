"""A copy of the tree, with an environment of its own, in which all mutants are behind switches."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.mutant import ROOT, Gone, Mutant, line_of
from mutants.switching import switched

#: Python keeps what it has compiled, even if the user's environment says not to.
_COMPILED_ONCE = {"PYTHONDONTWRITEBYTECODE": ""}
_PACKAGES = Path(sysconfig.get_path("purelib"))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run of pytest ended: by itself, with what failed, or at its limit."""

    in_time: bool
    failed: list[str]
    output: str


class Copy:
    """What runs in it finds its own src, also the programs that tests start."""

    def __init__(self, folder: Path, mutants: Sequence[Mutant]) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in _names():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        _make_environment(folder)
        self.gone = {each.number: why for each in mutants if (why := _gone(each, folder))}
        there = [each for each in mutants if each.number not in self.gone]
        for name in {each.file for each in there}:
            file = folder / name
            here = [each for each in there if each.file == name]
            file.write_text(switched(here, file.read_text(encoding="utf-8")), encoding="utf-8")

    def pytest(self, arguments: Sequence[str], limit_s: float, **environment: str) -> Ended:
        """Runs it, not longer than the limit; no process of it stays."""
        failed = _scratch(self.folder, "failed", "")
        said = {**os.environ, **_COMPILED_ONCE, **environment, "FAILED": str(failed)}
        with subprocess.Popen(
            [*_command(self.folder), *arguments], cwd=self.folder, env=said, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:  # fmt: skip
            output, in_time = "", False
            with contextlib.suppress(subprocess.TimeoutExpired):
                output, in_time = process.communicate(timeout=limit_s)[0], True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return Ended(in_time, failed.read_text(encoding="utf-8").splitlines(), output)

    def picked(self, tests: Sequence[str]) -> str:
        """The value of PICKED for these tests."""
        return str(_scratch(self.folder, "picked", "\n".join(tests)))


class Forks:
    """A process of pytest that has collected the tests, and some forks of it that run them."""

    def __init__(self, copy: Copy, tests: Sequence[str], number: int) -> None:
        pipes = [(*os.pipe(), *os.pipe()) for _ in range(number)]
        theirs = [(tasks, answers) for tasks, _, _, answers in pipes]
        pairs = " ".join(f"{tasks},{answers}" for tasks, answers in theirs)
        said = {**os.environ, **_COMPILED_ONCE, "TASKS": pairs, "OPENBLAS_NUM_THREADS": "1"}
        files = sorted({name.partition("::")[0] for name in tests})
        self._process = subprocess.Popen(
            [*_command(copy.folder), *files], cwd=copy.folder, env=said,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=sum(theirs, ()),
        )  # fmt: skip
        for pipe in sum(theirs, ()):
            os.close(pipe)
        self.all = [Fork(tasks, answers) for _, tasks, answers, _ in pipes]

    def end(self) -> None:
        for fork in self.all:
            fork.end()
        self._process.wait()


class Fork:
    """Takes one task at a time; see `copied/mutant_tests.py`."""

    def __init__(self, tasks: int, answers: int) -> None:
        self._tasks, self._answers = os.fdopen(tasks, "w", 1), os.fdopen(answers)

    def run(self, mutant: int, tests: Sequence[str], limit_s: float) -> tuple[bool, str]:
        """Whether the time was enough, and the first test that failed."""
        task = {"mutant": mutant, "tests": tests, "limit_s": limit_s}
        self._tasks.write(json.dumps(task) + "\n")
        answer = json.loads(self._answers.readline())
        return answer["in_time"], answer["failed"]

    def end(self) -> None:
        self._tasks.close()
        self._answers.close()


def _command(folder: Path) -> list[str]:
    python = str(folder / ".venv" / "bin" / "python")
    return [python, "-m", "pytest", "-q", "-p", "mutant_tests", "-p", "no:cacheprovider",
            "-o", "timeout=180"]  # fmt: skip


def _scratch(folder: Path, name: str, content: str) -> Path:
    """A file of the thread's own: several run something in the same copy."""
    file = folder / "build" / f"{name}-{threading.get_ident()}"
    file.parent.mkdir(exist_ok=True)
    file.write_text(content, encoding="utf-8")
    return file


def _gone(mutant: Mutant, folder: Path) -> str:
    try:
        line_of(mutant, (folder / mutant.file).read_text(encoding="utf-8"))
    except (Gone, FileNotFoundError) as error:
        return str(error)
    return ""


def _names() -> list[str]:
    """What git has and does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def _make_environment(folder: Path) -> None:
    environment = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    packages = environment / _PACKAGES.relative_to(sys.prefix)
    paths = [folder / "src", folder / "tests" / "mutants" / "copied", _PACKAGES]
    (packages / "copy.pth").write_text("\n".join([*map(str, paths), "import mutant_switch"]))
    for program in (Path(sys.prefix) / "bin").iterdir():
        if program.is_file() and not (environment / "bin" / program.name).exists():
            _take(program, environment / "bin")


def _take(program: Path, folder: Path) -> None:
    """A program of the environment; a script runs with the Python of the copy."""
    content = program.read_bytes()
    shebang = f"#!{sys.prefix}/bin/python".encode()
    if not content.startswith(shebang):
        (folder / program.name).symlink_to(program)
        return
    rest = content.split(b"\n", 1)[1]
    (folder / program.name).write_bytes(f"#!{folder}/python\n".encode() + rest)
    (folder / program.name).chmod(0o755)
