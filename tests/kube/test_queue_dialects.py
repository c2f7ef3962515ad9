"""What pods and objects say about queues, in every dialect."""

import json
from typing import Any

import pytest

from fairlead.kube.codec import decode_namespace, decode_pod
from fairlead.kube.queues.api import QueueStanding
from fairlead.kube.queues.registry import ALL_QUEUES, DIALECTS, QueueDialects, decode_queue
from fairlead.model.backfill import BackfillMode
from fairlead.model.pods import Pod
from fairlead.model.queues import (
    GpuBudget,
    PastUse,
    Period,
    QueueSpec,
    QueueStatus,
    Sharing,
    UnitOrder,
    Victims,
)

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


def pod(*, node: str = "", **meta: Json) -> Pod:
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", **meta},
        "spec": {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})},
    }
    return decode_pod(json.dumps(body).encode())


def spec_of(of: str, spec: Any, status: Any = None, **meta: Any) -> QueueSpec:
    """What an object of this dialect says."""
    body = {"metadata": {"name": "q", **meta}, "spec": spec, "status": status or {}}
    return decode_queue(dialect(of), json.dumps(body).encode()).spec


def dialect(name: str) -> Any:
    return next(each for each in DIALECTS if each.name == name)


def own(**spec: Any) -> QueueSpec:
    return spec_of("fairlead", spec)


def test_a_pod_without_a_word_of_queues_names_none() -> None:
    found = pod(labels={"app": "a"}, annotations={"example.com/x": "y"})
    assert (found.queue, found.problem) == ("", "")


def test_a_label_or_an_annotation_names_the_queue() -> None:
    assert pod(labels={"fairlead.dev/queue": "research"}).queue == "fairlead/research"
    assert pod(annotations={"fairlead.dev/queue": "research"}).queue == "fairlead/research"


def test_the_label_comes_before_the_annotation() -> None:
    found = pod(labels={"fairlead.dev/queue": "a"}, annotations={"fairlead.dev/queue": "b"})
    assert found.queue == "fairlead/a"


def test_a_queue_without_a_name_is_refused_with_a_sentence() -> None:
    found = pod(labels={"fairlead.dev/queue": ""})
    assert found.problem == (
        "the pod is invalid: fairlead.dev/queue is empty; write the name of a queue"
    )
    assert "longer than 253" in pod(annotations={"fairlead.dev/queue": "x" * 254}).problem
    assert "has no /" in pod(annotations={"fairlead.dev/queue": "a/b"}).problem


def test_a_running_pod_has_no_problem_with_its_queue() -> None:
    assert pod(node="n", labels={"fairlead.dev/queue": ""}).problem == ""


@pytest.mark.parametrize("label", ["managed", "queue-name", "podset"])
def test_beneath_kueue_no_queue_applies(label: str) -> None:
    found = pod(labels={f"kueue.x-k8s.io/{label}": "true", "fairlead.dev/queue": "research"})
    assert (found.queue, found.problem) == ("-", "")


def test_dialects_that_are_off_are_not_read() -> None:
    off = QueueDialects(())
    assert off.named({"fairlead.dev/queue": "a", "kueue.x-k8s.io/managed": "true"}, {}) == ("", "")
    assert off.of_namespace({"fairlead.dev/queue": "a"}, {}) == ""


def test_a_namespace_has_a_queue_for_its_pods() -> None:
    for field in "labels", "annotations":
        body = {"metadata": {"name": "ns", field: {"fairlead.dev/queue": "research"}}}
        assert decode_namespace(json.dumps(body).encode()).queue == "fairlead/research"
    assert decode_namespace(b'{"metadata": {"name": "ns"}}').queue == ""


def test_all_that_a_queue_says_is_read() -> None:
    found = own(
        parent="company",
        guaranteed={"nvidia.com/gpu": 16, "cpu": 200, "fairlead.dev/gpu-H100": "7.5"},
        limit={"nvidia.com/gpu": "32", "memory": "4Gi"},
        weight=2,
        priority=-3,
        budgets=[{"period": "Day", "gpuHours": 100}],
        namespaces=["team-a", "team-b"],
        order="ShortestFirst",
        backfill="Conservative",
        preemption={"withinQueue": "Never", "reclaim": "LowerPriority", "reclaimable": False},
        minRunTime="10m",
    )
    assert found == QueueSpec(
        "fairlead/q",
        parent="fairlead/company",
        guaranteed=(("cpu", 200_000), ("fairlead.dev/gpu-H100", 7500), ("nvidia.com/gpu", 16_000)),
        limit=(("memory", 4 << 30), ("nvidia.com/gpu", 32_000)),
        weight=2.0,
        priority=-3,
        budgets=(GpuBudget(Period.DAY, 100.0),),
        namespaces=frozenset(("team-a", "team-b")),
        order=UnitOrder.SHORTEST_FIRST,
        backfill=BackfillMode.CONSERVATIVE,
        within=Victims.NEVER,
        reclaims=Victims.LOWER_PRIORITY,
        reclaimable=False,
        min_run_s=600.0,
        min_run_reclaim_s=600.0,
    )


def test_a_queue_with_short_first_is_ordered_by_service_unless_it_has_another_order() -> None:
    found = own(backfill="ShortFirst")
    assert found.backfill is BackfillMode.SHORT_FIRST
    assert found.order is UnitOrder.SMALLEST_FIRST
    assert own(backfill="ShortFirst", order="FIFO").order is UnitOrder.FIFO


def test_an_empty_queue_limits_nothing() -> None:
    assert own() == QueueSpec("fairlead/q")


def test_when_it_was_created_and_what_was_recorded_is_read() -> None:
    past = {"at": NOW, "gpuSeconds": 10.5, "dayGPUHours": 1, "monthGPUHours": 2}
    found = spec_of("fairlead", {}, {"pastUse": past}, creationTimestamp=NOW, uid="u")
    assert (found.created_s, found.uid) == (1767225600.0, "u")
    assert found.recorded == PastUse(1767225600.0, 10.5, 1.0, 2.0)


@pytest.mark.parametrize(
    "past",
    [
        {"at": "yesterday", "gpuSeconds": 1},
        {"at": NOW, "gpuSeconds": -1},
        {"at": NOW, "gpuSeconds": 1e300},
        {"at": NOW, "gpuSeconds": "many"},
        "none",
    ],
)
def test_a_forged_record_is_none(past: Any) -> None:
    found = spec_of("fairlead", {}, {"pastUse": past})
    assert (found.recorded, found.problem) == (None, "")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"weight": -1}, "spec.weight is -1; write a number from 0 to 1,000,000"),
        ({"weight": 9e18}, "spec.weight is 9e+18; write a number from 0 to 1,000,000"),
        ({"weight": "heavy"}, "Expected `float`, got `str` - at `$.weight`"),
        ({"limit": {"cpu": "1e4000"}}, "'1e4000' is not a quantity"),
        ({"limit": {"cpu": -1}}, "spec.limit[cpu] is -1; write 0 or more"),
        ({"limit": {"": 1}}, "without a proper name"),
        ({"limit": {f"r{n}": 1 for n in range(65)}}, "has 65 resources; the limit is 64"),
        (
            {"limit": {"nvidia.com/gpu": 4}, "guaranteed": {"nvidia.com/gpu": "4.5"}},
            "spec.limit[nvidia.com/gpu] is 4, less than spec.guaranteed[nvidia.com/gpu], which",
        ),
        ({"priority": 2**40}, "write a number that has 32 bits"),
        ({"backfill": "easy"}, "Invalid enum value 'easy' - at `$.backfill`"),
        ({"minRunTime": "soon"}, "spec.minRunTime: 'soon' is no length of time"),
        ({"minRunTime": "-5m"}, "spec.minRunTime: '-5m' is no length of time"),
        ({"budgets": [{"period": "Year", "gpuHours": 1}]}, "Invalid enum value 'Year'"),
        ({"budgets": [{"period": "Day", "gpuHours": -1}]}, "gpuHours is -1; write 0 or more"),
        ({"namespaces": [f"n{n}" for n in range(1001)]}, "has 1001 entries; the limit is 1000"),
        ({"parent": "x" * 300}, "spec.parent is longer than 253 characters"),
        ({"preemption": {"withinQueue": "Any"}}, "write Never or LowerPriority"),
    ],
)
def test_what_makes_no_sense_is_a_problem_of_the_queue(spec: Json, why: str) -> None:
    found = own(**spec)
    assert why in found.problem
    assert (found.limit, found.guaranteed) == ((), ())


STATUS = QueueStatus(
    used=(("cpu", 1500), ("nvidia.com/gpu", 2500)),
    fair_share=(("nvidia.com/gpu", 4000),),
    past=PastUse(1767225600.0, 10.5, 1.0, 2.0),
    pending_units=1,
    pending_pods=2,
    running_pods=3,
)
WRITTEN = {
    "used": {"cpu": "1500m", "nvidia.com/gpu": "2.5"},
    "fairShare": {"nvidia.com/gpu": "4"},
    "pendingUnits": 1,
    "pendingPods": 2,
    "runningPods": 3,
    "pastUse": {"at": NOW, "gpuSeconds": 10.5, "dayGPUHours": 1.0, "monthGPUHours": 2.0},
    "conditions": [
        {
            "type": "Ready", "status": "True", "observedGeneration": 4,
            "lastTransitionTime": NOW, "reason": "Accepted", "message": "",
        }
    ],
}  # fmt: skip


def test_the_status_is_written_once() -> None:
    queues = dialect("fairlead")
    assert queues.status(QueueStanding({}, 4), STATUS, NOW) == WRITTEN
    assert queues.status(QueueStanding(WRITTEN, 4), STATUS, "2026-01-02T00:00:00Z") is None


def test_a_resource_that_is_not_used_any_more_is_removed() -> None:
    before = {**WRITTEN, "used": {"memory": "1Gi", "cpu": "1500m", "nvidia.com/gpu": "1"}}
    assert dialect("fairlead").status(QueueStanding(before, 4), STATUS, NOW) == {
        "used": {"memory": None, "cpu": "1500m", "nvidia.com/gpu": "2.5"}
    }


def test_conditions_of_others_stay() -> None:
    other = {"type": "Reviewed", "status": "True"}
    before = {**WRITTEN, "conditions": [other]}
    found = dialect("fairlead").status(QueueStanding(before, 4), STATUS, NOW)
    assert found == {"conditions": [other, *WRITTEN["conditions"]]}  # type: ignore[misc]


def test_every_dialect_reads_its_own_words() -> None:
    for each in DIALECTS:
        for key in each.label_keys:
            assert ALL_QUEUES.named({key: "a"}, {}) == (f"{each.name}/a", "")
        for key in each.annotation_keys:
            assert ALL_QUEUES.named({}, {key: "a"}) == (f"{each.name}/a", "")


# -- KAI -------------------------------------------------------------------------------------------


def kai(**spec: Any) -> QueueSpec:
    return spec_of("kai", spec)


def test_what_a_queue_of_kai_does_not_say_is_zero() -> None:
    zero = (("cpu", 0), ("memory", 0), ("nvidia.com/gpu", 0))
    for found in (kai(), kai(resources={}), kai(resources={"gpu": {}})):
        assert (found.guaranteed, found.limit, found.weight) == (zero, zero, 0.0)
        assert (found.priority, found.sharing, found.leaves_only) == (100, Sharing.KAI, True)


def test_the_units_of_kai_are_gpus_millicores_and_millions_of_bytes() -> None:
    found = kai(
        parentQueue="org",
        priority=200,
        resources={
            "gpu": {"quota": 7.5, "overQuotaWeight": 2, "limit": -1},
            "cpu": {"quota": 4000, "overQuotaWeight": 2, "limit": 8000},
            "memory": {"quota": -1, "overQuotaWeight": 1, "limit": 1000.5},
        },
        preemptMinRuntime="10m",
        reclaimMinRuntime="1h",
    )
    assert found == QueueSpec(
        "kai/q",
        parent="kai/org",
        guaranteed=(("cpu", 4000), ("memory", 2**53 - 1), ("nvidia.com/gpu", 7500)),
        limit=(("cpu", 8000), ("memory", 1_000_500_000)),
        weight=2.0,
        weights=(("memory", 1.0),),
        priority=200,
        sharing=Sharing.KAI,
        min_run_s=600.0,
        min_run_reclaim_s=3600.0,
        leaves_only=True,
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"resources": {"gpu": {"quota": -2}}}, "quota of nvidia.com/gpu is -2; write -1, 0 or"),
        ({"resources": {"gpu": {"limit": -0.5}}}, "limit of nvidia.com/gpu is -0.5"),
        ({"resources": {"gpu": {"overQuotaWeight": -1}}}, "overQuotaWeight of nvidia.com/gpu is"),
        ({"reclaimMinRuntime": "-1m"}, "spec.reclaimMinRuntime is '-1m'"),
        ({"resources": {"gpu": {"quota": "one"}}}, "cannot be read"),
    ],
)
def test_a_queue_of_kai_that_makes_no_sense_has_a_problem(spec: Json, why: str) -> None:
    assert why in kai(**spec).problem


# -- Volcano ---------------------------------------------------------------------------------------


def test_what_a_queue_of_volcano_does_not_say_is_not_limited() -> None:
    found = spec_of("volcano", {})
    assert (found.limit, found.guaranteed, found.weight) == ((), (), 1.0)
    assert (found.parent, found.reclaimable, found.closed) == ("volcano/root", True, False)
    assert (found.sharing, found.order) == (Sharing.PROPORTION, UnitOrder.PRIORITY)
    assert found.charged_at_admission
    assert spec_of("volcano", {}, name="root").parent == ""


def test_all_that_a_queue_of_volcano_says_is_read() -> None:
    found = spec_of(
        "volcano",
        {
            "weight": 3, "parent": "org", "priority": 7, "reclaimable": False,
            "dequeueStrategy": "fifo", "capability": {"nvidia.com/gpu": "8", "cpu": "500m"},
            "deserved": {"nvidia.com/gpu": 4},
            "guarantee": {"resource": {"nvidia.com/gpu": 2, "memory": "1Gi"}},
        },
    )  # fmt: skip
    assert found == QueueSpec(
        "volcano/q",
        parent="volcano/org",
        guaranteed=(("memory", 1 << 30), ("nvidia.com/gpu", 4000)),
        not_lent=(("memory", 1 << 30), ("nvidia.com/gpu", 2000)),
        limit=(("cpu", 500), ("nvidia.com/gpu", 8000)),
        weight=3.0,
        priority=7,
        order=UnitOrder.STRICT_FIFO,
        sharing=Sharing.FIRST_COME,
        reclaimable=False,
        charged_at_admission=True,
        leaves_only=True,
    )
    assert "dequeueStrategy" in spec_of("volcano", {"dequeueStrategy": "lifo"}).problem


@pytest.mark.parametrize(
    ("state", "closed"),
    [("", False), ("Open", False), ("Closed", True), ("Closing", True), ("Unknown", True)],
)
def test_the_state_of_a_queue_of_volcano_closes_it(state: str, closed: bool) -> None:
    assert spec_of("volcano", {}, {"state": state}).closed is closed
    assert spec_of("volcano", {}, {"state": 7}).closed is False


def test_what_is_allocated_is_written_for_volcano() -> None:
    queues = dialect("volcano")
    wanted = {"cpu": "1500m", "nvidia.com/gpu": "2.5"}
    assert queues.status(QueueStanding({}, 1), STATUS, NOW) == {"allocated": wanted}
    assert queues.status(QueueStanding({"allocated": wanted}, 1), STATUS, NOW) is None
    before = {"allocated": {"pods": "3"}, "state": "Open"}
    assert queues.status(QueueStanding(before, 1), STATUS, NOW) == {
        "allocated": {"pods": None, **wanted}
    }


# -- ElasticQuotas ---------------------------------------------------------------------------------


def test_a_quota_of_scheduler_plugins_is_that_of_its_namespace() -> None:
    bounds = {"min": {"cpu": 2}, "max": {"cpu": 4, "nvidia.com/gpu": 1}}
    assert spec_of("elasticquota", bounds, namespace="ns") == QueueSpec(
        "elasticquota/ns/q",
        guaranteed=(("cpu", 2000),),
        limit=(("cpu", 4000), ("nvidia.com/gpu", 1000)),
        namespaces=frozenset(("ns",)),
        of_namespace="ns",
        sharing=Sharing.FIRST_COME,
    )
    above = {"min": {"cpu": 5}, "max": {"cpu": 4}}
    assert "spec.max[cpu] is 4, less than spec.min[cpu]" in spec_of("elasticquota", above).problem


def test_quotas_of_koordinator_are_a_tree() -> None:
    prefix = "quota.scheduling.koordinator.sh/"
    found = spec_of(
        "koordinator",
        {"max": {"cpu": 4}},
        namespace="ns",
        labels={f"{prefix}parent": "org", f"{prefix}allow-lent-resource": "false"},
        annotations={f"{prefix}shared-weight": '{"cpu": "10"}'},
    )
    assert found == QueueSpec(
        "koordinator/q",
        parent="koordinator/org",
        limit=(("cpu", 4000),),
        weights=(("cpu", 10_000.0),),
        of_namespace="ns",
        sharing=Sharing.RUNTIME,
        leaves_only=True,
    )
    top = {f"{prefix}parent": "koordinator-root-quota", f"{prefix}is-parent": "true"}
    parent = spec_of("koordinator", {"max": {"cpu": 4}}, namespace="ns", labels=top)
    assert (parent.parent, parent.of_namespace) == ("", "")
    assert parent.weights == (("cpu", 4000.0),)
    odd = {f"{prefix}shared-weight": "heavy"}
    assert "shared-weight cannot be read" in spec_of("koordinator", {}, annotations=odd).problem


def test_a_pod_that_names_queues_of_two_apis_is_refused() -> None:
    found = pod(labels={"fairlead.dev/queue": "a", "kai.scheduler/queue": "b"})
    assert found.problem == (
        "the pod is invalid: it names two queues, fairlead/a and kai/b; remove the label or "
        "annotation of one of them"
    )


def test_what_a_bound_pod_was_charged_for_stays() -> None:
    said = {"labels": {"fairlead.dev/queue": "other"}}
    charged = {"fairlead.dev/charged-queue": "fairlead/research"}
    edited = pod(node="n", annotations=charged, **said)
    assert (edited.queue, edited.charged_queue) == ("fairlead/other", "fairlead/research")
    assert pod(node="n", **said).charged_queue == ""
    # Before it is bound, nothing of that kind is believed.
    pending = pod(annotations=charged, **said)
    assert (pending.queue, pending.charged_queue) == ("fairlead/other", "")


def test_words_of_queues_are_not_taken_for_misspelt_ones() -> None:
    assert pod(annotations={"fairlead.dev/queue": "research"}).misspelt == ""
    assert "fairlead.dev/queue" in pod(annotations={"fairlead.dev/queu": "research"}).misspelt


def test_queues_that_exist_without_an_object_limit_nothing() -> None:
    for each in DIALECTS:
        for name in each.implied:
            found = each.implied_spec(name)
            assert (found.key, found.limit, found.closed) == (f"{each.name}/{name}", (), False)
    assert dialect("volcano").implied_spec("default").parent == "volcano/root"
