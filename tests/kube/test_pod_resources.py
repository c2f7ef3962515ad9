"""Reading the answer of a kubelet's PodResources API."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.pod_resources import PodResourcesError, read_devices
from kubelet_socket import devices, pod


def test_gpus_are_read_by_pod() -> None:
    answer = (
        pod("one", devices("nvidia.com/gpu", "GPU-a", "GPU-b"), devices("nvidia.com/gpu", "GPU-c"))
        + pod("shared", devices("nvidia.com/gpu.shared", "GPU-d::3"))
        + pod("other", devices("example.com/nic", "nic-0"))
        + pod("none", b"")
    )
    assert read_devices(answer) == {
        ("team", "one"): {"GPU-a", "GPU-b", "GPU-c"},
        ("team", "shared"): {"GPU-d"},
    }


def test_two_pods_of_one_name_are_not_told_apart() -> None:
    """One that ends, and its successor."""
    answer = pod("web-0", devices("nvidia.com/gpu", "GPU-a")) + pod("web-0", b"")
    assert read_devices(answer) == {}


@pytest.mark.parametrize("answer", [b"\x0a\x7f", b"\x0a", b"\x0b", b"\xff" * 20])
def test_an_answer_that_is_cut_off_or_strange_is_refused(answer: bytes) -> None:
    with pytest.raises(PodResourcesError):
        read_devices(answer)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(answer: bytes) -> None:
    try:
        read_devices(answer)
    except PodResourcesError:
        return
