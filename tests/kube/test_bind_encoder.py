"""What is written in a Binding, as the encoder of the scheduler says it."""

import pytest

from builders import a_pod
from fairlead.kube import dialects
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.kube.failures import Failures
from fairlead.model.gpus import PLAIN, WHOLE, Gpu, GpuRequest, GpuUse, Grant, Inventory

NOW_NS = 1_700_000_000_123_456_789
EPOCH = "fairlead.dev/epoch"
POD = a_pod("p", gpu_request=GpuRequest(1, dialect="hami"))
GRANT = Grant((GpuUse("GPU-0", memory_mib=4000),), dialect="hami")
INVENTORY = Inventory((Gpu("GPU-0", 0, "T4", 16_000),), dialects=frozenset({"hami"}))


def test_a_plain_pod_carries_nothing() -> None:
    data = DialectEncoder(lambda: NOW_NS)(POD, "n1", None, None)
    assert (dict(data.annotations), data.lock, data.problem) == ({}, None, "")


def test_a_leader_signs_every_bind_with_the_epoch_of_its_term() -> None:
    epochs = ["1/a", "2/a"]
    encode = DialectEncoder(lambda: NOW_NS, epoch=lambda: epochs[0])
    assert encode(POD, "n1", None, None).annotations == {EPOCH: "1/a"}
    del epochs[0]
    assert encode(POD, "n1", GRANT, INVENTORY).annotations[EPOCH] == "2/a"


def test_a_grant_is_written_in_its_dialect_with_the_time_and_the_lock() -> None:
    data = DialectEncoder(lambda: NOW_NS)(POD, "n1", GRANT, INVENTORY)
    assignment = dialects.Assignment(POD, "n1", GRANT, INVENTORY, NOW_NS)
    assert data.annotations == dialects.annotations_for(assignment)
    assert data.lock == dialects.lock(assignment)
    assert data.lock is not None


def test_a_dialect_that_breaks_fails_one_bind_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: object) -> dict[str, str]:
        raise KeyError("slot")

    monkeypatch.setattr(dialects, "annotations_for", broken)
    failures = Failures()
    data = DialectEncoder(lambda: NOW_NS, failures=failures)(POD, "n1", GRANT, INVENTORY)
    assert data.problem.startswith("internal error while binding: KeyError('slot')")
    assert failures.counts == {"binding": 1}


def test_equal_grants_are_written_equally_wherever_their_values_come_from() -> None:
    """msgspec omits what *is* the default, not what equals it."""
    encode = DialectEncoder(lambda: 1)
    made = Grant((GpuUse("GPU-1", milli=WHOLE),), PLAIN)
    read = Grant((GpuUse("GPU-1", milli=int("1000")),), "NVIDIA".lower())
    pod = a_pod("p", gpus=1)
    assert encode(pod, "n", read, None) == encode(pod, "n", made, None)
    assert '"dialect"' not in encode(pod, "n", read, None).annotations["fairlead.dev/assignment"]
