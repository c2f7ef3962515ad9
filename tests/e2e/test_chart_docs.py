"""What is said about the chart, drawn from it and rendered from it fits it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from charts import Helm
from fairleads import FAIRLEAD
from manifests import CHART, COMPONENT, ROOT
from preloaded import run
from test_chart_values import VALUES, at, by_name
from yaml_texts import yaml_of

PAGE = (ROOT / "docs" / "install.md").read_text()
COMMANDS = re.findall(r"^helm (?:install|upgrade) .*", PAGE.replace("\\\n", ""), re.MULTILINE)


def test_the_configuration_in_the_docs_can_be_served(charts: Helm, tmp_path: Path) -> None:
    block, *more = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    for each in more:
        assert charts.rendered(yaml_of(each))
    data = by_name(charts.rendered(yaml_of(block)))["ConfigMap/fairlead"]["data"]
    for name, content in data.items():
        (tmp_path / name).write_text(content)

    command = [str(FAIRLEAD), "check-config", str(tmp_path / "fairlead.yaml")]
    done = run(command)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Best" in done.stdout


def test_the_commands_in_the_docs_are_found() -> None:
    assert len(COMMANDS) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_in_the_docs_are_taken(charts: Helm, command: str) -> None:
    of_releases = ("--install", "--reuse-values")
    words = [word for word in shlex.split(command)[2:] if word not in of_releases]
    words[words.index("deploy/helm/fairlead")] = str(CHART)

    done = charts.run("template", *words)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("value", re.findall(r"^\| (`[a-z][^|]*`) \| ", PAGE, re.MULTILINE))
def test_the_values_in_the_docs_exist(value: str) -> None:
    for one in re.findall(r"`([\w.]+)`", value):
        at(VALUES, one)


# -- monitoring ------------------------------------------------------------------------------------


def test_alerts_and_boards_are_labelled_as_asked(charts: Helm) -> None:
    """What is in them is tested in test_monitoring.py."""
    values = {
        "prometheusRule": {"enabled": True, "labels": {"release": "us"}},
        "grafanaDashboard": {"enabled": True, "labels": {"mine": "yes"}},
    }
    found = by_name(charts.rendered(values))
    boards = found["ConfigMap/fairlead-dashboard"]
    assert found["PrometheusRule/fairlead"]["metadata"]["labels"]["release"] == "us"
    assert boards["metadata"]["labels"]["mine"] == "yes"
    assert {json.loads(board)["uid"] for board in boards["data"].values()} == {
        "fairlead", "fairlead-gpus",
    }  # fmt: skip


# -- what is rendered from it ----------------------------------------------------------------------


def test_the_plain_manifests_are_up_to_date(helm: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "manifests.py"), str(helm), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_every_object_names_its_component(charts: Helm) -> None:
    for one in charts.rendered():
        assert one["metadata"]["labels"][COMPONENT] in ("scheduler", "webhook", "policy", "queues")
