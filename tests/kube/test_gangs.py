"""What pods and objects say about gangs, in every dialect."""

import json
from typing import Any

import pytest

from fairlead.kube.codec import decode_pod
from fairlead.kube.gangs.api import PodWords, Standing
from fairlead.kube.gangs.coscheduling import POD_GROUP
from fairlead.kube.gangs.registry import ALL, DIALECTS, GangDialects, decode_object
from fairlead.model.gangs import (
    Counting,
    GangSpec,
    GangState,
    GangStatus,
    Membership,
    TopologyRule,
)
from fairlead.model.pods import Pod

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


def pod(spec: Json | None = None, *, node: str = "", **meta: Json) -> Pod:
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **meta},
        "spec": {"containers": [{"name": "c"}], **({"nodeName": node} if node else {}),
                 **(spec or {})},
    }  # fmt: skip
    return decode_pod(json.dumps(body).encode())


def spec_of(name: str, spec: Any, status: Any = None) -> GangSpec:
    """What an object of this dialect says."""
    dialect = next(each for each in DIALECTS if each.name == name)
    body = {"metadata": {"name": "g", "namespace": "ns"}, "spec": spec, "status": status or {}}
    return decode_object(dialect, json.dumps(body).encode()).spec


def native(**spec: Any) -> GangSpec:
    return spec_of("native", spec)


def gang_policy(count: Any) -> Json:
    return {"gang": {"minCount": count}}


def test_a_pod_without_a_word_of_gangs_is_in_none() -> None:
    found = pod(labels={"app": "a"}, annotations={"example.com/x": "y"})
    assert (found.gang, found.problem) == (None, "")


def test_the_scheduling_group_names_a_native_gang() -> None:
    found = pod({"schedulingGroup": {"podGroupName": "train"}})
    assert found.gang == Membership("native/ns/train")


def test_the_label_names_a_gang_of_scheduler_plugins() -> None:
    assert pod(labels={POD_GROUP: "train"}).gang == Membership("scheduler-plugins/ns/train")


def test_a_pod_of_two_dialects_is_refused_in_one_sentence() -> None:
    found = pod({"schedulingGroup": {"podGroupName": "a"}}, labels={POD_GROUP: "b"})
    assert found.gang is None
    assert found.problem == (
        "the pod is invalid: it belongs to two gangs, native/ns/a and scheduler-plugins/ns/b; "
        "remove the label, annotation or field of one of them"
    )


def test_a_bound_pod_of_two_dialects_is_only_in_no_gang() -> None:
    found = pod({"schedulingGroup": {"podGroupName": "a"}}, node="n", labels={POD_GROUP: "b"})
    assert (found.gang, found.problem) == (None, "")


def test_a_dialect_that_is_off_is_not_read() -> None:
    only = GangDialects(each for each in DIALECTS if each.name == "native")
    assert not only.concern({POD_GROUP: "a"}, None)
    assert only.read(PodWords("ns", "p", {POD_GROUP: "a"})) == (None, "")


def test_names_of_dialects_are_those_of_their_keys() -> None:
    names = [dialect.name for dialect in DIALECTS]
    assert len(set(names)) == len(names)
    for dialect in DIALECTS:
        assert ALL.of(f"{dialect.name}/ns/g") is dialect
    assert ALL.of("other/ns/g") is None


@pytest.mark.parametrize("word", sorted({k for each in DIALECTS for k in each.label_keys}))
@pytest.mark.parametrize("value", ["", "x" * 300])
def test_a_label_that_names_no_object_is_a_problem(word: str, value: str) -> None:
    found = ALL.read(PodWords("ns", "p", {word: value}))
    assert found[0] is None
    assert found[1].startswith("the pod is invalid: ")


# -- native ----------------------------------------------------------------------------------------


def test_a_native_gang_is_read_in_the_form_of_1_36() -> None:
    found = native(
        schedulingPolicy=gang_policy(4),
        disruptionMode="PodGroup",
        priority=7,
        schedulingConstraints={"topology": [{"key": "rack"}]},
    )
    assert found == GangSpec(
        "native/ns/g",
        4,
        priority=7,
        topology=(TopologyRule("rack"),),
        counting=Counting.ALIVE,
        evicted_whole=True,
    )


@pytest.mark.parametrize(
    ("mode", "whole"),
    [("Pod", False), (None, False), ({"single": {}}, False), ({"all": {}}, True)],
)
def test_a_native_gang_says_whether_it_is_evicted_whole(mode: Any, whole: bool) -> None:
    assert native(schedulingPolicy=gang_policy(2), disruptionMode=mode).evicted_whole is whole


def test_a_basic_group_needs_no_number_of_pods() -> None:
    assert native(schedulingPolicy={"basic": {}}).minimum == 1


@pytest.mark.parametrize(
    ("count", "problem"),
    [
        (0, "spec.schedulingPolicy.gang.minCount is 0; write 1 or more"),
        (-3, "spec.schedulingPolicy.gang.minCount is -3; write 1 or more"),
        (2**31 - 1, "spec.schedulingPolicy.gang.minCount is 2147483647; the limit is 100000"),
        ("4", "its spec cannot be read: Expected `int | null`, got `str`"),
        (None, "spec.schedulingPolicy.gang.minCount is missing"),
    ],
)
def test_a_minimum_that_makes_no_sense_is_named(count: Any, problem: str) -> None:
    found = native(schedulingPolicy=gang_policy(count))
    assert found.problem.startswith(f"the PodGroup ns/g is invalid: {problem}")


@pytest.mark.parametrize("spec", [None, [], "x", 7, {"schedulingPolicy": []}])
def test_a_spec_of_another_form_is_a_problem_not_an_exception(spec: Any) -> None:
    for dialect in DIALECTS:
        if dialect.kind:
            assert spec_of(dialect.name, spec).key == f"{dialect.name}/ns/g"


def status_of(
    state: GangState, standing: Json, version: str = "v1beta1", name: str = "native"
) -> Json | None:
    dialect = next(each for each in DIALECTS if each.name == name)
    status = GangStatus(state, members=4, needed=4, with_node=0, finished=0, message="why")
    return dialect.status(Standing(standing, 3, version), status, NOW)


def condition(status: str, reason: str, message: str, **more: Any) -> Json:
    return {
        "type": "PodGroupInitiallyScheduled", "status": status, "observedGeneration": 3,
        "lastTransitionTime": NOW, "reason": reason, "message": message, **more,
    }  # fmt: skip


def test_a_refused_native_gang_says_why() -> None:
    assert status_of(GangState.UNSCHEDULABLE, {}) == {
        "status": {"conditions": [condition("False", "Unschedulable", "why")]}
    }


def test_the_condition_has_the_name_of_its_version() -> None:
    found = status_of(GangState.SCHEDULED, {}, "v1alpha2")
    expected = condition("True", "Scheduled", "", type="PodGroupScheduled")
    assert found == {"status": {"conditions": [expected]}}


def test_conditions_of_others_are_kept() -> None:
    other = {"type": "Other", "status": "True"}
    standing = {"conditions": [other, condition("False", "Unschedulable", "old")]}
    found = status_of(GangState.INVALID, standing)
    assert found == {"status": {"conditions": [other, condition("False", "SchedulerError", "why")]}}


@pytest.mark.parametrize(
    ("state", "standing"),
    [
        (GangState.UNSCHEDULABLE, condition("False", "Unschedulable", "why")),
        (GangState.UNSCHEDULABLE, condition("True", "Scheduled", "")),
        (GangState.SCHEDULED, condition("True", "Scheduled", "")),
        (GangState.GATHERING, condition("False", "Unschedulable", "why")),
    ],
)
def test_what_stands_there_or_is_final_is_not_written(state: GangState, standing: Json) -> None:
    assert status_of(state, {"conditions": [standing]}) is None


def test_the_time_of_a_condition_changes_only_with_its_status() -> None:
    early = "2025-01-01T00:00:00Z"
    before = condition("False", "Unschedulable", "other", lastTransitionTime=early)
    found = status_of(GangState.UNSCHEDULABLE, {"conditions": [before]})
    assert found is not None
    assert found["status"]["conditions"][0]["lastTransitionTime"] == early


# -- scheduler-plugins -----------------------------------------------------------------------------


def test_a_gang_of_scheduler_plugins_is_read() -> None:
    spec = {
        "minMember": 3,
        "minResources": {"nvidia.com/gpu": 24, "cpu": "500m"},
        "scheduleTimeoutSeconds": 60,
    }
    assert spec_of("scheduler-plugins", spec) == GangSpec(
        "scheduler-plugins/ns/g",
        3,
        least_resources=(("cpu", 500), ("nvidia.com/gpu", 24)),
        longest_part_s=60.0,
    )


def test_amounts_that_make_no_sense_are_named() -> None:
    found = spec_of("scheduler-plugins", {"minMember": 3, "minResources": {"cpu": "much"}})
    assert found.problem.startswith("the PodGroup ns/g is invalid: spec.minResources: ")


def test_the_status_of_scheduler_plugins_is_left_to_its_controller() -> None:
    assert status_of(GangState.SCHEDULED, {}, "v1alpha1", "scheduler-plugins") is None
