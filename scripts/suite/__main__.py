"""Runs the tests: `make test`, `make fast`, `make test-all`, and what CI runs.

    python -m scripts.suite test -k queue     # arguments go to pytest
    python -m scripts.suite all oracle        # one part of make test-all, or all of them
    python -m scripts.suite ci 600         # after 600 s of make test

Prints a line every five seconds, and in the end the minutes and CPU of each phase.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.suite import parts
from scripts.suite.phases import NOTHING, Phase, Result, leaving_nothing

#: Of CI, in all; a part that would end later is left out.
CI_MINUTES = 70.0
#: What a part is taken to need that was never recorded: CI does not try it near its end.
UNKNOWN_MINUTES = 60.0
#: How long phases and parts took when they were last recorded: two cores, beside other work.
TIMES = Path(__file__).with_name("minutes.json")
#: Where pytest keeps the tests that failed, until they pass.
FAILED = parts.ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
#: How long they took in this checkout.
TAKEN = parts.ROOT / "build" / "suite-minutes.json"


class Suite:
    """Runs phases, some beside each other, and keeps their results."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.remarks: list[str] = []
        self._running: list[Phase] = []
        self._lock = threading.Lock()

    def pytest(self, name: str, arguments: Sequence[str], env: Mapping[str, str] = {}) -> Phase:
        command = [sys.executable, "-m", "pytest", "-p", "scripts.suite.progress", "-q",
                   "--no-header", *arguments]  # fmt: skip
        return self.start(name, command, env)

    def build(self, *extra: str, kubernetes: str = "", name: str = "build") -> Phase:
        command = [sys.executable, str(parts.ROOT / "controlplane" / "build.py")]
        command += ["--with", ",".join(extra)] if extra else []
        command += ["--kubernetes", kubernetes] if kubernetes else []
        return self.start(name, command)

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str] = {}) -> Phase:
        phase = Phase(name, command, env, self._say(name))
        self._running.append(phase)
        return phase

    def wait(self, phase: Phase) -> bool:
        """Whether it ended well."""
        result = phase.wait()
        self._running.remove(phase)
        self.results.append(result)
        print(result, flush=True)
        return result.ok

    def interrupt(self) -> None:
        for phase in list(self._running):
            phase.interrupt()
            self.wait(phase)

    def conclude(self, began: float) -> int:
        """The last lines, and the exit status."""
        print(f"\nall phases: {(time.monotonic() - began) / 60:.1f} min")
        for result in self.results:
            print(result)
        for result in self.results:
            if " in " in result.closing:
                print(result.closing)
        for remark in self.remarks:
            print(remark)
        remember(self.results)
        tests = [result for result in self.results if "build" not in result.name]
        nothing = all(result.status == NOTHING for result in tests)
        return int(nothing or not all(result.ok for result in self.results))

    def _say(self, name: str) -> Callable[[str], None]:
        def say(line: str) -> None:
            with self._lock:
                alone = len(self._running) < 2
                print(line if alone else f"{name}: {line}", flush=True)

        return say


def test(suite: Suite, arguments: Sequence[str]) -> None:
    """Plain tests run while Go compiles; the others follow when both have ended."""
    building = suite.build()
    if (files := _asked_for(parts.LIVE_FOLDERS)) is not None:
        suite.wait(suite.pytest("plain", [*parts.FAST, *files, *arguments]))
    if suite.wait(building) and (files := _asked_for(parts.PLAIN_FOLDERS)) is not None:
        suite.wait(suite.pytest("server", [*parts.SERVER, *files, *arguments]))


def fast(suite: Suite, arguments: Sequence[str]) -> None:
    suite.wait(suite.pytest("plain", [*parts.FAST, *arguments]))
    print("not collected:", "; ".join(_not_collected()))


def everything(suite: Suite, arguments: Sequence[str]) -> None:
    """The parts that are named first among the arguments, or all."""
    known = {part.name: part for part in parts.PARTS}
    named = [known[name] for name in arguments if name in known]
    rest = [one for one in arguments if one not in known]
    for part in named or parts.PARTS:
        _run(suite, part, rest)


def ci(suite: Suite, spent_s: float) -> None:
    """After `make test`, as many parts of `make test-all` as there is time for."""
    began = time.monotonic() - spent_s
    recorded, slowness = _minutes(TIMES), _slowness()
    ran, left = [], []
    for part in parts.turn(_commits()):
        build = recorded.get(f"build for {part.name}", 0.0)
        takes = (build + recorded.get(part.name, UNKNOWN_MINUTES)) * slowness
        if (time.monotonic() - began) / 60 + takes > CI_MINUTES:
            left.append(f"{part.name} ({takes:.0f} min)")
            continue
        _run(suite, part, [])
        ran.append(part.name)
    suite.remarks = [
        f"this machine takes {slowness:.1f} times as long as recorded",
        f"parts of make test-all that ran: {', '.join(ran) or 'none'}",
        f"parts that did not fit into {CI_MINUTES:.0f} min: {', '.join(left) or 'none'}",
    ]


def remember(results: Sequence[Result]) -> None:
    """For `minutes.json`, and for people who want to know what took so long."""
    TAKEN.parent.mkdir(exist_ok=True)
    kept = _minutes(TAKEN)
    kept |= {result.name: round(result.wall_s / 60, 2) for result in results if result.ok}
    TAKEN.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def _run(suite: Suite, part: parts.Part, arguments: Sequence[str]) -> None:
    version = part.env.get("FAIRLEAD_KUBERNETES", "")
    if (part.needs or version) and not suite.wait(
        suite.build(*part.needs, kubernetes=version, name=f"build for {part.name}")
    ):
        return
    suite.wait(suite.pytest(part.name, [*part.arguments, *arguments], part.env))


def _asked_for(left_out: Sequence[str]) -> list[str] | None:
    """What to tell pytest for LAST_FAILED; None if nothing failed outside of these folders."""
    if not os.environ.get("LAST_FAILED"):
        return []
    failed = json.loads(FAILED.read_text()) if FAILED.exists() else {}
    folders = tuple(f"{folder}/" for folder in left_out)
    names = {test.partition("::")[0] for test in failed if not test.startswith(folders)}
    files = sorted(name for name in names if (parts.ROOT / name).exists())
    return ["--last-failed", *files] if files else None


def _not_collected() -> list[str]:
    """Test files that plain runs do not collect, by folder."""
    counted = []
    for folder in parts.LIVE_FOLDERS:
        files = sorted((parts.ROOT / folder).rglob("test_*.py"))
        tests = sum(path.read_text().count("def test_") for path in files)
        if files:
            counted.append(f"{folder} ({tests} test functions in {len(files)} files)")
    return counted


def _minutes(file: Path) -> dict[str, float]:
    return json.loads(file.read_text()) if file.exists() else {}


def _slowness() -> float:
    """How many times as long as recorded the tests of `make test` took here."""
    recorded, taken = _minutes(TIMES), _minutes(TAKEN)
    both = [name for name in ("plain", "server") if name in recorded and name in taken]
    if not both:
        return 1.0
    return max(1.0, sum(taken[name] for name in both) / sum(recorded[name] for name in both))


def _commits() -> int:
    git = shutil.which("git") or "git"
    counted = subprocess.run(
        [git, "rev-list", "--count", "HEAD"], capture_output=True, text=True, check=False,
        cwd=parts.ROOT,
    )  # fmt: skip
    return int(counted.stdout or 0)


def main(arguments: Sequence[str]) -> int:
    began = time.monotonic()
    os.chdir(parts.ROOT)
    suite = Suite()
    command, rest = arguments[0], list(arguments[1:])
    # In the background of a shell, Ctrl-C is ignored unless somebody asks for it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with leaving_nothing():
        try:
            match command:
                case "test":
                    test(suite, rest)
                case "fast":
                    fast(suite, rest)
                case "all":
                    everything(suite, rest)
                case "ci":
                    ci(suite, float(rest[0]))
        except KeyboardInterrupt:
            print("interrupted: ending what runs", flush=True)
            suite.interrupt()
            return 130
    return suite.conclude(began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
