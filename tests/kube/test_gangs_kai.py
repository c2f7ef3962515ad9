"""PodGroups of KAI: what they and their pods say, and the conditions that its users read."""

import json
from typing import Any

import pytest

from fairlead.apps.config.gangs_config import GangsConfig
from fairlead.kube.gangs.api import PodWords, Standing
from fairlead.kube.gangs.kai import POD_GROUP, SKIP, STALE_AFTER_S, SUBGROUP, KaiGangs
from fairlead.kube.gangs.registry import ALL, decode_object
from fairlead.model.gangs import GangSpec, GangState, GangStatus, Group, Membership, TopologyRule

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"


def spec(**found: Any) -> GangSpec:
    body = {"metadata": {"name": "g", "namespace": "ns"}, "spec": found}
    return decode_object(KaiGangs(), json.dumps(body).encode()).spec


def written(status: GangStatus, before: Json | None = None, now: str = NOW) -> Json | None:
    found = KaiGangs().status(Standing(before or {}, 1, "v2alpha2"), status, now)
    return found["status"] if found else None


def status(state: GangState, with_node: int = 0, message: str = "") -> GangStatus:
    return GangStatus(state, 4, 4, with_node, 0, message)


def test_the_annotation_names_the_gang_and_the_label_the_subgroup() -> None:
    labels = {SUBGROUP: "worker", "training.kubeflow.org/replica-index": "2"}
    words = PodWords("ns", "p", labels, {POD_GROUP: "pg-train-1"})
    assert ALL.read(words) == (Membership("kai/ns/pg-train-1", "worker", 2), "")


def test_a_pod_that_the_podgrouper_has_not_seen_waits_for_it() -> None:
    ungrouped = PodWords("ns", "p", scheduler="kai-scheduler")
    gang, problem = ALL.read(ungrouped)
    assert problem == ""
    assert gang is not None
    assert gang.spec is not None
    assert gang.spec.problem.startswith("waiting for KAI's podgrouper")
    grouped = PodWords("ns", "p", {}, {POD_GROUP: "pg"}, scheduler="kai-scheduler")
    assert ALL.read(grouped) == (Membership("kai/ns/pg"), "")


def test_a_pod_that_the_podgrouper_skips_is_placed_on_its_own() -> None:
    skipped = PodWords("ns", "p", {}, {SKIP: "true"}, scheduler="kai-scheduler")
    assert ALL.read(skipped) == (None, "")
    assert KaiGangs(()).membership(PodWords("ns", "p", scheduler="kai-scheduler")) is None


def test_the_names_that_the_podgrouper_serves_are_configured() -> None:
    found = GangsConfig(grouped=["gpu-scheduler"]).dialects()
    assert found.grouped == {"gpu-scheduler"}
    assert found.read(PodWords("ns", "p", scheduler="gpu-scheduler"))[0] is not None
    assert found.read(PodWords("ns", "p", scheduler="kai-scheduler")) == (None, "")


def test_a_flat_gang_has_a_minimum_and_a_queue() -> None:
    found = spec(minMember=4, queue="team-a", topologyConstraint={})
    assert found == GangSpec("kai/ns/g", 4, queue="kai/team-a", stale_after_s=STALE_AFTER_S)


def test_subgroups_are_a_tree_by_their_parents() -> None:
    found = spec(
        minSubGroup=1,
        subGroups=[
            {"name": "a", "minSubGroup": 1},
            {"name": "a-0", "parent": "a", "minMember": 2},
            {"name": "a-1", "parent": "a", "minMember": 2,
             "topologyConstraint": {"requiredTopologyLevel": "rack"}},
            {"name": "b", "minMember": 3},
        ],
    )  # fmt: skip
    leaves = (Group("a-0", 2), Group("a-1", 2, topology=(TopologyRule("rack"),)))
    assert found.groups == (Group("a", 1, leaves), Group("b", 3))
    assert found.least_groups == 1


def test_without_a_number_all_subgroups_are_needed() -> None:
    found = spec(
        minMember=3,
        subGroups=[
            {"name": "master", "minMember": 1, "parent": "all"},
            {"name": "worker", "minMember": 2, "parent": "all"},
            {"name": "all"},
        ],
    )
    assert found.groups == (Group("all", 2, (Group("master", 1), Group("worker", 2))),)
    assert found.least_groups is None


def test_required_and_preferred_levels_are_rules() -> None:
    levels = {"topology": "cluster", "requiredTopologyLevel": "block",
              "preferredTopologyLevel": "rack"}  # fmt: skip
    assert spec(minMember=2, topologyConstraint=levels).topology == (
        TopologyRule("block", topology="kai/cluster"),
        TopologyRule("rack", required=False, topology="kai/cluster"),
    )


@pytest.mark.parametrize(("text", "after_s"), [("5m", 300.0), ("0s", 0.0), ("-1s", None)])
def test_how_long_a_gang_may_be_below_its_minimum(text: str, after_s: float | None) -> None:
    assert spec(minMember=2, stalenessGracePeriod=text).stale_after_s == after_s


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"minMember": -1}, "spec.minMember is -1; write 0 or more"),
        ({"subGroups": [{"name": "a", "parent": "x"}]}, "which is not among spec.subGroups"),
        (
            {"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
            "parents of each other",
        ),
        ({"subGroups": [{"name": "a", "parent": "a"}]}, "parents of each other"),
        ({"subGroups": [{"name": ""}]}, "spec.subGroups.name is empty"),
        ({"subGroups": [{"name": "a"}] * 2}, "two of its groups are named 'a'"),
        (
            {"subGroups": [{"name": "a"}, {"name": "b"}, {"name": "b", "parent": "a"}]},
            "two of its groups are named 'b'",
        ),
        ({"subGroups": [{"name": str(n)} for n in range(2000)]}, "the limit is 1024"),
        (
            {"subGroups": [{"name": str(n), "parent": str(n - 1) if n else None}
                           for n in range(100)]},
            "nested 9 deep; the limit is 8",
        ),
        ({"minSubGroup": 2, "subGroups": [{"name": "a"}]}, "but there are 1 subgroups"),
        ({"stalenessGracePeriod": "soon"}, "write a duration such as 60s"),
        ({"preemptionDelay": "-5m"}, "spec.preemptionDelay is '-5m'; write a duration such as 5m"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_a_problem(found: Json, sentence: str) -> None:
    assert sentence in spec(**found).problem


def test_the_condition_says_why_and_goes_when_pods_have_nodes() -> None:
    found = written(status(GangState.UNSCHEDULABLE, message="no node")) or {}
    assert found["schedulingConditions"] == [
        {
            "type": "UnschedulableOnNodePool",
            "nodePool": "default",
            "reason": "Unschedulable",
            "message": "no node",
            "transitionID": "1",
            "lastTransitionTime": NOW,
            "status": "True",
        }
    ]
    assert written(status(GangState.UNSCHEDULABLE, message="no node"), found, LATER) is None
    assert written(status(GangState.SCHEDULED, 4), found, LATER) == {"schedulingConditions": []}


def test_a_new_message_keeps_the_time_of_the_condition() -> None:
    found = written(status(GangState.UNSCHEDULABLE, message="a")) or {}
    later = written(status(GangState.UNSCHEDULABLE, message="b"), found, LATER) or {}
    condition = later["schedulingConditions"][0]
    assert (condition["message"], condition["lastTransitionTime"]) == ("b", NOW)


@pytest.mark.parametrize(
    ("before", "number"),
    [
        ({"status": "True", "transitionID": "7"}, "7"),
        ({"status": "False", "transitionID": "7"}, "1"),
        ({"status": "True"}, "1"),
    ],
)
def test_a_condition_keeps_its_number_while_it_is_true(before: Json, number: str) -> None:
    standing = {"schedulingConditions": [{"type": "UnschedulableOnNodePool", **before}]}
    found = written(status(GangState.UNSCHEDULABLE, message="a"), standing) or {}
    (condition,) = found["schedulingConditions"]
    assert condition["transitionID"] == number


def test_nothing_is_written_while_pods_have_nodes_or_gather() -> None:
    assert written(status(GangState.UNSCHEDULABLE, 1, "x")) is None
    assert written(status(GangState.GATHERING)) is None


def test_what_others_write_stays() -> None:
    other = {"type": "UnschedulableOnNodePool", "nodePool": "b", "status": "True"}
    before = {"schedulingConditions": [other], "resourcesStatus": {"requested": {}}}
    found = written(status(GangState.UNSCHEDULABLE, message="x"), before) or {}
    assert list(found) == ["schedulingConditions"]
    assert found["schedulingConditions"][0] == other


@pytest.mark.parametrize(
    ("text", "delay_s"), [("5m", 300.0), ("", 0.0), ("99999999h", 31_622_400.0)]
)
def test_the_delay_before_a_gang_evicts_others(text: str, delay_s: float) -> None:
    assert spec(minMember=2, preemptionDelay=text).eviction_delay_s == delay_s
