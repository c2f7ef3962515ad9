"""Where on which GPU a MIG slice is cut.

A slice goes where the least is lost for others: for each kind of slice, the places that are no
longer free, counted by the compute that they would have given. Among equals the GPU that is worth
least to others is best, then the lowest place. No guess about who comes next is needed; on mixes of
large and of small slices this accepts as much as the best rule made for either (`bench/mig.py`).
"""

from collections.abc import Mapping

from fairlead.model.gpus import GpuRequest, MigProfile
from fairlead.model.sizes import remembered

Kinds = tuple[MigProfile, ...]
#: How a GPU can be cut, and the memory slices in use as bits.
Cut = tuple[Kinds, int]


def slice_place(ask: GpuRequest, gpus: Mapping[int, Cut]) -> tuple[int, int, int] | None:
    """Slot, first slice and length of the place where the least is lost; None if there is none."""
    return _place({slot: (ask.profile_of(kinds), (kinds, used))
                   for slot, (kinds, used) in gpus.items()})  # fmt: skip


def profile_place(profile: str, gpus: Mapping[int, Cut]) -> tuple[int, int, int] | None:
    """The same for a slice of this profile."""
    return _place({slot: (profile, cut) for slot, cut in gpus.items()})


def _place(gpus: Mapping[int, tuple[str, Cut]]) -> tuple[int, int, int] | None:
    places = (
        (lost, _worth(kinds, used), start, slot, length)
        for slot, (profile, (kinds, used)) in gpus.items()
        for lost, start, length in _best_place(profile, kinds, used)
    )
    found = min(places, default=None)
    if found is None:
        return None
    _, _, start, slot, length = found
    return slot, start, length


# A GPU has 256 states at most, and few kinds of GPUs can be cut.
@remembered(8 << 20)
def _best_place(profile: str, kinds: Kinds, used: int) -> tuple[tuple[int, int, int], ...]:
    """What is lost, first slice and length of the best place on such a GPU; nothing if full."""
    worth = _worth(kinds, used)
    places = [
        (worth - _worth(kinds, used | mask), start, kind.slices)
        for kind in kinds
        if kind.name == profile
        for start, mask in zip(kind.starts, kind.masks(), strict=True)
        if not used & mask
    ]
    return (min(places),) if places else ()


@remembered(8 << 20)
def _worth(kinds: Kinds, used: int) -> int:
    """Compute slices of all places that are still free, each kind of slice by itself."""
    usual = _usual(kinds)
    return sum(kind.compute for kind in usual for mask in kind.masks() if not used & mask)


@remembered(1 << 20)
def _usual(kinds: Kinds) -> Kinds:
    """Of kinds with the same compute only the shortest: few ask for more memory than goes with it.

    To keep places for them all the same costs more of the others than it saves of these.
    """
    shortest: dict[int, MigProfile] = {}
    for kind in sorted(kinds, key=lambda kind: (kind.slices, kind.name)):
        shortest.setdefault(kind.compute, kind)
    return tuple(shortest.values())
