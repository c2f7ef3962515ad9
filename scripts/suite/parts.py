"""What the suite is divided into: the two phases of `make test`, and the parts of `make test-all`.

A part is a set of test files and the tests of them that it runs. Each file belongs to the first
part that names it, so each test that needs a server or a program is in exactly one part.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORES = min(len(os.sched_getaffinity(0)), 8) if hasattr(os, "sched_getaffinity") else 2

#: Tests that start neither a server nor a program of ours.
PLAIN = "not server and not program"
#: The others. A folder of theirs is not even collected for plain tests.
LIVE = "server or program"
LIVE_FOLDERS = ("tests/e2e", "tests/stories", "tests/node", "tests/peers", "tests/hardware")
#: Folders that make test does not collect a second time: no test of theirs needs either.
PLAIN_FOLDERS = tuple(
    f"tests/{name}"
    for name in ("base", "cel", "claims", "cluster", "engine", "fuzz", "kube", "model",
                 "placement", "plugins", "queue", "scenes")
)  # fmt: skip

#: A worker steals single plain tests; tests that share a server stay together, file by file.
PLAIN_OPTIONS = (
    f"-n{max(CORES, 2) + 1}", "--dist=worksteal", *(f"--ignore={folder}" for folder in LIVE_FOLDERS)
)  # fmt: skip
#: Files that take half a minute alone, most of it waiting, the longest first: they begin first, so
#: that no worker has one of them left when the others have ended.
LONGEST = tuple(
    f"tests/{name}.py"
    for name in (
        "e2e/test_leadership", "e2e/test_webhook_certificates", "fidelity/test_fidelity",
        "e2e/test_queue_watches", "e2e/test_faults", "e2e/test_releases", "stories/test_examples",
        "telemetry/test_nvml_process", "stories/test_top", "stories/test_queue_scheduler",
        "oracle/test_oracle_random", "e2e/test_queues_seen", "e2e/test_extender",
        "stories/test_gang_dialects", "e2e/test_ledger_faults", "e2e/test_agent",
        "stories/test_learned_run_times", "stories/test_kept_live",
    )
)  # fmt: skip

#: They wait half of their time, so there are more workers than cores.
LIVE_OPTIONS = (f"-n{CORES + 2}", "--dist=loadfile", "--no-loadscope-reorder")
#: Of tests that draw them, and of stories: `tests/examples.py`.
_ALL_EXAMPLES = "--hypothesis-profile=full"

FAST = (*PLAIN_OPTIONS, "-m", f"{PLAIN} and not slow")
SERVER = (*LIVE_OPTIONS, "-m", f"({LIVE}) and not slow",
          *(f"--ignore={folder}" for folder in PLAIN_FOLDERS))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """One part of `make test-all`; `files` are patterns of paths, `needs` parts to build."""

    name: str
    files: tuple[str, ...]
    marks: str = LIVE
    needs: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = LIVE_OPTIONS

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.options, _ALL_EXAMPLES, "-m", self.marks, *self.paths())

    def paths(self) -> list[str]:
        return [path for path, part in assigned() if part is self]


_NEWER = "1.37"

#: CI runs the first three each time, and of the others as many as fit.
PARTS = (
    Part("oracle", ("tests/oracle/*", "tests/e2e/*oracle*")),
    Part("policies", ("tests/e2e/*_policy.py", "tests/e2e/test_gpu_resource*")),
    Part("fidelity", ("tests/fidelity/*",)),
    Part("scenes", ("tests/e2e/test_live_scenes.py", "tests/e2e/test_choices.py",
                    "tests/e2e/test_preemption.py", "tests/e2e/test_kube_scheduler_config.py")),
    Part("stories", ("tests/stories/*",), env={"FAIRLEAD_SERVER": "real"}),
    Part("charts", ("tests/e2e/test_chart*", "tests/e2e/test_deploy.py", "tests/e2e/test_image.py",
                    "tests/e2e/test_monitoring.py", "tests/e2e/test_webhook*"),
         needs=("helm", "prometheus")),
    Part("claims", ("tests/e2e/*claim*", "tests/e2e/test_volume*", "tests/e2e/test_reserv*")),
    Part("agents", ("tests/e2e/test_agent*", "tests/e2e/test_device_plugins.py",
                    "tests/e2e/test_releases.py")),
    Part("comparers", ("tests/cel/*", "tests/claims/*"),
         needs=("device-cel", "dra-allocator", "dra-allocator-1.37")),
    Part("programs", ("tests/apps/*", "tests/sim/*", "tests/test_*")),
    Part("others", ("tests/*",), needs=("kwok",)),
    # Every plain test, the slow ones too, with the full number of drawn examples.
    Part("drawn", (), marks=PLAIN, options=PLAIN_OPTIONS),
    # What can differ there: docs/versions.md.
    Part("kubernetes-1.37", (), marks="server and differs",
         env={"FAIRLEAD_KUBERNETES": _NEWER}),
)  # fmt: skip
ALWAYS_IN_CI = 3


def assigned() -> Iterator[tuple[str, Part]]:
    """Each test file with the part that its tests with a server or a program belong to."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("tests/node", "tests/peers", "tests/hardware")):
            yield name, next(part for part in PARTS if any(fnmatch(name, p) for p in part.files))


def turn(number: int) -> tuple[Part, ...]:
    """The parts in the order in which CI tries them for the submission of that number."""
    fixed, others = PARTS[:ALWAYS_IN_CI], PARTS[ALWAYS_IN_CI:]
    first = number % len(others)
    return (*fixed, *others[first:], *others[:first])
