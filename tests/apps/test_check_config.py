import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairlead.apps import cli

PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 4
profiles:
  - schedulerName: packer
    plugins:
      multiPoint:
        disabled: [{name: "*"}]
        enabled:
          - {name: SchedulingGates}
          - {name: PrioritySort}
          - {name: DefaultBinder}
          - {name: NodeResourcesFit, weight: 3}
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu}]}}
"""
OURS = """
apiVersion: fairlead.dev/v1alpha1
kind: SchedulerConfiguration
profiles:
  - schedulerName: mine
    filters: {disabled: ["*"], enabled: [NodeResourcesFit, NodeTrusted, GpuFit]}
    scores: [{plugin: Spread, weight: 0.5}]
"""
LISTED = """
profiles:
  - schedulerName: night-shift
    profile: binpack
    filters: [NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts,
              NodeResourcesFit, NodeTrusted]
"""
NOTE = "ignored: Fairlead evaluates all nodes at once, on one core"


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def run(text: str, *options: str) -> tuple[int, str]:
        Path("c.yaml").write_text(text)
        done = CliRunner().invoke(cli.app, ["check-config", "c.yaml", *options])
        return done.exit_code, done.stdout

    return run


def test_a_file_of_kube_scheduler_that_can_be_served(check) -> None:
    assert check(PACKING) == (
        0,
        """\
pods of packer
  filters: NodeResourcesFit, NodeEnding, NodeCapacityType, NodeTrusted
  scores: MostAllocated(resources={"nvidia.com/gpu": 1}) × 3
  preemption: no
note: parallelism: ignored: Fairlead evaluates all nodes at once, on one core
c.yaml: fine; `fairlead run --config c.yaml` serves it
""",
    )


def test_the_same_as_json(check) -> None:
    status, out = check(PACKING, "-o", "json")

    found = json.loads(out)
    assert status == 0
    assert found["ok"]
    assert found["kind"] == "KubeSchedulerConfiguration"
    assert found["notes"] == [{"key": "parallelism", "text": NOTE}]
    (profile,) = found["profiles"]
    assert profile["schedulerName"] == "packer"
    assert profile["scores"] == [
        {"plugin": "MostAllocated", "options": {"resources": {"nvidia.com/gpu": 1}}, "weight": 3}
    ]


def test_what_cannot_be_served_is_status_one_with_every_reason(check) -> None:
    status, out = check(PACKING.replace("parallelism: 4", "parallelism: 0") + "extenders: [{}]\n")

    assert status == 1
    assert "problem: parallelism: 0 is too small; use 1 or more\n" in out
    assert "problem: extenders[0].urlPrefix: '' is not a valid URL" in out
    assert out.endswith("c.yaml: 2 errors: fix them before running\n")


def test_a_file_of_our_own(check) -> None:
    assert check(OURS) == (
        0,
        """\
pods of mine
  filters: NodeResourcesFit, NodeTrusted, GpuFit
  scores: Spread × 0.5
  preemption: yes
c.yaml: fine; `fairlead run --config c.yaml` serves it
""",
    )


def test_a_list_of_filters_warns_of_the_rules_that_it_drops(check) -> None:
    status, out = check(LISTED)
    assert status == 0
    assert (
        "warning: profiles[0].filters: a list replaces all filters of binpack, so these rules no "
        "longer apply: VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, "
        "PodTopologySpread, InterPodAffinity, DynamicResources, NodeDeclaredFeatures, "
        "SchedulingMap, GpuFit, NodeEnding, NodeCapacityType; use enabled and disabled "
        "under filters"
    ) in out
    assert "warning: profiles[0].filters: GpuFit is missing: GPUs are counted but not" in out
    warnings = json.loads(check(LISTED, "-o", "json")[1])["warnings"]
    assert [warning["key"] for warning in warnings] == ["profiles[0].filters"] * 2


def test_how_far_a_profile_overcommits_is_told(check) -> None:
    status, out = check(
        "profiles: [{schedulerName: mine, profile: spread, overcommit: {limit: 2}}]"
    )
    assert status == 0
    assert "GpuFit(limit=2.0, high_water=0.8)" in out
    assert "scores: Spread × 1, RoomFirst × 2" in out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (OURS.replace("scores", "skores"), "did you mean 'scores'?"),
        (OURS.replace("Spread", "Spreat"), "did you mean 'Spread'?"),
        (PACKING.replace("profiles", "profile"), "did you mean 'profiles'?"),
        ("a: [", "this is not valid YAML"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_one(check, text: str, says: str) -> None:
    status, out = check(text)
    problem, verdict = out.splitlines()

    assert status == 1
    assert problem.startswith("problem: ")
    assert says in problem
    assert verdict == "c.yaml: 1 error: fix it before running"
    assert says in json.loads(check(text, "--output", "json")[1])["problems"][0]["text"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["check-config", str(tmp_path / "absent.yaml")])

    assert done.exit_code == 1
    assert "cannot read the configuration" in done.stdout
