"""Rules of the embedded API server, without a server: they are those of kube-apiserver."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.sim.apiserver.strategy.podspec import validate_spec
from fairlead.sim.apiserver.strategy.workloads import default_job
from fairlead.sim.apiserver.tables.plain import EVENT_COLUMNS, event_row

Object = dict[str, Any]


def test_a_container_mounts_volumes_of_its_pod_and_no_others() -> None:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "other")]
    container = {"name": "c", "image": "i", "imagePullPolicy": "Always", "volumeMounts": mounts}
    spec = {
        "restartPolicy": "Always", "containers": [container],
        "volumes": [{"name": "data"}, {"name": "data"}],
    }  # fmt: skip
    assert [(cause.field, cause.reason) for cause in validate_spec(spec, "spec")] == [
        ("spec.volumes[1].name", "FieldValueDuplicate"),
        ("spec.containers[0].volumeMounts[1].name", "FieldValueNotFound"),
    ]


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        ({}, (1, 1)),
        ({"completions": 3}, (3, 1)),
        ({"parallelism": 2}, (None, 2)),
    ],
)
def test_a_job_completes_once_unless_it_says_otherwise(
    said: Object, becomes: tuple[int | None, int]
) -> None:
    spec = dict(said)
    default_job(spec)
    assert (spec.get("completions"), spec["parallelism"]) == becomes


def days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ({}, "30d"),
        ({"lastTimestamp": days_ago(20)}, "20d"),
        ({"lastTimestamp": days_ago(20), "series": {"lastObservedTime": days_ago(10)}}, "10d"),
    ],
    ids=["once", "often", "in a series"],
)
def test_an_event_was_last_seen_when_it_says_so(said: Object, seen: str) -> None:
    event = {"metadata": {"name": "e"}, "firstTimestamp": days_ago(30), **said}
    shown = dict(zip((each["name"] for each in EVENT_COLUMNS), event_row(event), strict=True))
    assert (shown["Last Seen"], shown["First Seen"]) == (seen, "30d")
