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
    Group,
    GroupClaim,
    GroupClaims,
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
    meta = {"name": "g", "namespace": "ns", "uid": "u-g"}
    body = {"metadata": meta, "spec": spec, "status": status or {}}
    return decode_object(dialect, json.dumps(body).encode()).spec


def native(**spec: Any) -> GangSpec:
    return spec_of("native", spec)


def gang_policy(count: Any) -> Json:
    return {"gang": {"minCount": count}}


def test_a_pod_without_a_word_of_gangs_is_in_none() -> None:
    found = pod(labels={"app": "a"}, annotations={"example.com/x": "y"})
    assert (found.gang, found.problem) == (None, "")


def ours(**said: str) -> Pod:
    """A pod with words of Fairlead's own gangs: `gang_min="2"`."""
    words = {f"fairlead.dev/{key.replace('_', '-')}": text for key, text in said.items()}
    return pod(annotations=words)


def test_annotations_of_ours_say_how_many_pods_a_gang_needs_and_may_have() -> None:
    found = ours(gang="train", gang_min="2", gang_max="4").gang
    assert found is not None
    assert found.spec is not None
    assert (found.gang, found.spec.minimum, found.spec.maximum) == ("fairlead/ns/train", 2, 4)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"gang": "g", "gang_min": "3", "gang_max": "2"}, "gang-max is 2; write 3 or more"),
        ({"gang": "g", "gang_min": "2", "gang_max": "many"}, "fairlead.dev/gang-max"),
        ({"gang": "g", "gang_max": "4"}, "fairlead.dev/gang-min is missing"),
        ({"gang_max": "4"}, "fairlead.dev/gang is missing; write the name of the gang"),
    ],
)
def test_annotations_of_ours_that_make_no_sense_are_named(
    said: dict[str, str], problem: str
) -> None:
    assert problem in ours(**said).problem


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


@pytest.mark.parametrize(
    "word", sorted({k for each in DIALECTS if each.kind for k in each.label_keys})
)
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
        evicted_whole=True,
    )


@pytest.mark.parametrize(
    ("mode", "whole"),
    [("Pod", False), (None, False), ({"single": {}}, False), ({"all": {}}, True)],
)
def test_a_native_gang_says_whether_it_is_evicted_whole(mode: Any, whole: bool) -> None:
    assert native(schedulingPolicy=gang_policy(2), disruptionMode=mode).evicted_whole is whole


@pytest.mark.parametrize("dialect", ["native", "composite"])
@pytest.mark.parametrize(
    ("policy", "preempts"), [(None, True), ("PreemptLowerPriority", True), ("Never", False)]
)
def test_a_group_says_whether_others_are_evicted_for_it(
    dialect: str, policy: str | None, preempts: bool
) -> None:
    said = {"preemptionPolicy": policy} if policy else {}
    assert spec_of(dialect, {"schedulingPolicy": {"basic": {}}, **said}).preempts is preempts


def test_a_group_has_claims_for_all_of_its_pods() -> None:
    claims = [
        {"name": "channel", "resourceClaimTemplateName": "t"},
        {"name": "gpus", "resourceClaimName": "c"},
    ]
    found = native(schedulingPolicy=gang_policy(2), resourceClaims=claims)
    entries = GroupClaim("channel", template="t"), GroupClaim("gpus", "c")
    assert found.claims == GroupClaims("u-g", entries)
    assert not found.problem
    assert native(schedulingPolicy=gang_policy(2), resourceClaims=[]).claims is None


def test_a_group_may_be_part_of_a_composite_one() -> None:
    found = native(schedulingPolicy=gang_policy(2), parentCompositePodGroupName="root")
    assert found.part_of == "composite/ns/root"
    assert found.minimum == 2


def composite(**spec: Any) -> GangSpec:
    return spec_of("composite", spec)


def test_a_composite_group_needs_groups() -> None:
    found = composite(
        schedulingPolicy={"gang": {"minGroupCount": 2}}, parentCompositePodGroupName="root",
        schedulingConstraints={"topology": [{"key": "rack"}]}, disruptionMode={"all": {}},
        priority=7,
    )  # fmt: skip
    assert (found.key, found.least_groups, found.part_of) == (
        "composite/ns/g",
        2,
        "composite/ns/root",
    )
    assert (found.topology, found.evicted_whole, found.priority) == (
        (TopologyRule("rack"),),
        True,
        7,
    )
    assert composite(schedulingPolicy={"basic": {}}).least_groups == 1


def test_a_composite_group_without_a_sensible_number_is_named() -> None:
    found = composite(schedulingPolicy={"gang": {"minGroupCount": 0}})
    assert found.problem == (
        "the CompositePodGroup ns/g is invalid: spec.schedulingPolicy.gang.minGroupCount is 0; "
        "write 1 or more"
    )


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


# -- Koordinator -----------------------------------------------------------------------------------

GANG = "gang.scheduling.koordinator.sh/"


def koordinated(**said: str) -> Pod:
    words = {f"{GANG}{key.replace('_', '-')}": value for key, value in said.items()}
    return pod(annotations=words)


def test_koordinator_needs_no_object_where_annotations_say_all() -> None:
    found = koordinated(name="g", min_available="3", waiting_time="90s", total_number="4").gang
    key = "koordinator/ns/g"
    spec = GangSpec(key, 3, counting=Counting.ONCE, longest_part_s=90.0)
    assert found == Membership(key, spec=spec)


def test_koordinator_reads_its_older_labels() -> None:
    label = "pod-group.scheduling.sigs.k8s.io/"
    found = pod(labels={f"{label}name": "g", f"{label}min-available": "2"}).gang
    key = "koordinator/ns/g"
    assert found == Membership(key, spec=GangSpec(key, 2, counting=Counting.ONCE))


def test_koordinator_names_an_object_by_label() -> None:
    assert pod(labels={"pod-group.scheduling.sigs.k8s.io": "g"}).gang == Membership(
        "koordinator/ns/g"
    )
    assert spec_of("koordinator", {"minMember": 2}).counting is Counting.ONCE


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({}, f"{GANG}min-available is missing"),
        ({"min_available": "0"}, f"{GANG}min-available is 0; write 1 or more"),
        ({"min_available": "-1"}, f"{GANG}min-available is -1; write 1 or more"),
        ({"min_available": "many"}, f"{GANG}min-available is 'many'; write a whole number"),
        ({"min_available": "1" * 40}, f"{GANG}min-available is '11111111111111111111111111111111'"),
        ({"min_available": "2", "match_policy": "x"}, f"{GANG}match-policy is 'x'; write one of"),
        ({"min_available": "2", "waiting_time": "long"}, "'long' is no length of time"),
        ({"min_available": "2", "groups": "["}, f"{GANG}groups cannot be read"),
        ({"min_available": "2", "groups": '["ns/g","other/h"]'}, f"{GANG}groups names other gangs"),
    ],
)
def test_koordinators_annotations_that_make_no_sense_are_named(said: Json, problem: str) -> None:
    found = koordinated(name="g", **said)
    assert found.problem.startswith(f"the pod is invalid: {problem}")
    assert found.gang is None


def test_a_gang_of_koordinator_that_names_only_itself_is_one_gang() -> None:
    assert koordinated(name="g", min_available="2", groups='["ns/g"]').problem == ""


def test_koordinators_status_counts_what_has_a_node() -> None:
    wanted = {"status": {"phase": "Scheduled", "scheduled": 0}}
    assert status_of(GangState.SCHEDULED, {}, "v1alpha1", "koordinator") == wanted
    assert status_of(GangState.SCHEDULED, wanted["status"], "v1alpha1", "koordinator") is None


# -- Grove -----------------------------------------------------------------------------------------


def pack(required: str) -> Json:
    return {"packConstraint": {"required": required}}


def test_a_pod_gang_is_a_tree() -> None:
    found = spec_of("grove", {
        "podgroups": [
            {"name": "a", "minReplicas": 2, "topologyConstraint": pack("host")},
            {"name": "b", "minReplicas": 1},
            {"name": "c", "minReplicas": 4},
        ],
        "topologyConstraint": {"packConstraint": {"preferred": "zone"}},
        "topologyConstraintGroupConfigs": [
            {"name": "x", "podGroupNames": ["a", "b"], "topologyConstraint": pack("rack")}
        ],
    })  # fmt: skip
    inner = (Group("a", 2, topology=(TopologyRule("host"),)), Group("b", 1))
    assert found == GangSpec(
        "grove/ns/g",
        7,
        groups=(Group("groups/x", 2, inner, topology=(TopologyRule("rack"),)), Group("c", 4)),
        topology=(TopologyRule("zone", required=False),),
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"podgroups": [{"name": "a", "minReplicas": -1}]}, "spec.podgroups[a].minReplicas is -1"),
        ({"podgroups": [{"minReplicas": 1}]}, "spec.podgroups.name is empty"),
        ({"podgroups": [{"name": f"{n}"} for n in range(2000)]}, "it has 2000 podgroups"),
        (
            {"podgroups": [{"name": "a"}],
             "topologyConstraintGroupConfigs": [{"podGroupNames": ["a"]}] * 2},
            "spec.topologyConstraintGroupConfigs names the podgroup 'a', which is unknown",
        ),
    ],
)  # fmt: skip
def test_a_pod_gang_that_makes_no_sense_is_named(spec: Json, problem: str) -> None:
    assert spec_of("grove", spec).problem.startswith(f"the PodGang ns/g is invalid: {problem}")


def test_a_pod_gang_without_minimums_is_being_updated() -> None:
    assert spec_of("grove", {"podgroups": [{"name": "a", "minReplicas": 0}]}).minimum == 1


def test_the_group_of_another_api_applies_to_pods_of_grove() -> None:
    labels = {"grove.io/podgang": "g", "grove.io/podclique": "c", "grove.io/pod-index": "3"}
    assert pod(labels=labels).gang == Membership("grove/ns/g", "c", 3)
    found = pod(labels=labels, annotations={"pod-group-name": "g"})
    assert found.problem == ""
    assert found.gang is not None
    assert found.gang.gang == "kai/ns/g"


# -- YuniKorn --------------------------------------------------------------------------------------

YUNIKORN = "yunikorn.apache.org/"
TASKS = [
    {"name": "driver", "minMember": 1, "minResource": {"cpu": "1"}},
    {"name": "worker", "minMember": 3, "minResource": {"cpu": "2", "nvidia.com/gpu": 1}},
]


def tasked(tasks: Any, group: str | None, **labels: str) -> Pod:
    text = tasks if isinstance(tasks, str) else json.dumps(tasks)
    words = {
        **({f"{YUNIKORN}task-groups": text} if tasks is not None else {}),
        **({f"{YUNIKORN}task-group-name": group} if group is not None else {}),
    }
    return pod(annotations=words, labels=labels or {f"{YUNIKORN}app-id": "app"})


def test_task_groups_are_a_gang_without_an_object() -> None:
    key = "yunikorn/ns/app"
    spec = GangSpec(key, 4, groups=(Group("driver", 1), Group("worker", 3)))
    assert tasked(TASKS, "worker").gang == Membership(key, "worker", spec=spec)
    assert tasked(None, "worker").gang == Membership(key, "worker")


def test_a_spark_driver_starts_when_there_is_room_for_its_executors() -> None:
    key = "yunikorn/ns/spark-1"
    spec = GangSpec(key, 1, least_resources=(("cpu", 7000), ("nvidia.com/gpu", 3)))
    spark = {"spark-app-selector": "spark-1"}
    assert tasked(TASKS, "driver", **spark).gang == Membership(key, spec=spec)
    assert tasked(None, "worker", **spark).gang == Membership(key)


@pytest.mark.parametrize(
    ("tasks", "group", "problem"),
    [
        (TASKS, None, "it has yunikorn.apache.org/task-groups, but not"),
        (TASKS, "", "yunikorn.apache.org/task-group-name is empty"),
        ([], "a", "yunikorn.apache.org/task-groups has 0 groups; write 1 to 1024"),
        ("[" * 4000, "a", "yunikorn.apache.org/task-groups cannot be read"),
        ({"a": 1}, "a", "yunikorn.apache.org/task-groups cannot be read"),
        ([{"name": "a", "minMember": 0}], "a", "yunikorn.apache.org/task-groups: minMember is 0"),
        ([{"name": "a", "minMember": "x"}], "a", "yunikorn.apache.org/task-groups cannot be read"),
        ([{"name": "a", "minMember": 1}] * 2, "a", "yunikorn.apache.org/task-groups has two"),
        ([{"name": str(n), "minMember": 90_000} for n in range(3)], "1", "the sum of minMember"),
        ([{"name": str(n), "minMember": 1} for n in range(2000)], "1", "yunikorn.apache.org/task-"),
    ],
)  # fmt: skip
def test_task_groups_that_make_no_sense_are_named(tasks: Any, group: Any, problem: str) -> None:
    assert tasked(tasks, group).problem.startswith(f"the pod is invalid: {problem}")


def test_a_task_group_without_an_application_is_named() -> None:
    found = tasked(TASKS, "worker", app="a")
    assert found.problem.startswith("the pod is invalid: it has a task group, but no label")


# -- Kueue -----------------------------------------------------------------------------------------

KUEUE = "kueue.x-k8s.io/"


def queued(total: str | None = "3", **annotations: str) -> Pod:
    words = {f"{KUEUE}{key.replace('_', '-')}": value for key, value in annotations.items()}
    if total is not None:
        words[f"{KUEUE}pod-group-total-count"] = total
    return pod(labels={f"{KUEUE}pod-group-name": "g"}, annotations=words)


def test_a_pod_group_of_kueue_is_a_gang_of_all_its_pods() -> None:
    assert queued().gang == Membership("kueue/ns/g", spec=GangSpec("kueue/ns/g", 3))


@pytest.mark.parametrize(
    "found",
    [
        queued(total=None),
        queued(workload="w"),
        queued(podset_required_topology="rack"),
        queued(pod_group_fast_admission="true"),
        queued(pod_group_serving="true"),
    ],
)
def test_pods_that_kueue_lets_in_one_by_one_are_no_gang(found: Pod) -> None:
    assert (found.gang, found.problem) == (None, "")


def test_a_pod_of_kueue_may_be_in_a_gang_of_another_api() -> None:
    found = pod(
        labels={f"{KUEUE}pod-group-name": "g", POD_GROUP: "train"},
        annotations={f"{KUEUE}pod-group-total-count": "3"},
    )
    assert found.gang == Membership("scheduler-plugins/ns/train")


def test_ranks_are_those_of_the_controller() -> None:
    labels = {POD_GROUP: "train", "batch.kubernetes.io/job-completion-index": "7"}
    assert pod(labels=labels).gang == Membership("scheduler-plugins/ns/train", rank=7)
