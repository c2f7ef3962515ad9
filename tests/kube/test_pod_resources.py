"""Reading the answer of a kubelet's PodResources API."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.pod_resources import PodResourcesError, read_devices


def field(number: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + length + content


def devices(resource: str, *ids: str) -> bytes:
    topology = field(3, field(1, b"\x08\x01"))
    listed = b"".join(field(2, one.encode()) for one in ids)
    return field(2, field(1, resource.encode()) + listed + topology)


def pod(name: str, *containers: bytes) -> bytes:
    inside = b"".join(field(3, field(1, b"main") + one) for one in containers)
    return field(1, field(1, name.encode()) + field(2, b"team") + inside)


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
