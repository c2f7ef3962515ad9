"""What a pod says it will do with its GPUs, by annotation.

    fairlead.dev/gpu-load: "0.6"            # of the time, at its busiest
    fairlead.dev/gpu-load: cyclic           # in a rhythm, as training does; or bursty
    fairlead.dev/gpu-load: 0.6 cyclic       # both

Alnair's profiler writes what it measured of a pod; a copy of it on the next pod is believed.
"""

import math
from collections.abc import Iterable, Mapping

from fairlead.model.errors import FairleadError
from fairlead.model.loads import PodLoad

LOAD = "fairlead.dev/gpu-load"
_RHYTHMS = {"cyclic": True, "bursty": False}
#: Percent of a GPU, by profilers from v0.5 on; before that by GPU, in percent and MiB.
_ALNAIR, _ALNAIR_OLD = "alnair.centaurusinfra.io/gpu_util", "ai.centaurus.io/"
_OLD_UTIL, _OLD_MEMORY = "_util", "_mem_mb"


def read_load(annotations: Mapping[str, str]) -> PodLoad | None:
    """None without an annotation. An annotation of another system that is no number is ignored."""
    if LOAD in annotations:
        return _ours(annotations[LOAD])
    if not any("centaurus" in key for key in annotations):
        return None
    busy = _largest([*_old(annotations, _OLD_UTIL), annotations.get(_ALNAIR, "")], 100.0)
    memory_mib = _largest(_old(annotations, _OLD_MEMORY), math.inf)
    if busy is None and memory_mib is None:
        return None
    return PodLoad(None if busy is None else _rounded(busy / 100), memory_mib=memory_mib)


def _ours(text: str) -> PodLoad:
    busy: float | None = None
    cyclic: bool | None = None
    words = text.split()
    for word in words:
        if word in _RHYTHMS and cyclic is None:
            cyclic = _RHYTHMS[word]
        elif busy is None and (share := _number(word)) is not None and share <= 1:
            busy = _rounded(share)
        else:
            words = []
    if not words:
        raise FairleadError(
            f"{LOAD} is {text[:32]!r}; write a share of the time from 0 to 1 such as 0.6, "
            "cyclic or bursty, or both such as 0.6 cyclic"
        )
    return PodLoad(busy, cyclic)


def _rounded(share: float) -> float:
    """In twentieths, so that pods that differ in noise alone share their answers."""
    return round(share * 20) / 20


def _old(annotations: Mapping[str, str], end: str) -> Iterable[str]:
    return (
        value
        for key, value in annotations.items()
        if key.startswith(_ALNAIR_OLD) and "-gpu-" in key and key.endswith(end)
        and not key.endswith("_bw" + end)
    )  # fmt: skip


def _largest(texts: Iterable[str], most: float) -> float | None:
    found = [number for text in texts if (number := _number(text)) is not None and number <= most]
    return max(found, default=None)


def _number(text: str) -> float | None:
    try:
        number = float(text[:32])
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None
