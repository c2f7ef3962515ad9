"""What-if with resource claims: templates of manifests, waiting pods, nodes that come and go."""

from typing import Any

import pytest
from test_what_if import ask, effects, text

from builders import a_node, a_pod
from claim_objects import GPU_CLASS, a_claim, a_claiming_pod, a_slice, an_allocation
from fairlead.apps.live.claim_templates import with_made_claims
from fairlead.apps.what_if.changes import Changes
from fairlead.apps.what_if.what_if import unknown_templates, with_templates
from fairlead.apps.what_if.workload import ManifestDefaults, ManifestPods, workload_of
from fairlead.engine.events import ClaimObjectSeen, Event, NodeSeen, PodSeen
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import ClaimUser
from fairlead.model.errors import ConfigError
from fairlead.model.run_times import RunTime

RUNS_FOR_S = 600.0


def a_template(count: int = 1) -> dict[str, Any]:
    need = {"deviceClassName": "gpu", "count": count}
    devices = {"requests": [{"name": "r", "exactly": need}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus"},
        "spec": {"spec": {"devices": devices}},
    }


def a_job(pods: int = 1) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    container = {"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"schedulerName": "gpu-scheduler", "containers": [container], "resourceClaims": claims}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": pods, "template": {"spec": spec}},
    }


def a_cluster() -> list[Event]:
    """Two nodes with two GPUs that a driver publishes; both of n1 are used for ten minutes."""
    claim = a_claim("r-x", 2, owner="u-r", allocation=an_allocation("n1", "gpu-0", "gpu-1"),
                    reserved_for=(ClaimUser("u-r", "r"),))  # fmt: skip
    use = ClaimUse("gpu", claim.key, "default/r", "u-r", "two")
    runs = a_pod("r", uid="u-r", claims=(use,), node="n1", controller="Job/r",
                 run_time=RunTime(RUNS_FOR_S))  # fmt: skip
    nodes = ("n1", "n2")
    shown = (GPU_CLASS, *(a_slice(name, "gpu-0", "gpu-1") for name in nodes), claim)
    return [
        *(NodeSeen(a_node(name, gpus=0)) for name in nodes),
        *map(ClaimObjectSeen, shown),
        PodSeen(runs),
    ]


def work(*objects: dict[str, Any]) -> ManifestPods:
    return with_templates(workload_of(objects, ManifestDefaults()), {}, ())


def test_a_job_with_a_template_starts_now_and_its_gpus_are_counted() -> None:
    answer = ask(a_cluster(), work=work(a_template(2), a_job()))
    first = text(answer).splitlines()[0]
    assert first == "default/train-0 to start now using 2 GPUs on n2"


def test_pods_beyond_what_is_free_start_when_claims_are_freed() -> None:
    answer = ask(a_cluster(), work=work(a_template(2), a_job(2)))
    starts = {name: answer.after.units[name].start_s for name in answer.asked}
    assert starts["default/train-0"] == 0.0
    assert starts["default/train-1"] == pytest.approx(RUNS_FOR_S, abs=5.0)
    assert answer.after.units["default/train-1"].nodes == ("n1",)


def test_a_template_of_the_cluster_is_used_where_the_file_has_none() -> None:
    asked = workload_of([a_job()], ManifestDefaults())
    assert unknown_templates(asked) == {"default/gpus"}
    found = with_templates(asked, {"default/gpus": a_claim("gpus")}, ())
    assert ask(a_cluster(), work=found).starts


def test_a_template_that_is_not_there_is_named_in_the_sentence() -> None:
    with pytest.raises(ConfigError, match="there is no ResourceClaimTemplate default/gpus"):
        work(a_job())


def test_a_template_that_makes_no_sense_is_named_in_the_sentence() -> None:
    broken = {**a_template(), "spec": {"spec": {"devices": {"requests": "all"}}}}
    with pytest.raises(ConfigError, match="ResourceClaimTemplate gpus: the claim cannot be read"):
        work(broken, a_job())


def test_a_claim_of_the_file_is_one_for_all_pods_that_name_it() -> None:
    claim = {**a_template(1), "kind": "ResourceClaim", "spec": a_template(1)["spec"]["spec"]}
    job = a_job(2)
    job["spec"]["template"]["spec"]["resourceClaims"] = [
        {"name": "gpu", "resourceClaimName": "gpus"}
    ]
    answer = ask(a_cluster(), work=work(claim, job))
    assert answer.starts
    assert len({answer.after.units[name].nodes for name in answer.asked}) == 1


def test_more_nodes_have_devices_of_their_own() -> None:
    events = [*a_cluster(), *waiting("a", "b", "c")]
    answer = ask(events, Changes(add_nodes=1, like="n1"))
    assert answer.after.gpus == answer.before.gpus + 2
    assert effects(answer)["default/c"] == "earlier"
    assert answer.after.units["default/c"].start_s == 0.0
    assert ("n1-new-1",) in {unit.nodes for unit in answer.after.waiting}


def waiting(*names: str) -> list[Event]:
    """Pods with claims for one GPU each."""
    claims = [ClaimObjectSeen(a_claim(f"of-{name}")) for name in names]
    pods = [PodSeen(a_claiming_pod(name, f"of-{name}", run_time=RunTime(60.0))) for name in names]
    return [*claims, *pods]


def test_without_a_node_its_devices_are_gone_and_its_pods_have_new_claims() -> None:
    answer = ask(a_cluster(), Changes(without_nodes=("n1",)))
    assert answer.after.gpus == answer.before.gpus - 2
    assert effects(answer) == {"default/r": "evicted"}
    assert answer.after.units["default/r"].nodes == ("n2",)


def test_a_claim_that_is_not_made_yet_is_made_for_a_waiting_pod() -> None:
    use = ClaimUse("gpu", "", "default/w", "u-w", "gpus")
    waits = PodSeen(a_pod("w", uid="u-w", claims=(use,)))
    events = with_made_claims([*a_cluster(), waits], {"default/gpus": a_claim("gpus")})
    assert ask(events).before.units["default/w"].start_s == 0.0
