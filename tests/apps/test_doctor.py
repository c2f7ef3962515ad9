"""What `fairlead doctor` finds, and what it passes over."""

from dataclasses import replace
from typing import Any

import pytest

from builders import a_node, an_engine, see
from claim_objects import (
    DRIVER,
    GPU_CLASS,
    a_claim,
    a_claim_user,
    a_claiming_pod,
    a_device,
    a_gpu_device,
    a_slice,
    an_allocation,
)
from fairlead.apps.doctor.doctor import faults
from fairlead.apps.doctor.faults import ClusterFault
from fairlead.engine.events import ClaimObjectSeen
from fairlead.model.claims import ClaimObject, ClaimUser, DeviceNeed, DeviceRequest, ResourceClaim
from fairlead.model.devices import DeviceClass
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod

SLICE = a_slice("n1", "gpu-0", "gpu-1")
ALLOCATED = an_allocation("n1", "gpu-0")
GONE = ClaimUser("u-gone", "gone")
USER = a_claiming_pod("p", "c", node="n1")
PROTECTED = ("resource.kubernetes.io/delete-protection",)


def found(
    *objects: ClaimObject, pods: tuple[Pod, ...] = (), node: Node | None = None
) -> list[ClusterFault]:
    engine = an_engine(node or a_node("n1", gpus=0))
    for each in (GPU_CLASS, *objects):
        engine.handle(ClaimObjectSeen(each), now=0.0)
    for pod in pods:
        see(engine, pod)
    return list(faults(engine.cluster, pods))


def held(**more: Any) -> ResourceClaim:
    return a_claim("c", allocation=ALLOCATED, **more)


def test_a_claim_of_a_pod_that_runs_is_no_fault() -> None:
    claim = held(reserved_for=(a_claim_user(USER),), finalizers=PROTECTED)
    assert found(SLICE, claim, pods=(USER,)) == []
    assert found(SLICE, replace(claim, deleting=True), pods=(USER,)) == [], "it goes with the pod"


@pytest.mark.parametrize(
    ("objects", "kind", "says"),
    [
        ([SLICE, held()], "claim-unused", "is allocated, and reserved for no pod; it has gpu"),
        (
            [SLICE, held(reserved_for=(GONE,))],
            "claim-of-gone-pods",
            "is reserved for pods that are gone or have ended: gone",
        ),
        (
            [SLICE, held(reserved_for=(GONE,), deleting=True, finalizers=PROTECTED)],
            "claim-stuck-deleting",
            "finalizers keep it: resource.kubernetes.io/delete-protection; it has",
        ),
        (
            [a_slice("n1", "gpu-0", slice_count=2)],
            "pool-incomplete",
            "1 of 2 slices of generation 1",
        ),
        (
            [a_slice("n1", a_device("gpu-0"), a_device("gpu-0"))],
            "pool-invalid",
            "duplicate device name gpu-0",
        ),
        (
            [a_slice("n1", a_gpu_device("gpu-0", "GPU-1"), a_gpu_device("gpu-vfio-0", "GPU-1"))],
            "gpu-two-names",
            "GPU GPU-1 is published under several names",
        ),
        (
            [a_slice("n1", a_gpu_device("g", "GPU-1")), a_slice("n2", a_gpu_device("g", "GPU-1"))],
            "gpu-two-nodes",
            "published by several nodes: n1, n2",
        ),
        ([replace(SLICE, problem="it is alpha")], "pool-unusable", "it is alpha"),
        ([a_claim("c", problem="it is alpha")], "claim-unusable", "it is alpha"),
        ([DeviceClass("x", problem="it is alpha")], "class-unusable", "it is alpha"),
    ],
)
def test_a_fault_is_found(objects: list[ClaimObject], kind: str, says: str) -> None:
    (fault,) = found(*objects)
    assert fault.kind == kind
    assert says in fault.what
    assert fault.advice


def test_gpus_of_a_device_plugin_and_of_a_driver_are_known_under_two_names() -> None:
    (fault,) = found(SLICE, node=a_node("n1", gpus=2))
    assert fault.kind == "gpu-two-names"
    assert "a device plugin offers 2 nvidia.com/gpu" in fault.what
    assert "publishes 2 GPUs" in fault.what


def test_a_device_that_is_not_published_any_more_is_named() -> None:
    claim = held(reserved_for=(a_claim_user(USER),))
    (fault,) = found(a_slice("n1", "gpu-1", generation=2), claim, pods=(USER,))
    assert (fault.kind, "gpu.nvidia.com/n1/gpu-0" in fault.what) == ("device-gone", True)
    half = a_slice("n1", "gpu-1", generation=2, slice_count=2)
    kinds = [each.kind for each in found(half, claim, pods=(USER,))]
    assert kinds == ["pool-incomplete"], "it may be in the part that is missing"


def test_a_pod_that_waits_for_its_claim_without_an_event_is_named() -> None:
    waiting = a_claiming_pod("p", "missing")
    (fault,) = found(pods=(waiting,))
    assert fault.about == f"Pod {waiting.key}"
    assert fault.what == 'waits: could not find ResourceClaim "default/missing"'


def of_scheduler(name: str, claim: ResourceClaim) -> tuple[Pod, ResourceClaim]:
    pod = a_claiming_pod(f"p-{claim.name}", claim.name, node="n1", scheduler=name)
    return pod, replace(claim, reserved_for=(a_claim_user(pod),))


def test_a_driver_of_two_schedulers_is_named_once_both_have_allocated_devices() -> None:
    one, first = of_scheduler("a", a_claim("c1", allocation=an_allocation("n1", "gpu-0")))
    two, second = of_scheduler("b", a_claim("c2", allocation=an_allocation("n1", "gpu-1")))
    (fault,) = found(SLICE, first, second, pods=(one, two))
    assert (fault.kind, fault.about) == ("driver-shared", f"driver {DRIVER}")
    assert fault.what.endswith("a (default/p-c1), b (default/p-c2)")
    assert found(SLICE, first, pods=(one,)) == []
    only = replace(second, allocation=None, reserved_for=())
    assert found(SLICE, first, only, pods=(one, two)) == [], "the scheduler b may not exist"


def test_daemons_of_compute_domains_are_not_the_channels() -> None:
    """kube-scheduler places the DaemonSet; the pods of the job are another scheduler's."""
    domain = "compute-domain.nvidia.com"
    devices = a_slice("n1", a_device("channel-0"), a_device("daemon-0"), driver=domain)

    def allocated(name: str, device: str, class_name: str) -> ResourceClaim:
        results = an_allocation("n1", device)
        results = replace(
            results, devices=tuple(replace(each, driver=domain) for each in results.devices)
        )
        request = DeviceRequest("r", DeviceNeed(class_name))
        return a_claim(name, allocation=results, requests=(request,))

    one, first = of_scheduler("a", allocated("c1", "channel-0", "channels"))
    two, second = of_scheduler("b", allocated("c2", "daemon-0", "daemons"))
    assert found(devices, first, second, pods=(one, two)) == []
