"""scripts/cold.py: what a bare machine is, and what is said of its runs."""

import os
import subprocess
from pathlib import Path

import pytest
from scripts import cold

MAKEFILE = """
test:
	@echo "setup: done"
	@echo "$$HOME $$GOPROXY $$KUBEBUILDER_ASSETS"
	@echo "phase plain: 1.5 min, CPU 2.0 min, ok"
"""


@pytest.mark.slow  # a clone
def test_a_bare_machine_has_nothing_but_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/built")
    with cold.bare() as (clone, env):
        assert all(not list(Path(env[name]).iterdir()) for name in cold.EMPTY)
        assert "KUBEBUILDER_ASSETS" not in env
        heads = {
            subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=folder)
            for folder in (clone, cold.ROOT)
        }
        assert len(heads) == 1
        (clone / "kept").mkdir(mode=0o500)  # as Go leaves its modules
    assert not clone.parent.exists()


def test_how_registries_are_reached_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pip.conf").write_text("[global]\ntimeout = 7\ncache-dir = /kept\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    settings = cold.registries()
    assert settings["PIP_TIMEOUT"] == "7"
    assert "PIP_CACHE_DIR" not in settings


def test_phases_are_told_by_what_a_run_prints(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    status, times = cold.run("test", tmp_path, dict(os.environ))
    assert (status, list(times)) == (0, ["setup", "plain", "all"])
    assert times["plain"] == (90.0, 120.0)


def test_the_median_is_of_the_runs_that_had_the_phase() -> None:
    runs = [{"plain": (float(wall), 10.0)} for wall in (5, 1, 3)]
    assert cold.median([*runs, {"build": (2.0, 2.0)}]) == {"plain": (3, 10), "build": (2, 2)}
