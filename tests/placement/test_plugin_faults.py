"""Whatever a plugin does wrong, the message names it, its file and its line."""

from pathlib import Path

import pytest

from builders import SCHEDULER, a_node, a_pod
from fairlead.apps.config import config
from fairlead.cluster.cluster import Cluster
from fairlead.model.errors import PluginFault
from fairlead.placement.explain import explain
from fairlead.placement.place import Placement
from fairlead.plugins.registry import Registry

FILE = """\
import numpy as np
from fairlead.cluster.aspects import Aspect

def helper():
    return 1 / 0

class Base:
    reads = Aspect.USAGE
    refusal = "no"
    resolvable = False

class Raises(Base):
    name = "Raises"
    def allows(self, request, nodes):
        return helper()

class Alone(Base):
    name = "Alone"
    def rate(self, request, nodes):
        return 1.0

class Nan(Base):
    name = "Nan"
    def rate(self, request, nodes):
        return np.full(len(nodes), np.nan)

class Far(Base):
    name = "Far"
    def pick(self, request, nodes, scores):
        return len(nodes)

class Half(Base):
    name = "Half"
    def pick(self, request, nodes, scores):
        return 0.5

class Breaks(Base):
    name = "Breaks"
    def pick(self, request, nodes, scores):
        raise ValueError("no coin")

class None_(Base):
    name = "None"
    def pick(self, request, nodes, scores):
        return -1
"""


def placement(tmp_path: Path, wanted: str) -> tuple[Placement, Cluster]:
    (tmp_path / "mine.py").write_text(FILE)
    text = f"profiles:\n  - schedulerName: {SCHEDULER}\n    {wanted}\n"
    made = config.build_profiles(config.parse(text).profiles, Registry(), tmp_path / "c.yaml")
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.put_node(a_node(name))
    return Placement(made[SCHEDULER], cluster), cluster


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("filters: {enabled: ['mine.py:Raises']}",
         "filter Raises ({file}:5): ZeroDivisionError: division by zero"),
        ("scores: ['mine.py:Alone']",
         "score Alone ({file}:19): Alone must return one answer for each of 2 nodes"),
        ("scores: [Spread, 'mine.py:Nan']", "score Nan ({file}:24): Nan returned no number"),
        ("picker: 'mine.py:Breaks'", "picker Breaks ({file}:40): ValueError: no coin"),
        ("picker: 'mine.py:Far'",
         "picker Far ({file}:29): pick() returned 2; return a position from 0 to 1, or -1"),
        ("picker: 'mine.py:Half'",
         "picker Half ({file}:34): TypeError: 'float' object cannot be interpreted as an integer"),
    ],
)  # fmt: skip
def test_a_failure_names_plugin_file_line_and_sentence(
    tmp_path: Path, wanted: str, told: str
) -> None:
    placing, cluster = placement(tmp_path, wanted)
    for asking in (lambda: placing.place(a_pod()), lambda: explain(placing, cluster, a_pod())):
        with pytest.raises(PluginFault) as caught:
            asking()
        expected = told.format(file=(tmp_path / "mine.py").resolve())
        assert str(caught.value) == f"a plugin failed: {expected}"


def test_a_picker_may_take_no_node(tmp_path: Path) -> None:
    placing, _ = placement(tmp_path, "picker: 'mine.py:None_'")
    verdict = placing.place(a_pod())
    assert "2 node(s) were not selected by None" in verdict.message


def test_an_error_of_our_own_blames_no_plugin(tmp_path: Path) -> None:
    placing, _ = placement(tmp_path, "preempts: true")
    placing.view = None  # type: ignore[assignment,method-assign]
    with pytest.raises(PluginFault, match=r"the scheduler failed at .*place\.py:\d+: TypeError"):
        placing.place(a_pod())
