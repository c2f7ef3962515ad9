#!/usr/bin/env python3
"""Runs a make target as on a bare machine, and says how long each phase took.

    python3 scripts/cold.py            # make test, three times; the median of each phase
    python3 scripts/cold.py run -n 1   # make run until its first sight
    python3 scripts/cold.py fast

Bare is a fresh clone of the commit that is checked out, with an empty HOME and empty caches of
Python, Go and Fairlead, in a temporary folder that goes in the end. How this machine reaches
package registries stays as it is. The wall time includes what is downloaded, so the speed of the
download is measured beside it.
"""

import argparse
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Folders of a bare machine, by the variable that names them.
EMPTY = ("HOME", "FAIRLEAD_CACHE", "GOCACHE", "GOMODCACHE", "GOPATH", "PIP_CACHE_DIR",
         "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR")  # fmt: skip
#: What would bring along something that is there already.
NOT_BARE = ("KUBEBUILDER_ASSETS", "PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")
#: A line of scripts/suite, and one of scripts/venv.sh.
PHASE = re.compile(r"^phase (.+): ([\d.]+) min, CPU ([\d.]+) min, (.+)$")
SETUP = "setup: "
#: The line with which `make run` has its first sight to show.
FIRST_SIGHT = "fairlead up: "

#: Wall and CPU seconds, by phase.
Times = dict[str, tuple[float, float]]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", nargs="?", default="test")
    parser.add_argument("-n", dest="times", type=int, default=3, help="how many times (3)")
    options = parser.parse_args(arguments)
    runs, failed = [], False
    for number in range(1, options.times + 1):
        with bare() as (clone, env):
            print(f"cold: run {number} of {options.times}; {download(env)}", flush=True)
            status, times = run(options.target, clone, env)
        print(f"cold: make {options.target} ended with status {status}", flush=True)
        failed |= status != 0
        runs.append(times)
        _show(f"run {number}", times)
    _show(f"median of {len(runs)}", median(runs))
    return int(failed)


@contextmanager
def bare() -> Iterator[tuple[Path, dict[str, str]]]:
    """A fresh clone, and the environment of a machine that has nothing yet."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-cold-"))
    try:
        settings = registries()
        env = {name: value for name, value in os.environ.items() if name not in NOT_BARE}
        for name in EMPTY:
            (folder / name.lower()).mkdir()
            env[name] = str(folder / name.lower())
        clone = folder / "clone"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
        yield clone, env | settings
    finally:
        # Go writes its modules without the right to remove them.
        subprocess.run(["chmod", "-R", "u+w", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def registries() -> dict[str, str]:
    """What pip and Go are told in files of HOME, as variables; an empty HOME has no such files."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    found = re.findall(r"^(?:global|install)\.([\w-]+)='(.*)'$", listed.stdout, re.MULTILINE)
    settings = {f"PIP_{key.upper().replace('-', '_')}": value for key, value in found}
    if go := shutil.which("go"):
        names = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOFLAGS", "GOTOOLCHAIN")
        said = subprocess.run([go, "env", *names], capture_output=True, text=True, check=True)
        settings |= dict(zip(names, said.stdout.splitlines(), strict=True))
    settings.pop("PIP_CACHE_DIR", None)
    return settings


def download(env: Mapping[str, str]) -> str:
    """How fast this machine downloads just now, by one wheel of known size."""
    wheel = _locked("numpy")
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-cache-dir",
        ]
        done = subprocess.run([*command, wheel, "-d", folder], env=env, check=False)
        took_s = time.monotonic() - began
        size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    if done.returncode:
        return f"{wheel} cannot be downloaded"
    return f"{wheel}, {size:.1f} MB, came in {took_s:.1f} s"


def _locked(name: str) -> str:
    """The version of a package that the lock has for this Python."""
    python = sys.version_info < (3, 12)
    for line in (ROOT / "requirements-run.lock").read_text().splitlines():
        if line.startswith(f"{name}==") and ("< '3.12'" in line) == python:
            return line.split()[0]
    raise SystemExit(f"cold: requirements-run.lock has no {name}")


def run(target: str, clone: Path, env: Mapping[str, str]) -> tuple[int, Times]:
    """`make target`, shown line by line with its seconds; `run` ends at its first sight."""
    began, before = time.monotonic(), _cpu_s()
    times: Times = {}
    seen = False
    with subprocess.Popen(
        ["make", target], cwd=clone, env=dict(env), text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            wall_s = time.monotonic() - began
            print(f"{wall_s:7.1f} s  {line}", end="", flush=True)
            if line.startswith(SETUP):
                times["setup"] = wall_s, 0.0
            elif found := PHASE.match(line):
                times[found[1]] = float(found[2]) * 60, float(found[3]) * 60
            elif target == "run" and line.startswith(FIRST_SIGHT):
                times["first sight"], seen = (wall_s, 0.0), True
                os.killpg(process.pid, signal.SIGINT)
    status = process.returncode
    if target == "run":
        times["megabytes in .venv"] = _megabytes(clone / ".venv"), 0.0
    times["all"] = time.monotonic() - began, _cpu_s() - before
    return (0 if seen else status), times


def median(runs: Sequence[Times]) -> Times:
    """By phase, of the runs that had it."""
    names = dict.fromkeys(name for times in runs for name in times)
    return {
        name: (
            statistics.median(times[name][0] for times in runs if name in times),
            statistics.median(times[name][1] for times in runs if name in times),
        )
        for name in names
    }


def _show(title: str, times: Times) -> None:
    for name, (wall, cpu_s) in times.items():
        unit = "" if name.startswith("megabytes") else " s"
        cpu = f", CPU {cpu_s:.0f} s" if cpu_s else ""
        print(f"cold: {title}: {name}: {wall:.0f}{unit}{cpu}", flush=True)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _megabytes(folder: Path) -> float:
    return sum(path.lstat().st_blocks for path in folder.rglob("*")) * 512 / 1e6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
