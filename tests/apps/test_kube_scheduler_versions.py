"""The same file for kube-scheduler, with one version of Kubernetes and with another."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from examples import examples
from fairlead.apps import cli
from fairlead.apps.config import kube_scheduler
from fairlead.apps.config.findings import Translation
from fairlead.apps.config.kube_scheduler.catalogue import catalogue_of
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.model.behaviour import KNOWN, KUBERNETES_1_36, KUBERNETES_1_37, Behaviour
from fairlead.model.errors import ConfigError
from fairlead.plugins.registry import Registry
from fairlead.plugins.shapes import ShapePoint
from fairlead.plugins.volume_binding import VolumeBinding
from yaml_texts import yaml_of

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PLUGINS = "profiles[0].plugins"
SHAPE = "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [%s]}}]}]"
FULLER = SHAPE % "{utilization: 0, score: 0}, {utilization: 100, score: 10}"
LEAVE_OUT = "but 1.36 does not; remove it on Kubernetes 1.36"


def read(text: str, behaviour: Behaviour) -> Translation:
    found = kube_scheduler.translate(HEAD + text, Registry(), behaviour)
    assert found is not None
    return found


def problems(text: str, behaviour: Behaviour) -> list[str]:
    return [str(problem) for problem in read(text, behaviour).problems]


def a_file(folder: Path, text: str) -> Path:
    file = folder / "scheduler.yaml"
    file.write_text(HEAD + text)
    return file


def test_every_known_version_has_a_table_of_its_own() -> None:
    tables = [catalogue_of(known) for known in KNOWN]
    assert [table.behaviour for table in tables] == list(KNOWN)
    assert len({tuple(table.plugins) for table in tables}) == len(KNOWN)


def test_a_plain_file_makes_the_same_rules_in_the_order_of_the_version() -> None:
    found = {known: read("", known).profiles["default-scheduler"] for known in KNOWN}
    old, new = found[KUBERNETES_1_36], found[KUBERNETES_1_37]

    assert [rule.name for rule in old.filters][:2] == ["NodeUnschedulable", "NodeName"]
    assert [rule.name for rule in new.filters][:2] == ["NodeName", "NodeUnschedulable"]
    assert new.filters[2:] == old.filters[2:]
    assert new.scores == old.scores
    assert all(problems("", known) == [] for known in KNOWN)


_NAMED = st.sampled_from([*catalogue_of(KUBERNETES_1_36).plugins, "*"]).map(lambda n: {"name": n})
_SETS = st.fixed_dictionaries(
    {}, optional={"enabled": st.lists(_NAMED, max_size=2), "disabled": st.lists(_NAMED, max_size=2)}
)
_POINTS = st.sampled_from(["multiPoint", "filter", "score", "preFilter", "postFilter"])


@given(plugins=st.dictionaries(_POINTS, _SETS, max_size=2))
@examples(200)
def test_versions_that_take_a_file_make_the_same_rules_of_it(plugins: dict[str, Any]) -> None:
    text = yaml.safe_dump({"profiles": [{"plugins": json.loads(json.dumps(plugins))}]})
    found = [read(text, known) for known in KNOWN]
    taken = [each.profiles["default-scheduler"] for each in found if not each.problems]

    for old, new in pairwise(taken):
        assert sorted(map(repr, new.filters)) == sorted(map(repr, old.filters))
        assert sorted(map(repr, new.scores)) == sorted(map(repr, old.scores))
        assert new.preempts == old.preempts


@pytest.mark.parametrize(
    ("plugins", "key", "name"),
    [
        ("podGroupPostFilter: {}", "podGroupPostFilter", "podGroupPostFilter"),
        (
            "podGroupPostFilter: {disabled: [{name: '*'}]}",
            "podGroupPostFilter",
            "podGroupPostFilter",
        ),
        (
            "permit: {enabled: [{name: DeferredPodScheduling}]}",
            "permit.enabled[0]",
            "DeferredPodScheduling",
        ),
    ],
)
def test_what_only_the_newer_version_has_is_named(plugins: str, key: str, name: str) -> None:
    text = f"profiles: [{{plugins: {{{plugins}}}}}]"

    says = f"kube-scheduler 1.37 has {name}, {LEAVE_OUT}"
    assert problems(text, KUBERNETES_1_36) == [f"{PLUGINS}.{key}: {says}"]
    assert problems(text, KUBERNETES_1_37) == []


def test_a_rule_of_the_newer_version_that_we_do_not_have_is_named_there_too() -> None:
    text = "profiles: [{plugins: {multiPoint: {enabled: [{name: DeferredPodScheduling}]}}}]"

    (problem,) = problems(text, KUBERNETES_1_37)
    assert problem.startswith(f"{PLUGINS}.filter: DeferredPodScheduling is not supported yet; ")


def test_a_rule_that_needs_no_preparation_may_go_without() -> None:
    text = "profiles: [{plugins: {preFilter: {disabled: [{name: NodeName}, {name: %s}]}}}]"

    assert problems(text % "TaintToleration", KUBERNETES_1_37) == []
    assert len(problems(text % "NodeAffinity", KUBERNETES_1_37)) == 1


def test_the_shape_for_storage_is_honoured_where_storage_is_scored() -> None:
    (refused,) = problems(FULLER, KUBERNETES_1_36)
    assert refused.endswith("kube-scheduler 1.36 does not score storage; remove it")

    found = read(FULLER, KUBERNETES_1_37)
    scores = [score for score, _ in found.profiles["default-scheduler"].scores]
    assert VolumeBinding((ShapePoint(0, 0), ShapePoint(100, 10))) in scores
    assert found.problems == []
    assert not [note for note in found.notes if "pluginConfig" in note.key]


def test_a_shape_for_storage_must_rise() -> None:
    (problem,) = problems(SHAPE % "{utilization: 5}, {utilization: 5}", KUBERNETES_1_37)
    assert "args.shape[1].utilization: 5 is not ascending" in problem


def test_no_shape_for_storage_is_the_default(tmp_path: Path) -> None:
    assert problems(SHAPE % "", KUBERNETES_1_37) == []


def test_run_meets_the_server_before_it_refuses_what_only_some_versions_take(
    tmp_path: Path,
) -> None:
    planned = plan(RunOptions(config=a_file(tmp_path, FULLER)))

    planned.meet(KUBERNETES_1_37)
    says = r"shape: .* remove it \(the API server is Kubernetes 1\.36\)"
    with pytest.raises(ConfigError, match=says):
        planned.meet(KUBERNETES_1_36)


def test_what_every_version_takes_meets_any_server(tmp_path: Path) -> None:
    planned = plan(RunOptions(config=a_file(tmp_path, "parallelism: 4\n")))
    for known in KNOWN:
        planned.meet(known)


@pytest.mark.parametrize(
    ("options", "status", "line", "verdict"),
    [
        ([], 0, "not on Kubernetes 1.36: profiles", "serves it, but not on Kubernetes 1.36"),
        (["--kubernetes", "1.37"], 0, "", "serves it"),
        (["--kubernetes", "1.36"], 1, "problem: profiles", "1 error: fix it before running"),
    ],
)
def test_check_config_tells_which_versions_a_file_is_for(
    tmp_path: Path, options: list[str], status: int, line: str, verdict: str
) -> None:
    file = a_file(tmp_path, FULLER)

    done = CliRunner().invoke(cli.app, ["check-config", str(file), *options])

    *lines, last = done.stdout.splitlines()
    assert done.exit_code == status
    assert [told for told in lines if "storage" in told and told.startswith(line)] or not line
    assert sum("does not score storage" in told for told in lines) == bool(line)
    assert verdict in last


def test_check_config_knows_no_other_versions(tmp_path: Path) -> None:
    file = a_file(tmp_path, "")

    done = CliRunner().invoke(cli.app, ["check-config", str(file), "--kubernetes", "1.12"])

    assert done.exit_code == 2
    assert "1.36, 1.37" in done.stderr


def test_the_report_as_data_names_the_versions(tmp_path: Path) -> None:
    file = a_file(tmp_path, FULLER)

    done = CliRunner().invoke(cli.app, ["check-config", str(file), "-o", "json"])

    assert list(yaml_of(done.stdout)["refusals"]) == ["1.36"]
