"""The annotation that says which capacity a pod accepts (`model/capacity_types.py` lists it)."""

from fairlead.base.durations import length_s
from fairlead.model.capacity_types import CAPACITY_TYPE, CapacityTerms
from fairlead.model.errors import FairleadError

#: Nothing waits for capacity longer than this.
_LONGEST_WAIT_S = 30 * 24 * 3600.0
_ON_DEMAND, _ALLOWED, _PREFERRED, _AT_MOST = (
    "on-demand", "spot-allowed", "spot-preferred", "spot-at-most",
)  # fmt: skip


def read_capacity_terms(text: str, *, bound: bool) -> CapacityTerms | None:
    """None if any capacity will do. Of a bound pod, an invalid text says nothing."""
    try:
        return _read(text.split())
    except FairleadError:
        if bound:
            return None
        raise FairleadError(
            f"{CAPACITY_TYPE} is {text[:48]!r}; write {_ON_DEMAND}, {_ALLOWED}, {_PREFERRED}, "
            f"{_PREFERRED} with a time to wait such as 30m, or {_AT_MOST} with a share such as 50%"
        ) from None


def _read(words: list[str]) -> CapacityTerms | None:
    match words:
        case [word] if word == _ON_DEMAND:
            return CapacityTerms(on_demand_only=True)
        case [word] if word == _ALLOWED:
            return None
        case [word] if word == _PREFERRED:
            return CapacityTerms(prefers_spot=True)
        case [word, time] if word == _PREFERRED:
            return CapacityTerms(prefers_spot=True, wait_s=_wait_s(time))
        case [word, share] if word == _AT_MOST:
            return CapacityTerms(spot_share=_share(share))
    raise FairleadError("unknown words")


def _wait_s(text: str) -> float:
    found = length_s(text)
    if found > _LONGEST_WAIT_S:
        raise FairleadError("too long")
    return found


def _share(text: str) -> float:
    percent = text.removesuffix("%")
    is_number = percent != text and percent.isascii() and percent.isdigit() and len(percent) <= 3
    if not is_number or int(percent) > 100:
        raise FairleadError("no share")
    return int(percent) / 100
