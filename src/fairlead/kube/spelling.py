"""Annotations that look like a request for GPUs and are none, because a letter is wrong.

Such a pod is placed without GPUs, and its author sees no reason why. So unknown keys under our own
prefix, and keys that are nearly those of another system, are reported with the nearest key.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache

from fairlead.kube.counted_words import CHARGED_COUNTED, COUNTED
from fairlead.kube.dialects import DIALECTS, kai
from fairlead.kube.dialects.fairlead import (
    ASSIGNMENT,
    MEMORY_LIMIT,
    PREFIX,
    SHOWN,
    THREADS,
    VISIBLE,
)
from fairlead.kube.dialects.scheduling_map import INDEX
from fairlead.kube.gangs.fairlead import ANNOTATION_KEYS as GANGS
from fairlead.kube.leadership.fence import EPOCH
from fairlead.kube.pod_loads import LOAD
from fairlead.kube.queues.fairlead import CHARGED, QUEUE
from fairlead.model.backfill import FILLER
from fairlead.model.capacity_types import CAPACITY_TYPE
from fairlead.model.consolidation import DO_NOT_MOVE, LAST_CHECKPOINT
from fairlead.model.data_sets import DATA
from fairlead.model.rules import NODE_RULE
from fairlead.model.run_times import RUN_TIME, TIME_LIMIT
from fairlead.model.service_classes import SERVICE_CLASS
from fairlead.model.start_times import START_KEYS

_ANNOTATION_KEYS = frozenset(word for dialect in DIALECTS for word in dialect.annotation_keys)
#: Names under our prefix that users write.
_FAIRLEAD = tuple(
    key.removeprefix(PREFIX)
    for key in (
        *_ANNOTATION_KEYS,
        *GANGS,
        LOAD,
        QUEUE,
        RUN_TIME,
        TIME_LIMIT,
        CAPACITY_TYPE,
        COUNTED,
        NODE_RULE,
        SERVICE_CLASS,
        DATA,
        *START_KEYS,
    )
    if key.startswith(PREFIX)
)
_THEIRS = tuple(sorted(word for word in _ANNOTATION_KEYS if not word.startswith(PREFIX)))
#: Written with a bind, on simulated pods, or by users about what a pod does and may lose.
_OTHERS = (
    VISIBLE, SHOWN, ASSIGNMENT, INDEX, EPOCH, THREADS, MEMORY_LIMIT,
    CHARGED, CHARGED_COUNTED, COUNTED, LAST_CHECKPOINT, DO_NOT_MOVE, *START_KEYS, RUN_TIME,
    TIME_LIMIT, FILLER, CAPACITY_TYPE, NODE_RULE, SERVICE_CLASS, DATA,
    PREFIX + "run-for", PREFIX + "sample",
)  # fmt: skip
_KNOWN = _ANNOTATION_KEYS.union(_OTHERS, GANGS, (LOAD, QUEUE))
#: Ours without the prefix, where no other system uses the name.
_ONLY_OURS = frozenset({"gpu-share", "gpu-slice"})
_BY_CONTAINER = kai.PREFIX + "<container>.gpu-memory.request"

# How alike two keys are; one or two letters of twenty make 0.9.
_NEARLY, _SOMEWHAT = 0.9, 0.6
# Comparing costs a millisecond, and a pod may have thousands of annotations.
_MOST_COMPARED, _MOST_TOLD = 16, 3


def misspelt(annotations: Mapping[str, str]) -> str:
    """One sentence for the author of a pod; empty if every key is known or no business of ours."""
    suspects = [
        key
        for key in annotations
        if key not in _KNOWN and ("gpu" in (lower := key.lower()) or lower.startswith(PREFIX))
    ]
    if not suspects:
        return ""
    told = [sentence for key in sorted(suspects)[:_MOST_COMPARED] if (sentence := _about(key))]
    return "; ".join(told[:_MOST_TOLD])


@lru_cache(maxsize=4096)
def _about(key: str) -> str:
    lower = key.lower()
    if lower.startswith(PREFIX):
        near = _nearest(lower.removeprefix(PREFIX), _FAIRLEAD, _SOMEWHAT)
        return _sentence(key, near and PREFIX + near)
    if key.startswith(kai.PREFIX):
        return "" if kai.is_known(key) else _sentence(key, _BY_CONTAINER)
    near = PREFIX + lower if lower in _ONLY_OURS else _nearest(lower, _THEIRS, _NEARLY)
    return _sentence(key, near) if near else ""


def _nearest(key: str, known: tuple[str, ...], how_near: float) -> str:
    return next(iter(get_close_matches(key, known, n=1, cutoff=how_near)), "")


def _sentence(key: str, near: str) -> str:
    unknown = f"annotation {key[:128]} is unknown and has no effect"
    return f"{unknown}; did you mean {near}?" if near else unknown
