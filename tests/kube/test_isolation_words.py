"""What keeps shares apart: as a pod requests it, as a node offers it, as it is written down."""

import json
from typing import Any

import pytest

from dialect_objects import A, B, a_node, our_list, pod_json, problem_of, told
from fairlead.kube.codec import decode_pod
from fairlead.model.gpus import GpuRequest, GpuUse, Grant, Isolation
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod

SHARE, MEMORY, SLICE = "fairlead.dev/gpu-share", "fairlead.dev/gpu-memory", "fairlead.dev/gpu-slice"
COUNT, ISOLATION = "fairlead.dev/gpu-count", "fairlead.dev/gpu-isolation"
GPU = {"nvidia.com/gpu": 1}


def mps_pod(share: str = "0.25", *, injected: bool = True, **more: Any) -> Pod:
    annotations = {SHARE: share, ISOLATION: "mps", **more.pop("annotations", {})}
    pod = pod_json({}, {"kind": "init"}, annotations=annotations, **more)
    path = "metadata.annotations['fairlead.dev/mps-memory']"
    limit = {
        "name": "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "valueFrom": {"fieldRef": {"fieldPath": path}},
    }
    for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
        container["env"] = [limit] if injected else []
    return decode_pod(json.dumps(pod).encode())


def mps_node(clients: int = 60, **gpu: Any) -> Node:
    gpus = our_list({"mps": clients, **gpu}, {"uuid": B, "index": 1})
    return a_node({"fairlead.dev/inventory": gpus})


def ask_of(pod: Pod) -> GpuRequest:
    assert not pod.problem
    assert pod.request.gpu_request is not None
    return pod.request.gpu_request


@pytest.mark.parametrize("text", list(Isolation))
def test_a_share_can_demand_each_kind(text: str) -> None:
    pod = decode_pod(json.dumps(pod_json({}, annotations={SHARE: "0.5", ISOLATION: text})).encode())
    assert ask_of(pod).isolation == Isolation(text)


@pytest.mark.parametrize(
    ("annotations", "asked", "problem"),
    [
        ({SHARE: "0.5", ISOLATION: "MPS"}, {}, "is 'MPS'; write advisory, mps or mig"),
        ({SHARE: "0.5", ISOLATION: ""}, {}, "is ''; write advisory, mps or mig"),
        ({ISOLATION: "mps"}, {}, "applies to a share of a GPU; add fairlead.dev/gpu-share"),
        ({ISOLATION: "mps"}, GPU, "whole GPUs are not shared"),
        ({MEMORY: "4Gi", ISOLATION: "mps"}, {}, "its compute is not limited; add"),
        ({SHARE: "0.5", COUNT: "2", ISOLATION: "mps"}, {}, "requests 2 GPUs with MPS"),
        ({SLICE: "1g.18gb", ISOLATION: "mps"}, {}, "it requests a MIG slice; remove"),
    ],
)
def test_a_demand_that_cannot_be_met_says_what_to_write(
    annotations: dict[str, str], asked: dict[str, int], problem: str
) -> None:
    assert problem in problem_of(asked, annotations=annotations)


def test_a_slice_is_isolated_by_mig_in_any_case() -> None:
    assert not problem_of({}, annotations={SLICE: "1g.18gb", ISOLATION: "mig"})


def test_what_admission_injected_is_seen_in_every_container() -> None:
    assert ask_of(mps_pod()).mps_injected
    assert not ask_of(mps_pod(injected=False)).mps_injected


def test_a_node_offers_as_many_clients_as_its_daemons_serve() -> None:
    inventory = mps_node(60).inventory
    assert inventory is not None
    assert [gpu.mps for gpu in inventory.gpus] == [60, 0]


def test_a_gpu_of_unknown_size_offers_none() -> None:
    inventory = mps_node(60, memoryMib=0).inventory
    assert inventory is not None
    assert inventory.gpus[0].mps == 0


@pytest.mark.parametrize("clients", [-1, 5000])
def test_an_impossible_number_of_clients_is_said(clients: int) -> None:
    assert f"a GPU with {clients} MPS clients" in mps_node(clients).gpu_problem


@pytest.mark.parametrize(
    ("share", "mib", "threads", "limit"),
    [("0.25", 4096, "25", "0=4096M"), ("0.125", 100, "12.5", "0=100M"), ("0.001", 1, "1", "0=1M")],
)
def test_limits_go_with_the_bind(share: str, mib: int, threads: str, limit: str) -> None:
    pod = mps_pod(share)
    use = GpuUse(A, False, ask_of(pod).milli, mib)

    said = told(pod, Grant((use,), "fairlead", isolation=Isolation.MPS), mps_node())

    assert said["fairlead.dev/gpus"] == A
    assert said["fairlead.dev/mps-threads"] == threads
    assert said["fairlead.dev/mps-memory"] == limit


def test_an_advisory_share_has_no_limits() -> None:
    pod = decode_pod(json.dumps(pod_json({}, annotations={SHARE: "0.5"})).encode())
    grant = Grant((GpuUse(A, False, 500, 100),), "fairlead")
    assert told(pod, grant, mps_node()).keys() == {"fairlead.dev/gpus", "fairlead.dev/assignment"}


def bound(**annotations: str) -> Pod:
    grant = Grant((GpuUse(A, False, 250, 4096),), "fairlead", isolation=Isolation.MPS)
    said = {**told(mps_pod(), grant, mps_node()), **annotations}
    return mps_pod(annotations=said, node="n1")


def test_what_was_assigned_is_what_is_held() -> None:
    grant = bound().grant
    assert grant is not None
    assert grant.isolation is Isolation.MPS
    assert not bound().edited


def test_an_edit_of_a_bound_pod_frees_no_client_and_is_reported() -> None:
    pod = bound(**{ISOLATION: "advisory"})
    assert pod.grant is not None
    assert pod.grant.isolation is Isolation.MPS
    assert pod.edited.endswith("0.25 of the compute, isolated by advisory")


def test_an_isolation_of_a_later_version_is_read_as_none() -> None:
    assignment = {"devices": [{"u": A, "w": False}], "dialect": "fairlead", "iso": "later"}
    pod = bound(**{"fairlead.dev/assignment": json.dumps(assignment)})
    assert pod.grant is not None
    assert pod.grant.uses[0].uuid == A
