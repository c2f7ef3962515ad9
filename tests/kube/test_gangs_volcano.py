"""PodGroups of Volcano: what they and their pods say, and the status that its users read."""

import json
from typing import Any

import pytest

from fairlead.kube.gangs.api import PodWords, Standing
from fairlead.kube.gangs.registry import ALL, decode_object
from fairlead.kube.gangs.volcano import GROUP_NAMES, VolcanoGangs
from fairlead.model.gangs import GangSpec, GangState, GangStatus, Group, Membership, TopologyRule

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"


def spec(**found: Any) -> GangSpec:
    body = {"metadata": {"name": "g", "namespace": "ns"}, "spec": found}
    return decode_object(VolcanoGangs(), json.dumps(body).encode()).spec


def written(status: GangStatus, before: Json | None = None, now: str = NOW) -> Json | None:
    found = VolcanoGangs().status(Standing(before or {}, 1, "v1beta1"), status, now)
    return found["status"] if found else None


def status(state: GangState, with_node: int = 0, finished: int = 0, **more: Any) -> GangStatus:
    return GangStatus(state, **{"members": 4, "needed": 4, "with_node": with_node,
                                "finished": finished, **more})  # fmt: skip


@pytest.mark.parametrize("key", GROUP_NAMES)
def test_an_annotation_names_the_gang_of_a_pod(key: str) -> None:
    words = PodWords("ns", "p", {"volcano.sh/task-index": "3"},
                     {key: "train", "volcano.sh/task-spec": "worker"})  # fmt: skip
    assert ALL.read(words) == (Membership("volcano/ns/train", "worker", 3), "")


def test_grove_names_one_gang_twice() -> None:
    words = PodWords("ns", "p", {"grove.io/podclique": "decode"}, dict.fromkeys(GROUP_NAMES, "g"))
    assert VolcanoGangs().membership(words) == Membership("volcano/ns/g", "decode")


@pytest.mark.parametrize("index", ["-1", "x", "", "1e3", "9" * 40])
def test_an_index_that_is_no_number_is_no_rank(index: str) -> None:
    words = PodWords("ns", "p", {"volcano.sh/task-index": index}, {GROUP_NAMES[0]: "g"})
    assert VolcanoGangs().membership(words) == Membership("volcano/ns/g")


def test_a_job_of_volcano_names_its_tasks_and_its_sum() -> None:
    found = spec(
        minMember=5,
        minTaskMember={"master": 1, "worker": 4},
        minResources={
            "cpu": "5",
            "nvidia.com/gpu": 40,
            "pods": "5",
            "count/pods": "5",
            "requests.cpu": "5",
            "limits.cpu": "x",
        },
        queue="research",
    )
    assert found == GangSpec(
        "volcano/ns/g",
        5,
        groups=(Group("master", 1), Group("worker", 4)),
        least_resources=(("cpu", 5000), ("nvidia.com/gpu", 40), ("pods", 5)),
        admitted_by="volcano",
        queue="volcano/research",
    )


def test_without_a_minimum_each_pod_is_placed_on_its_own() -> None:
    assert spec() == GangSpec("volcano/ns/g", 1, admitted_by="volcano", queue="volcano/default")


def test_a_minimum_below_that_of_its_tasks_leaves_open_which_pods_start() -> None:
    assert spec(minMember=3, minTaskMember={"a": 2, "b": 2}).groups == ()


def test_a_task_without_a_minimum_is_no_group() -> None:
    assert spec(minMember=3, minTaskMember={"a": 2, "b": 0}).groups == (Group("a", 2),)


def test_partitions_of_a_task_are_sets_of_its_group() -> None:
    policy = {
        "name": "worker",
        "subGroupSize": 4,
        "minSubGroups": 2,
        "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
        "matchLabelKeys": ["volcano.sh/partition-id"],
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    found = spec(minMember=9, minTaskMember={"master": 1, "worker": 8}, subGroupPolicy=[policy])
    rule = TopologyRule("topology.volcano.sh/tier-1")
    assert found.groups == (
        Group("master", 1),
        Group("worker", 8, set_size=4, set_topology=(rule,)),
    )


def test_the_policy_of_a_clique_is_that_of_its_pods() -> None:
    labels = {"matchLabels": {"grove.io/podclique": "set-0-decode"}}
    policy = {"name": "decode", "subGroupSize": 2, "minSubGroups": 1, "labelSelector": labels}
    assert spec(subGroupPolicy=[policy]).groups == (Group("set-0-decode", 2, set_size=2),)


@pytest.mark.parametrize(
    ("topology", "rules"),
    [
        ({"highestTierAllowed": 2}, (TopologyRule("topology.volcano.sh/tier-2"),)),
        ({"mode": "soft", "highestTierName": "rack"}, (TopologyRule("rack", required=False),)),
        ({"mode": "hard"}, ()),
    ],
)
def test_the_highest_tier_is_a_topology_rule(topology: Json, rules: Any) -> None:
    assert spec(minMember=2, networkTopology=topology).topology == rules


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"minMember": -1}, "spec.minMember is -1; write 0 or more"),
        ({"minMember": 10**9}, "spec.minMember is 1000000000; the limit is 100000"),
        ({"minMember": "4"}, "its spec cannot be read"),
        ({"minResources": {"cpu": "x"}}, "spec.minResources: "),
        ({"networkTopology": {"mode": "x", "highestTierAllowed": 1}}, "write hard or soft"),
        ({"subGroupPolicy": [{"name": "a", "subGroupSize": 0}]}, "subGroupSize is 0; write 1"),
        ({"subGroupPolicy": [{"subGroupSize": 2}]}, "spec.subGroupPolicy.name is empty"),
        (
            {"subGroupPolicy": [{"name": "a", "subGroupSize": 10**5, "minSubGroups": 10**5}]},
            "the limit is 100000",
        ),
    ],
)
def test_what_makes_no_sense_is_a_problem(found: Json, sentence: str) -> None:
    assert sentence in spec(**found).problem


def test_a_gang_without_pods_is_in_the_queue_once_there_is_room() -> None:
    gathering = status(GangState.GATHERING, members=0)
    assert written(gathering, {"phase": "Pending"}) == {"phase": "Inqueue"}
    assert written(gathering, {"phase": "Inqueue"}) is None


@pytest.mark.parametrize("phase", ["Running", "Unknown", "Completed"])
def test_a_gang_whose_pods_are_gone_keeps_its_phase(phase: str) -> None:
    """After a restart its pods may not have been seen yet."""
    assert written(status(GangState.GATHERING, members=0), {"phase": phase}) is None


@pytest.mark.parametrize(
    ("phase", "has_run"),
    [("", False), ("Pending", False), ("Inqueue", False), ("Running", True), ("Completed", True)],
)
def test_the_phase_says_whether_a_gang_still_needs_an_admission(phase: str, has_run: bool) -> None:
    body = {"metadata": {"name": "g", "namespace": "ns"}, "status": {"phase": phase}}
    assert decode_object(VolcanoGangs(), json.dumps(body).encode()).spec.has_run is has_run


@pytest.mark.parametrize("written_there", ["null", '"x"', '{"phase": 3}', "[]"])
def test_a_status_that_makes_no_sense_is_no_phase(written_there: str) -> None:
    body = f'{{"metadata": {{"name": "g", "namespace": "ns"}}, "status": {written_there}}}'
    assert not decode_object(VolcanoGangs(), body.encode()).spec.has_run


def test_a_gang_that_lost_pods_gathers_others() -> None:
    found = written(status(GangState.GATHERING, 2, members=3), {"phase": "Running"})
    assert found == {"phase": "Inqueue", "running": 2}


def test_a_gang_without_room_is_pending_and_says_why() -> None:
    waiting = status(GangState.UNSCHEDULABLE, members=0, message="needs 4 cpu, 2 are free")
    found = written(waiting, {"phase": ""})
    assert found == {
        "phase": "Pending",
        "conditions": [{
            "type": "Unschedulable", "status": "True", "lastTransitionTime": NOW,
            "reason": "NotEnoughResources", "message": "needs 4 cpu, 2 are free",
        }],
    }  # fmt: skip
    assert written(waiting, found, LATER) is None


def test_an_admission_without_pods_can_be_revoked() -> None:
    revoked = status(GangState.UNSCHEDULABLE, members=0, message="no pod was created")
    found = written(revoked, {"phase": "Inqueue"})
    assert found is not None
    assert (found["phase"], found["conditions"][0]["message"]) == ("Pending", "no pod was created")


def test_an_admitted_gang_that_does_not_fit_stays_in_the_queue() -> None:
    found = written(status(GangState.UNSCHEDULABLE, message="no node"), {"phase": "Inqueue"})
    assert found is not None
    assert "phase" not in found
    assert found["conditions"][0]["message"] == "4/4 tasks in gang unschedulable: no node"


def test_a_gang_with_nodes_runs_and_is_not_unschedulable_any_more() -> None:
    before = written(status(GangState.UNSCHEDULABLE, message="no node")) or {}
    found = written(status(GangState.SCHEDULED, 4), before, LATER) or {}
    assert (found["phase"], found["running"]) == ("Running", 4)
    assert [(c["type"], c["status"], c["reason"]) for c in found["conditions"]] == [
        ("Unschedulable", "False", "Scheduled"),
        ("Scheduled", "True", "tasks in gang are ready to be scheduled"),
    ]
    assert written(status(GangState.SCHEDULED, 4), {**before, **found}, NOW) is None


def test_a_gang_that_lost_pods_and_has_no_room_for_others_is_unknown() -> None:
    found = written(status(GangState.UNSCHEDULABLE, 3, message="x"), {"phase": "Running"}) or {}
    assert (found["phase"], found["running"]) == ("Unknown", 3)


def test_a_gang_whose_pods_have_all_finished_is_completed() -> None:
    found = written(status(GangState.SCHEDULED, 0, 3, failed=1), {"phase": "Running"}) or {}
    assert (found["phase"], found["succeeded"], found["failed"]) == ("Completed", 3, 1)


def test_conditions_of_others_stay() -> None:
    other = {"type": "Checked", "status": "True"}
    found = written(status(GangState.SCHEDULED, 4), {"conditions": [other, "no condition"]}) or {}
    assert found["conditions"][:2] == [other, "no condition"]
