"""scripts/suite: what a phase reports, leaves behind and belongs to."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scripts.suite import parts
from scripts.suite.parts import LONGEST
from scripts.suite.phases import NOTHING, Result

ROOT = Path(__file__).parents[1]


def ran(script: str) -> tuple[Result, list[str]]:
    """A phase of its own process, since a phase waits for all children of its own."""
    program = f"""
from scripts.suite.phases import Phase, leaving_nothing
with leaving_nothing():
    result = Phase("tried", ["sh", "-c", {script!r}]).wait()
print(result.status, result.cpu_s > 0, result.closing)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said = ended.stdout.splitlines()
    status, _, closing = said.pop().split(" ", 2)
    return Result("tried", int(status), 0, 0, closing), said


def test_a_phase_shows_its_lines_and_keeps_the_last_one() -> None:
    result, said = ran("echo one; echo two >&2; echo; exit 3")

    assert (result.status, result.closing, result.ok) == (3, "two", False)
    assert said == ["one", "two", ""]


def test_what_one_process_has_compiled_others_find(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    _, said = ran(f"{sys.executable} -c 'import sys; print(sys.dont_write_bytecode)'")
    assert said == ["False"]


def test_nothing_to_run_is_no_failure() -> None:
    assert Result("queue", NOTHING, 0, 0).ok


def test_a_process_that_a_phase_leaves_behind_is_ended() -> None:
    _, said = ran("trap '' INT; sleep 600 >/dev/null 2>&1 & echo $!")
    with pytest.raises(ProcessLookupError):
        os.kill(int(said[0]), 0)


def test_an_orphan_is_gone_when_it_has_ended() -> None:
    """Else a test that waits until a process is gone would wait for ever."""
    result, _ = ran(
        "(sh -c 'echo $$ > /dev/null' & echo $! >&3) 3>&1 | "
        "{ read -r pid; while kill -0 $pid 2>/dev/null; do :; done; echo gone; }"
    )
    assert result.closing == "gone"


def test_each_part_has_files_and_a_name_of_its_own() -> None:
    names = Counter(part.name for part in parts.PARTS)
    assert max(names.values()) == 1
    empty = [part.name for part in parts.PARTS if part.files and not part.paths()]
    assert empty == []


@pytest.mark.parametrize("number", range(len(parts.PARTS)))
def test_every_part_has_its_turn_in_ci(number: int) -> None:
    order = parts.turn(number)
    assert sorted(part.name for part in order) == sorted(part.name for part in parts.PARTS)
    assert order[: parts.ALWAYS_IN_CI] == parts.PARTS[: parts.ALWAYS_IN_CI]


def test_every_part_is_the_first_of_the_others_once() -> None:
    others = len(parts.PARTS) - parts.ALWAYS_IN_CI
    first = {parts.turn(number)[parts.ALWAYS_IN_CI].name for number in range(others)}
    assert len(first) == others


def test_the_files_that_begin_first_are_there() -> None:
    assert [name for name in LONGEST if not (ROOT / name).exists()] == []
