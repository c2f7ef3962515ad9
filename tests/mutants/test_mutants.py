"""How mutants are drawn and put into src, and in which order tests try them: `make mutants`."""

import ast
import builtins
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from mutants.changes import changes
from mutants.covering import Case, Cover
from mutants.drawing import AREAS, IN_EACH, drawn
from mutants.mutant import ROOT, Gone, Mutant, applied, line_of, read
from mutants.results import Result, Results, lost
from mutants.switching import switched
from mutants.trying import first

SOURCE = '''
class Shelf:
    def put(self, pod, room):
        """Not this text."""
        if pod in self.pods and not room:
            raise ValueError("full: " + str(1))
        log.info("put %s", 1 + 1)
        self.pods += 1
        return pod.size <= room

    def take(self, pod):
        with self.lock(True):
            for each in reversed(self.pods):
                if each is pod:
                    break
        return None
'''
LOADED = SOURCE.replace("class", "# moved\n\nclass").replace("pod.size", "pod.length")


def mutant(original: str, changed: str, function: str = "Shelf.put", line: int = 1) -> Mutant:
    return Mutant(1, "engine", "shelf.py", function, line, 0, "any", original, changed)


def test_lines_of_code_are_changed_and_not_what_is_said_or_logged() -> None:
    tree = ast.parse(SOURCE)
    lines = SOURCE.splitlines()
    found = {
        change.of(lines[change.line - 1]).strip()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for change in changes(node, lines)
    }

    assert found == {
        "if pod not in self.pods and not room:",
        "if pod in self.pods or not room:",
        "if pod in self.pods and room:",
        "if not (pod in self.pods and not room):",
        'raise ValueError("full: " - str(1))',
        'raise ValueError("full: " + str(2))',
        "pass",
        "self.pods -= 1",
        "self.pods += 2",
        "return pod.size < room",
        "return None",
        "with self.lock(False):",
        "if each is not pod:",
        "continue",
    }


def test_a_mutant_finds_its_line_when_others_moved() -> None:
    kept = mutant("self.pods += 1", "pass")

    assert "        pass\n" in applied(kept, LOADED)
    assert line_of(kept, LOADED) == 10


def test_a_mutant_says_when_its_line_is_no_longer_there() -> None:
    with pytest.raises(Gone, match=r"shelf\.py has 0 lines"):
        applied(mutant("return pod.size <= room", "return None"), LOADED)


SHELF = """
class Shelf:
    def put(self, pods, room):
        for pod in sorted(pods):
            if pod == "no" and (
                room
            ):
                break
            elif room > 1:
                room -= 1
        with self.lock(room) as room:
            return [
                room + 1,
            ]
"""


@pytest.mark.parametrize(
    ("original", "changed", "answer"),
    [
        ("for pod in sorted(pods):", "for pod in sorted(()):", 6),
        ("room", "not room", 3),
        ('if pod == "no" and (', 'if pod != "no" and (', 6),
        ("elif room > 1:", "elif room > 9:", 6),
        ("room -= 1", "pass", 6),
        ("with self.lock(room) as room:", "with self.lock(7) as room:", 8),
        ("room + 1,", "room - 1,", 2),
    ],
)
def test_a_switch_turns_one_line_into_the_mutant(
    original: str, changed: str, answer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replace(mutant(original, changed), line=6)
    other = replace(mutant("room -= 1", "room -= 2"), number=2)
    asked: list[int] = []
    on: set[int] = set()
    monkeypatch.setattr(
        builtins, "_mutant", lambda number: asked.append(number) or number in on, raising=False
    )
    names: dict[str, type] = {}
    exec(switched([one] if original == "room -= 1" else [other, one], SHELF), names)
    names["Shelf"].lock = lambda _, room: nullcontext(room)
    shelf = names["Shelf"]()

    assert shelf.put(["a", "b", "no"], 5) == [4]
    on.add(1)
    assert shelf.put(["a", "b", "no"], 5) == [answer]
    assert 1 in asked


def test_the_list_has_as_many_mutants_of_each_area_and_one_of_a_function() -> None:
    mutants = read()

    assert Counter(each.area for each in mutants) == dict.fromkeys(AREAS, IN_EACH)
    assert len({(each.file, each.function) for each in mutants}) == len(mutants)
    assert [each.number for each in mutants] == list(range(1, len(mutants) + 1))


def test_nearly_all_lines_of_the_list_are_still_in_src() -> None:
    """If this fails, src has changed so much that the list has to be drawn anew."""
    gone = [each for each in read() if not _is_there(each)]
    assert len(gone) <= 30, gone


def _is_there(each: Mutant) -> bool:
    file = ROOT / each.file
    return file.exists() and each.original in file.read_text(encoding="utf-8")


def test_a_seed_draws_the_same_mutants_again(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "fairlead" / "queue"
    folder.mkdir(parents=True)
    (folder / "shelf.py").write_text(SOURCE)

    once, again, other = (drawn(tmp_path, seed=seed, in_each=1) for seed in (1, 1, 2))

    assert once == again
    assert [each.area for each in once] == ["queues"]
    assert once != other


def test_tests_with_words_in_common_come_first_and_slow_ones_last(tmp_path: Path) -> None:
    file = tmp_path / "plain.jsonl"
    row = '{{"test": "tests/{}", "seconds": {}, "slow": {}, "passed": {}, "mutants": [{}]}}\n'
    rows = [
        ("a.py::test_of_pods", 0.1, "false", "true", 1),
        ("shelf.py::test_slow", 0.1, "true", "true", 1),
        ("shelf.py::test_put", 0.3, "false", "true", 1),
        ("shelf.py::test_failed", 0.1, "false", "false", 1),
        ("shelf.py::test_other", 0.1, "false", "true", 2),
        ("b.py::test_before", 0.2, "false", "true", 1),
        ("b.py::test_after", 0.2, "false", "true", 2),
    ]
    file.write_text("".join(row.format(*each) for each in rows))

    found = Cover(file).of(mutant("", ""), first=["tests/b.py::test_before"])

    assert [test.name.partition("::")[2] for test in found] == [
        "test_before", "test_put", "test_of_pods", "test_slow",
    ]  # fmt: skip


def test_where_few_tests_come_the_others_of_their_files_are_tried_too(tmp_path: Path) -> None:
    file = tmp_path / "plain.jsonl"
    row = '{{"test": "{}", "seconds": 1, "slow": false, "passed": true, "mutants": [{}]}}\n'
    rows = [("a.py::test_one", 1), ("a.py::test_two", ""), ("b.py::test_three", "")]
    file.write_text("".join(row.format(*each) for each in rows))

    found = Cover(file).of(mutant("", ""))

    assert [test.name for test in found] == ["a.py::test_one", "a.py::test_two"]


def test_the_first_tests_take_no_longer_than_they_may_and_stay_with_their_file() -> None:
    tests = [
        Case(name, seconds, slow=False, mutants=frozenset())
        for name, seconds in [("a::1", 2.0), ("b::1", 9.0), ("c::1", 1.0), ("a::2", 1.0)]
    ]
    assert [test.name for test in first(tests, seconds=4.0)] == ["a::1", "a::2", "c::1"]


def test_results_are_read_again_and_compared(tmp_path: Path) -> None:
    dead = Result(1, "engine", "a.py", 3, "negation", "killed", "plain", "tests/a.py::test_b", 1.5)
    file = tmp_path / "results.csv"
    Results(file).add(dead)

    results = Results(file)
    results.add(replace(dead, number=2, result="timeout"))

    assert results[replace(mutant("", ""), number=1)] == dead
    assert results[replace(mutant("", ""), number=3)].result == ""
    now = [replace(dead, result="alive"), replace(dead, number=2)]
    assert lost([dead, replace(dead, number=2, result="timeout")], now) == [(dead, now[0])]
