"""What claims hold of what drivers publish, added up from raw objects: nothing twice, never more.

Only pools whose slices do not change are added up: a driver may withdraw what claims hold.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
#: Driver, pool and device.
Key = tuple[str, str, str]

_UNITS = {"Gi": 2**30, "Mi": 2**20, "Ki": 2**10, "m": Fraction(1, 1000)}


def amount(text: str) -> Fraction:
    """A quantity as the drawn objects write them."""
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    return Fraction(text.removesuffix(unit)) * (_UNITS[unit] if unit else 1)


def oversold(slices: Iterable[Json], claims: Iterable[Json]) -> list[str]:
    """What is held twice, or more than there is, each in a line."""
    slices, results = list(slices), list(_results(claims))
    return [*_twice(results), *_too_much(slices, results), *_too_many_counters(slices, results)]


def _results(claims: Iterable[Json]) -> Iterator[Json]:
    """Of all allocations; administrators hold nothing."""
    for claim in claims:
        allocation = claim.get("status", {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", ()):
            if not result.get("adminAccess"):
                yield result


def _key(result: Json) -> Key:
    return result["driver"], result["pool"], result["device"]


def _twice(results: list[Json]) -> list[str]:
    whole = Counter(_key(each) for each in results if "shareID" not in each)
    return [f"{'/'.join(key)} is held {count} times" for key, count in whole.items() if count > 1]


def _devices(slices: list[Json]) -> dict[Key, Json]:
    return {
        (part["spec"]["driver"], part["spec"]["pool"]["name"], device["name"]): device
        for part in slices
        for device in part["spec"].get("devices", ())
    }


def _too_much(slices: list[Json], results: list[Json]) -> list[str]:
    """Capacity of devices that is shared."""
    found = []
    for key, device in _devices(slices).items():
        shares = [each.get("consumedCapacity", {}) for each in results if _key(each) == key]
        for name, capacity in device.get("capacity", {}).items():
            used = sum(amount(share[name]) for share in shares if name in share)
            if used > amount(capacity["value"]):
                found.append(f"{'/'.join(key)}: {used} of {capacity['value']} {name}")
    return found


def _too_many_counters(slices: list[Json], results: list[Json]) -> list[str]:
    devices, used = _devices(slices), Counter[tuple[str, ...]]()
    for key in {_key(each) for each in results} & devices.keys():
        for use in devices[key].get("consumesCounters", ()):
            for name, counter in use["counters"].items():
                used[*key[:2], use["counterSet"], name] += amount(counter["value"])
    there = {
        (part["spec"]["driver"], part["spec"]["pool"]["name"], each["name"], name): counter["value"]
        for part in slices
        for each in part["spec"].get("sharedCounters", ())
        for name, counter in each["counters"].items()
    }
    return [f"{'/'.join(key)}: {count} of {there[key]}" for key, count in used.items()
            if count > max(0, amount(there[key]))]  # fmt: skip
