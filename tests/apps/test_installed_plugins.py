"""Plugins of other people's packages, found by their entry points."""

import sys
from pathlib import Path

import pytest

from fairlead.apps.config import plugin_files
from fairlead.model.errors import ConfigError

QUIET = """
from typing import ClassVar
from fairlead.cluster.aspects import Aspect

class QuietNodes:
    name: ClassVar[str] = "QuietNodes"
    reads: ClassVar[Aspect] = Aspect.USAGE

    def rate(self, request, nodes):
        return 100.0 / (1.0 + nodes.requested("pods"))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package of one module, as pip would leave it."""

    def install(module: str, source: str, points: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)

    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield install
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_installed_plugin_is_used_by_its_name(package) -> None:
    package("quiet_nodes", QUIET, "[fairlead.scores]\nquiet = quiet_nodes:QuietNodes\n")
    plugin = plugin_files.make(plugin_files.installed(), "QuietNodes", {}, Path())
    assert plugin_files.as_score(plugin, "QuietNodes").name == "QuietNodes"


def test_a_name_that_is_taken_is_refused(package) -> None:
    source = QUIET.replace('"QuietNodes"', '"GpuBestFit"')
    package("greedy_nodes", source, "[fairlead.scores]\nq = greedy_nodes:QuietNodes\n")
    with pytest.raises(ConfigError, match="two plugins are named 'GpuBestFit'"):
        plugin_files.installed()


def test_a_package_that_cannot_be_loaded_is_named(package) -> None:
    package("broken_nodes", "1/0", "[fairlead.filters]\nb = broken_nodes:X\n")
    with pytest.raises(ConfigError, match=r"plugin 'b' of group fairlead\.filters .*uninstall"):
        plugin_files.installed()
