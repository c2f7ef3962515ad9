"""Resource claims in virtual time: made from templates, allocated, and freed when pods end."""

import json
from dataclasses import replace
from typing import Any

import pytest

from builders import SCHEDULER, a_node, a_pod
from claim_objects import GPU_CLASS, a_claim, a_claiming_pod, a_slice, an_allocation
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectSeen, Event, GangSeen, NodeSeen, PodSeen
from fairlead.kube.codec import decode_pod
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import ClaimUser, ResourceClaim
from fairlead.model.gangs import GangSpec, GroupClaim, GroupClaims, Membership
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime
from fairlead.queue.retry_times import ONLY_ON_CHANGE
from fairlead.sim.virtual.cluster import VirtualCluster
from fairlead.sim.virtual.jobs import SimJob
from fairlead.sim.virtual.live_state import begin_with

TEMPLATE = "default/one-gpu"


def an_engine(*more: Event) -> Engine:
    """A node with two GPUs, which only a driver publishes."""
    engine = Engine({SCHEDULER: built_in(SCHEDULER)}, retries=ONLY_ON_CHANGE)
    shown = (a_slice("n1", "gpu-0", "gpu-1"), GPU_CLASS)
    for event in (NodeSeen(a_node("n1", gpus=0)), *map(ClaimObjectSeen, shown), *more):
        engine.handle(event, now=0.0)
    return engine


def a_cluster(*more: Event) -> VirtualCluster:
    cluster = VirtualCluster(an_engine(*more))
    cluster.claims.templates[TEMPLATE] = a_claim("any")
    return cluster


def templated(name: str, **more: Any) -> Pod:
    use = ClaimUse("gpu", "", f"default/{name}", f"u-{name}", "one-gpu")
    return a_pod(name, uid=f"u-{name}", claims=(use,), **more)


def a_job(name: str, submit_s: float, run_s: float, *pods: Pod) -> SimJob:
    return SimJob(name, submit_s, run_s, pods or (templated(name),))


def starts(cluster: VirtualCluster) -> dict[str, float | None]:
    return {name: record.start_s for name, record in cluster.result.records.items()}


def claims(cluster: VirtualCluster) -> dict[str, ResourceClaim]:
    return cluster.engine.cluster.claims.claims


def test_a_claim_of_a_template_is_made_for_each_pod_and_is_gone_with_it() -> None:
    cluster = a_cluster()
    for job in (a_job("a", 0, 100), a_job("b", 0, 50), a_job("c", 10, 20)):
        cluster.submit(job)
    cluster.run_until(20.0)
    assert {claim.owner for claim in claims(cluster).values()} == {"u-a", "u-b", "u-c"}
    assert cluster.result.meter.used_gpus == 2.0
    cluster.run()
    assert starts(cluster) == {"a": 0, "b": 0, "c": 50}
    assert not claims(cluster)
    assert cluster.result.meter.used_gpu_s == 100 + 50 + 20
    assert not cluster.engine.cluster.claims.held


def test_a_claim_that_several_pods_use_is_free_after_the_last_of_them() -> None:
    cluster = a_cluster(ClaimObjectSeen(a_claim("shared", 2)))
    pods = {name: a_claiming_pod(name, "shared") for name in ("a", "b")}
    for name, run_s in (("a", 100.0), ("b", 60.0)):
        cluster.submit(SimJob(name, 0, run_s, (pods[name],)))
    cluster.submit(a_job("later", 10, 5))
    cluster.run()
    assert starts(cluster) == {"a": 0, "b": 0, "later": 100}
    assert claims(cluster)["default/shared"].allocation is None


def test_a_pod_whose_template_is_not_known_waits() -> None:
    cluster = a_cluster()
    cluster.claims.templates.clear()
    cluster.submit(a_job("a", 0, 10))
    cluster.run()
    assert starts(cluster) == {"a": None}


def test_a_job_that_is_created_again_has_claims_of_its_own_again() -> None:
    cluster = a_cluster()
    cluster.submit(a_job("a", 0, 100))
    cluster.run_until(40.0)
    cluster.interrupt(cluster.running["a"], 40.0)
    cluster.decide_now()
    (claim,) = claims(cluster).values()
    assert claim.owner == "u-a.2"
    assert claim.allocation
    cluster.run()
    assert cluster.result.records["a"].end_s == 100


def test_what_runs_in_a_real_cluster_frees_its_devices_when_it_ends() -> None:
    devices = an_allocation("n1", "gpu-0", "gpu-1")
    claim = a_claim("r-gpu-x", 2, owner="u-r", allocation=devices,
                    reserved_for=(ClaimUser("u-r", "r"),))  # fmt: skip
    use = ClaimUse("gpu", claim.key, "default/r", "u-r", "two-gpus")
    runs = a_pod("r", uid="u-r", claims=(use,), node="n1", run_time=RunTime(600.0))
    engine = an_engine(ClaimObjectSeen(claim), PodSeen(runs), ClaimObjectSeen(a_claim("mine")),
                       PodSeen(a_claiming_pod("waits", "mine")))  # fmt: skip
    cluster = begin_with(engine)
    assert cluster.result.meter.total_gpus == 2
    assert cluster.result.meter.used_gpus == 2.0
    cluster.decide_now()
    cluster.run_until(1000.0)
    assert starts(cluster)["default/waits"] == pytest.approx(600.0)
    assert cluster.result.records["default/waits"].gpus == 1.0
    assert claim.key not in claims(cluster)


def test_gpus_of_a_class_that_stands_in_for_a_device_plugin_are_free_after_the_pod() -> None:
    mapped = ClaimObjectSeen(replace(GPU_CLASS, extended_resource=GPU))
    cluster = a_cluster(mapped)
    for name, submit_s in (("a", 0.0), ("b", 1.0)):
        cluster.submit(SimJob(name, submit_s, 30.0, (extended(name),)))
    cluster.run_until(5.0)
    assert cluster.result.meter.used_gpus == 2.0
    cluster.run()
    assert starts(cluster) == {"a": 0, "b": 30}
    assert not claims(cluster)


def extended(name: str) -> Pod:
    """A plain pod with two GPUs, as the API server shows it."""
    container = {"name": "main", "resources": {"requests": {GPU: "2"}}}
    body = {
        "metadata": {"namespace": "default", "name": name, "uid": f"u-{name}"},
        "spec": {"schedulerName": SCHEDULER, "containers": [container]},
    }
    return decode_pod(json.dumps(body).encode())


def test_the_claim_of_a_group_is_made_once_and_stays_allocated() -> None:
    entries = (GroupClaim("gpu", template="one-gpu"),)
    group = GangSeen(GangSpec("native/default/g", 2, claims=GroupClaims("u-g", entries)))
    cluster = a_cluster(group)
    pods = tuple(in_group(templated(name)) for name in ("a", "b"))
    cluster.submit(a_job("g", 0, 10, *pods))
    cluster.run()
    assert starts(cluster) == {"g": 0}
    (claim,) = claims(cluster).values()
    assert claim.owner_group == "default/g"
    assert claim.allocation


def in_group(pod: Pod) -> Pod:
    (use,) = pod.request.claims
    own = replace(pod.request, claims=(replace(use, group="default/g"),))
    return replace(pod, request=own, gang=Membership("native/default/g"))
