#!/usr/bin/env python3
"""Runs `make test` again and again, to find tests that do not say the same each time.

    python scripts/repeat.py               # five runs beside busy cores, three in shuffled order
    python scripts/repeat.py --busy 1 --shuffled 0

Each result is written at once to build/repeat.jsonl, with the commit and the tests that failed.
Runs of this commit that are there already are not run again, so it can be stopped at any time. A
test that failed once is named with its number of runs, also if it passed later.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "repeat.jsonl"
#: Work without an end, in a process that ends with its parent.
_BUSY = """
import ctypes, signal, os
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
while os.getppid() == {parent}: sum(range(100_000))
"""
_FAILED = re.compile(r"^(?:\w+: )?(?:FAILED|ERROR) (tests/.+?)(?: - .*| \(\w+\))?$", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    commit = _commit()
    for kind, wanted in (("busy", options.busy), ("shuffled", options.shuffled)):
        for number in range(wanted):
            if not any(_is(run, commit, kind, number) for run in _results()):
                _keep({"commit": commit, "kind": kind, "number": number, **_run(kind, number)})
    return _summary([run for run in _results() if run["commit"] == commit])


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=5, help="runs beside busy cores")
    parser.add_argument("--shuffled", type=int, default=3, help="runs in shuffled order")
    return parser.parse_args(arguments)


def _run(kind: str, number: int) -> dict[str, Any]:
    began = time.monotonic()
    log = RESULTS.with_name(f"repeat-{kind}-{number}.log")
    log.parent.mkdir(exist_ok=True)
    print(f"{kind} run {number}: the log is {log}", flush=True)
    env = {**os.environ, **({"FAIRLEAD_SHUFFLE": str(number + 1)} if kind == "shuffled" else {})}
    with log.open("wb") as out, _busy_cores(kind == "busy"):
        ended = subprocess.run(
            ["make", "test"], cwd=ROOT, env=env, stdout=out, stderr=out, check=False
        )
    failed = sorted(set(_FAILED.findall(log.read_text(errors="replace"))))
    minutes = round((time.monotonic() - began) / 60, 1)
    print(f"{kind} run {number}: status {ended.returncode}, {minutes} min, {len(failed)} failed")
    return {"status": ended.returncode, "minutes": minutes, "failed": failed}


@contextmanager
def _busy_cores(wanted: bool) -> Iterator[None]:
    program = _BUSY.format(parent=os.getpid())
    cores = os.cpu_count() or 2
    busy = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(cores * wanted)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    return subprocess.run(
        asked, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def _results() -> list[dict[str, Any]]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [json.loads(line) for line in lines]


def _keep(run: dict[str, Any]) -> None:
    with RESULTS.open("a") as file:
        file.write(json.dumps(run) + "\n")


def _is(run: dict[str, Any], commit: str, kind: str, number: int) -> bool:
    return (run["commit"], run["kind"], run["number"]) == (commit, kind, number)


def _summary(runs: list[dict[str, Any]]) -> int:
    for run in runs:
        print(f"{run['kind']} {run['number']}: status {run['status']}, {run['minutes']} min")
    for test, count in Counter(test for run in runs for test in run["failed"]).most_common():
        print(f"failed in {count} of {len(runs)} runs: {test}")
    return int(any(run["status"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
