"""Which GPUs device plugins picked: what the agent learns from the kubelet, and how it lists it."""

import asyncio
from pathlib import Path

import pytest

from builders import a_pod
from fairlead.apps.agent.picked import PickedGpus
from fairlead.base.node_inventory import MOST_PICKED
from fairlead.model.gpus import GpuRequest
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import GpuFacts
from kubelet_socket import kubelet

GPUS = (GpuFacts(0, "GPU-a"), GpuFacts(1, "GPU-b"))


def started(name: str, **more: object) -> Pod:
    fields = {"started": "2026-11-16T06:00:00Z", "gpu_request": GpuRequest(1), **more}
    return a_pod(name, node="n", **fields)


def learned(picked: PickedGpus, *pods: Pod) -> dict[str, list[str]] | None:
    asyncio.run(picked.ask(pods))
    return picked.listed(GPUS)


def test_gpus_are_listed_by_the_uid_of_the_pod() -> None:
    one, two, slices = started("one"), started("two"), started("slices")
    with kubelet() as there:
        there.gpus = {
            ("default", "one"): ["GPU-b"],
            ("default", "two"): ["1", "0"],
            ("default", "slices"): ["MIG-of-some-gpu"],
            ("default", "of-no-pod-that-is-known"): ["GPU-a"],
        }
        found = learned(PickedGpus(there.socket), one, two, slices)
    assert found == {one.uid: ["GPU-b"], two.uid: ["GPU-a", "GPU-b"]}


@pytest.mark.parametrize(
    "successor", [started("web-0", started=""), started("web-0", finished=True)]
)
def test_a_pod_that_the_kubelet_has_not_started_does_not_get_those_of_its_predecessor(
    successor: Pod,
) -> None:
    with kubelet() as there:
        there.gpus = {("default", "web-0"): ["GPU-a"]}
        assert learned(PickedGpus(there.socket), successor) == {}


def test_what_was_named_stays_known_while_the_kubelet_restarts() -> None:
    one, two = started("one"), started("two")
    with kubelet(started=False) as there:
        there.gpus = {("default", "one"): ["GPU-a"]}
        picked = PickedGpus(there.socket)
        assert learned(picked, one) is None, "the kubelet has not answered yet"
        there.start()
        assert learned(picked, one) == {one.uid: ["GPU-a"]}
        there.stop()
        assert learned(picked, one, two) == {one.uid: ["GPU-a"]}
        assert learned(picked, two) == {}, "the pod is gone"


def test_a_pod_is_awaited_once_when_it_has_started() -> None:
    picked = PickedGpus(Path("/none.sock"))
    pod = started("p")
    assert not picked.is_awaited(started("p", started=""))
    assert not picked.is_awaited(started("p", gpu_request=None))
    assert picked.is_awaited(pod)
    assert not picked.is_awaited(pod)
    assert not PickedGpus(None).is_awaited(pod)


def test_no_more_pods_are_listed_than_the_annotation_may_have() -> None:
    """GPUs that are shared by time can have many pods."""
    pods = [started(f"p{n}") for n in range(MOST_PICKED + 5)]
    with kubelet() as there:
        there.gpus = {("default", pod.name): [f"GPU-a::{n}"] for n, pod in enumerate(pods)}
        found = learned(PickedGpus(there.socket), *pods)
    assert found is not None
    assert list(found) == sorted(pod.uid for pod in pods)[:MOST_PICKED]
