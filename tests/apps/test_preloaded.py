"""A program that starts by a fork is what its users start: arguments, environment, end."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryDirectory

import pytest

import preloaded
from fairleads import eventually
from preloaded import FAIRLEAD, Program, run

pytestmark = pytest.mark.program


@pytest.mark.parametrize(
    "words",
    [("--version",), ("run", "--no-such-option"), ("check-config", "absent.yaml"), ("queue",)],
    ids=" ".join,
)
def test_it_ends_as_the_file_in_bin_ends(words: tuple[str, ...], tmp_path: Path) -> None:
    command = [str(FAIRLEAD), *words]
    access = {"KUBECONFIG": str(tmp_path / "absent")}
    as_users = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=access
    )
    done = run(command, cwd=tmp_path, env=access)
    assert (done.returncode, done.stdout) == (as_users.returncode, as_users.stdout)
    assert done.stderr == as_users.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number: signal.Signals, tmp_path: Path) -> None:
    """It waits for somebody who writes that file."""
    os.mkfifo(tmp_path / "access")
    command = [str(FAIRLEAD), "queue", "--kubeconfig", str(tmp_path / "access")]
    with (tmp_path / "log").open("wb") as out:
        program = Program(command, stdout=out, stderr=out)
    assert program.poll() is None
    program.send_signal(number)
    assert program.wait(180) in (-number, 128 + number)
    assert program.poll() == program.wait() != 0


TESTS = str(Path(preloaded.__file__).parent)
STARTS_AND_WAITS = """
import sys
from preloaded import FAIRLEAD, Program
command = [str(FAIRLEAD), "queue", "--kubeconfig", sys.argv[1]]
print(Program(command, stdout=sys.stderr, stderr=sys.stderr).pid, flush=True)
sys.stdin.read()
"""


def test_it_does_not_outlive_the_tests(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "access")
    command = [sys.executable, "-c", STARTS_AND_WAITS, str(tmp_path / "access")]
    with (
        TemporaryDirectory() as left,
        subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": TESTS, "TMPDIR": left},
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
        ) as tests,
    ):  # fmt: skip
        assert tests.stdout
        pid = int(tests.stdout.readline())
        assert not gone(pid)
        tests.kill()
        eventually(lambda: gone(pid), what="the program has ended")


def gone(pid: int) -> bool:
    """Also of one whose exit status nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_its_failures_are_raised() -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run([str(FAIRLEAD), "no-such-command"], check=True)
    assert "No such command 'no-such-command'" in failed.value.stderr
