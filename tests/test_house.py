"""House rules, held as tests. Layers, types, lint and format are held by `make check`."""

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from fairlead import __version__
from yaml_texts import yaml_of

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("folder", ["tests/e2e", "tests/stories", "bench"])
def test_what_admission_reads_is_created_by_what_waits_for_it(folder: str) -> None:
    """Admission and RBAC know a new object some time after it was created, not at once."""
    direct = re.compile(
        r"k8s\.io/v1/(priorityclasses|(validating|mutating)admission|clusterrolebindings)"
    )
    found = [path.name for path in (ROOT / folder).glob("*.py") if direct.search(path.read_text())]
    assert found == [], "create these with fairlead.sim.controlplane.served, which waits"


def test_lock_files_name_no_registry() -> None:
    locks = [path.name for path in ROOT.glob("*.lock")]
    assert len(locks) == 3
    for lock in locks:
        text = (ROOT / lock).read_text()
        assert "--hash=sha256:" in text
        assert not re.search(r"https?://|--index-url", text)


def test_no_page_has_marks_of_a_merge() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    marks = re.compile(r"^(<<<<<<<|>>>>>>>) ", re.MULTILINE)
    assert [str(page.relative_to(ROOT)) for page in pages if marks.search(page.read_text())] == []


def test_methods_of_dataclasses_are_made_when_they_are_needed() -> None:
    """Those of the standard library are compiled at each start."""
    direct = re.compile(
        r"^\s*from dataclasses import [^\n]*\bdataclass\b|dataclasses\.dataclass", re.MULTILINE
    )
    found = [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py")
             if direct.search(path.read_text())]  # fmt: skip
    assert found == ["src/fairlead/model/lazy_dataclass.py"], "use fairlead.model.lazy_dataclass"


def test_the_version_is_the_same_everywhere() -> None:
    chart = yaml_of(ROOT / "deploy/helm/fairlead/Chart.yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    released = re.findall(
        r"^## (\d\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )

    assert {chart["version"], chart["appVersion"], project["version"]} == {__version__}
    assert released[0] == __version__
    for page in ("deploy/Dockerfile", "docs/install.md"):
        named = re.findall(r"fairlead:(\d+\.\d+\.\d+)|tag=(\S+)", (ROOT / page).read_text())
        assert {"".join(version) for version in named} == {__version__}, page


def test_files_of_tests_have_names_of_their_own() -> None:
    """pytest imports them by that name, and two halves of the suite by different folders."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


_WAITS = {"eventually", "soon", "until", "wait_bound", "wait_refused", "run", "urlopen"}
#: It tries something else after that, and urlopen(…) in a loop that has the patience.
_MAY_BE_SHORT = {"test_chart.py", "prometheuses.py", "test_webhook_clients.py"}


def test_tests_wait_long_enough_for_a_busy_machine() -> None:
    """What must come may take minutes there. How long it takes is measured in bench/."""
    found = [
        f"{path.name}:{call.lineno}"
        for folder in ("tests/e2e", "tests/stories")
        for path in sorted((ROOT / folder).glob("*.py"))
        if path.name not in _MAY_BE_SHORT
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and _name(call.func) in _WAITS and _limits(call)
    ]
    assert found == [], "wait for fairleads.PATIENCE_S, which is the default"


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def _limits(call: ast.Call) -> list[float]:
    """Numbers that are given as a time limit."""
    words = [one.value for one in call.keywords if one.arg in {"timeout", "timeout_s"}]
    places = call.args[1:2] if _name(call.func) in {"eventually", "soon", "until"} else []
    given = [one.value for one in [*words, *places] if isinstance(one, ast.Constant)]
    return [number for number in given if isinstance(number, int | float) and number < 180]
