"""A package of a third party with a plugin is built, installed and found by its name."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.program

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "plugin-package"
PIP = "-m", "pip", "--disable-pip-version-check", "--no-input"


def python(*arguments: str, path: Path | None = None, cwd: Path = ROOT) -> str:
    """Runs Python with the folder on its path, and returns what it prints."""
    env = {**os.environ, "PYTHONPATH": str(path) if path else ""}
    command = [sys.executable, *arguments]
    ended = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel of the sample was installed into; nothing is downloaded."""
    work = tmp_path_factory.mktemp("package")
    shutil.copytree(SAMPLE, work / "source")  # the build writes beside the sources
    offline = "--no-deps", "--no-index"
    build = "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(work / "dist")
    python(*PIP, *build, str(work / "source"))
    (wheel,) = (work / "dist").glob("*.whl")
    python(*PIP, "install", *offline, "--target", str(work / "plugins"), str(wheel))
    return work / "plugins"


def fairlead(*arguments: str, path: Path | None = None) -> str:
    return python(str(Path(sys.executable).parent / "fairlead"), *arguments, path=path)


def test_the_configuration_finds_the_plugin_by_its_name(installed: Path) -> None:
    shown = fairlead("check-config", str(SAMPLE / "fairlead.yaml"), path=installed)

    assert "KeepsSpares(spares=2)" in shown


def test_without_the_package_the_configuration_is_refused() -> None:
    with pytest.raises(AssertionError, match="no plugin is named 'KeepsSpares'"):
        fairlead("check-config", str(SAMPLE / "fairlead.yaml"))


def test_the_tests_of_the_package_pass_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(SAMPLE / "tests", tmp_path / "tests")

    python("-m", "pytest", "-q", "-p", "no:cacheprovider", path=installed, cwd=tmp_path)


def test_public_modules_need_no_test_framework(installed: Path) -> None:
    """Checked with the package, since a plugin is loaded wherever the scheduler runs."""
    code = "import fairlead_spares, fairlead.testing, json, sys; print(json.dumps([*sys.modules]))"
    loaded = {name.partition(".")[0] for name in json.loads(python("-c", code, path=installed))}

    assert "fairlead_spares" in loaded
    assert not loaded & {"pytest", "_pytest", "hypothesis"}
