"""What the Workload of Kueue says about a run time."""

import json
from typing import Any

import msgspec
import pytest

from fairlead.kube.kueue_workloads import read_workloads
from fairlead.model.run_times import RunTime


def listed(**fields: Any) -> bytes:
    return json.dumps({"items": [fields]}).encode()


@pytest.mark.parametrize(
    ("limit_s", "past", "left_s"),
    [
        (3600, {}, 3600.0),
        (3600, {"accumulatedPastExecutionTimeSeconds": 600}, 3000.0),
        (3600, {"accumulatedPastExexcutionTimeSeconds": 600}, 3000.0),
        (3600, {"accumulatedPastExecutionTimeSeconds": 9999}, 1.0),
        (3600, {"accumulatedPastExecutionTimeSeconds": -9999}, 3600.0),
    ],
)
def test_what_it_ran_before_counts(limit_s: int, past: dict[str, int], left_s: float) -> None:
    found = read_workloads(listed(spec={"maximumExecutionTimeSeconds": limit_s}, status=past))
    assert found == (RunTime(None, left_s, "kueue Workload"), "")


@pytest.mark.parametrize("limit_s", [0, -5, 4_000_000_000])
def test_a_limit_that_makes_no_sense_is_named(limit_s: int) -> None:
    found = read_workloads(listed(spec={"maximumExecutionTimeSeconds": limit_s}))
    assert found is not None
    assert found[0].bound_s is None
    assert "spec.maximumExecutionTimeSeconds" in found[0].problem


@pytest.mark.parametrize("raw", [b'{"items": []}', listed(spec={})])
def test_without_a_limit_there_is_none(raw: bytes) -> None:
    assert read_workloads(raw) is None


@pytest.mark.parametrize("digits", ["9" * 400, "-" + "9" * 400])
def test_a_number_that_is_too_long_is_refused_as_any_other_mistake(digits: str) -> None:
    raw = listed(spec={"maximumExecutionTimeSeconds": 1}).replace(b": 1}", f": {digits}}}".encode())
    assert digits.encode() in raw
    with pytest.raises(msgspec.MsgspecError):
        read_workloads(raw)
