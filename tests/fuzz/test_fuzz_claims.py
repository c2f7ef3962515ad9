"""Slices, classes, claims and taint rules of all features, mutated: no device is given twice.

Counters of pools and capacities of devices that are shared are never exceeded either.
"""

import pytest

from claim_sums import oversold
from fuzz.claims import ClaimCase
from fuzz.objects import Json
from fuzz.searching import cases, no_timeout

CASES = 40


@no_timeout
def test_no_device_is_given_twice_whatever_is_published_and_claimed() -> None:
    allocated: list[int] = []
    for seed in cases(CASES):
        case = ClaimCase(seed)
        case.run()
        allocated.append(case.target.allocated)
    assert sum(allocated) > 5 * len(allocated), "too little was allocated to try anything"


SLICES = [
    {"spec": {"driver": "d", "pool": {"name": "p"}, "sharedCounters": [
        {"name": "s", "counters": {"memory": {"value": "40Gi"}}}]}},
    {"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [
        {"name": name, "capacity": {"memory": {"value": "10Gi"}},
         "consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": "30Gi"}}}]}
        for name in ("a", "b")]}},
]  # fmt: skip


def a_claim(device: str, **more: object) -> Json:
    result = {"request": "r", "driver": "d", "pool": "p", "device": device, **more}
    return {"status": {"allocation": {"devices": {"results": [result]}}}}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([a_claim("a")], 0),
        ([a_claim("a"), a_claim("a", adminAccess=True)], 0),
        ([a_claim("a"), a_claim("a")], 1),
        ([a_claim("a"), a_claim("b")], 1),
        ([a_claim("a", shareID=n, consumedCapacity={"memory": "5Gi"}) for n in "xy"], 0),
        ([a_claim("a", shareID=n, consumedCapacity={"memory": "6Gi"}) for n in "xy"], 1),
    ],
    ids=["once", "administrator", "twice", "counters", "shares", "too many shares"],
)
def test_what_is_oversold_is_seen(claims: list[Json], expected: int) -> None:
    assert len(oversold(SLICES, claims)) == expected
