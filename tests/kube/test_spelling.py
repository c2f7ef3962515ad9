"""A misspelt annotation is reported with the nearest key; others are left alone."""

import pytest

from dialect_objects import a_pod
from fairlead.kube import spelling
from fairlead.kube.dialects import DIALECTS
from fairlead.kube.spelling import misspelt

PREFIX = "fairlead.dev/"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        (PREFIX + "gpu-shares", PREFIX + "gpu-share"),
        (PREFIX + "GPU-share", PREFIX + "gpu-share"),
        (PREFIX + "share", PREFIX + "gpu-share"),
        ("Fairlead.dev/gpu-memory", PREFIX + "gpu-memory"),
        (PREFIX + "gpu-modell", PREFIX + "gpu-model"),
        ("gpu-share", PREFIX + "gpu-share"),
        ("gpu-schedulingmap", "gpu-scheduling-map"),
        ("gpu-fractions", "gpu-fraction"),
        ("GPU-fraction", "gpu-fraction"),
        ("gpu-fraction-num-device", "gpu-fraction-num-devices"),
        ("nvidia.com/use-gputypes", "nvidia.com/use-gputype"),
        ("volcano.sh/vgpu-use-gpu-uuid", "volcano.sh/vgpu-use-gpuuuid"),
        (
            "nvidia.com/container.main.gpu-memory.requests",
            "nvidia.com/container.<container>.gpu-memory.request",
        ),
    ],
)
def test_a_near_miss_is_reported_with_what_was_meant(key: str, near: str) -> None:
    sentence = f"annotation {key} is unknown and has no effect; did you mean {near}?"
    assert misspelt({key: "1", "note": "x"}) == sentence


def test_any_unknown_key_under_our_prefix_is_reported() -> None:
    told = "annotation fairlead.dev/xyzzy is unknown and has no effect"
    assert misspelt({PREFIX + "xyzzy": ""}) == told


@pytest.mark.parametrize(
    "key",
    [
        *(word for dialect in DIALECTS for word in dialect.annotation_keys),
        PREFIX + "gpu-load", PREFIX + "gpus", PREFIX + "assignment", PREFIX + "run-for",
        PREFIX + "do-not-move", PREFIX + "deadline", PREFIX + "run-time", PREFIX + "time-limit",
        PREFIX + "filler",
        "nvidia.com/container.a.gpu-memory.limit", "nvidia.com/container.a.gpus.devices",
        "hami.io/gpu-scheduler-policy", "example.com/gpu-memory", "gpu-memory-limit",
        "kubectl.kubernetes.io/last-applied-configuration", "gpu", "gpu-model", "gpu-type",
    ],
)  # fmt: skip
def test_a_key_that_is_known_or_of_another_system_is_left_alone(key: str) -> None:
    assert misspelt({key: ""}) == ""


def test_a_pod_with_thousands_of_keys_is_compared_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(spelling, "_about", lambda key: compared.append(key) or "odd")

    told = misspelt({f"x.example/gpu-{n}": "" for n in range(5000)})

    assert len(compared) == 16
    assert told == "odd; odd; odd"


def test_it_is_told_of_pending_pods_alone() -> None:
    said = {PREFIX + "gpu-shares": "0.5"}
    assert a_pod({}, annotations=said).misspelt
    assert not a_pod({}, annotations=said, node="n1").misspelt
