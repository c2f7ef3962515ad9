"""The house rules, held as tests: layers, types, style, and what must not be in a commit."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml

from fairlead import __version__

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["lint-imports", "--no-cache"], id="rooms import downwards only"),
        pytest.param(["mypy"], id="types"),
        pytest.param(["ruff", "check", "."], id="lint"),
        pytest.param(["ruff", "format", "--check", "."], id="format"),
    ],
)
def test_the_house_is_in_order(command: list[str]) -> None:
    program = [str(TOOLS / command[0]), *command[1:]]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("folder", ["tests/e2e", "bench"])
def test_what_admission_reads_is_created_by_what_waits_for_it(folder: str) -> None:
    """Admission and RBAC know a new object some time after it was created, not at once."""
    direct = re.compile(
        r"k8s\.io/v1/(priorityclasses|(validating|mutating)admission|clusterrolebindings)"
    )
    found = [path.name for path in (ROOT / folder).glob("*.py") if direct.search(path.read_text())]
    assert found == [], "create these with fairlead.sim.controlplane.served, which waits"


def test_lock_files_name_no_registry() -> None:
    for lock in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / lock).read_text()
        assert "--hash=sha256:" in text
        assert not re.search(r"https?://|--index-url", text)


def test_the_version_is_the_same_everywhere() -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/fairlead/Chart.yaml").read_text())
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
