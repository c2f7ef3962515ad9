"""Changes to JSON objects, drawn by a seeded generator: the same seed, the same object."""

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from fuzz.objects import GPUS, NODE_WORDS, POD_WORDS, RESOURCES, Json

_TEXTS = (
    "", " ", "a b", "../..", "a/b/c", "%2e%2e", "a\r\nb", "\x00", "é\u202e", "💥", "nan", "inf",
    "-1", "0", "0.5", "1.0000001", "1e999", "9223372036854775807", "1e-9", "100m", "1Gi", "1k",
    "999999999999999999999999", "0x10", "1,5", "true", "null", "{}", "[]", '{"version":2}',
    "[" * 500,
    "a" * 64, "A-b.c", "n" * 300, "sane-0", "GPU-0", "GPU-0,GPU-1", "0,1,2", "sane-0=0,1", GPUS,
    "GPU-0,10,16000,100,NVIDIA-H100,0,true,0,hami-core:", "2026-01-01T00:00:00Z,default,p",
    "2026-01-01T00:00:00Z,a b,../x", "In", "Exists", "NoExecute", "DoNotSchedule", "Always",
    "1g.10gb", "zone", "kubernetes.io/hostname", "app", "default", "z1", "Immediate",
)  # fmt: skip
#: Where no schema forbids it, the API server takes 64 bits, and fractions.
_NUMBERS = (
    0, 1, -1, 2, 100, 65535, 2**31 - 1, -(2**31), 1_000_000, 2**63 - 1, -(2**63), 1.5, 1e300,
)  # fmt: skip
_OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [None], {"": ""}, [[]], "text", 7)

_MAP = "gpu-scheduling-map"

_Place = tuple[Any, Any]  # a dict or list, and a key or index of it


def mutated(rng: Random, original: Json) -> Json:
    """The object with some changes: mostly few, and mostly such that its types stay right."""
    found = copy.deepcopy(original)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 12))):
        places = list(_places(found))
        if not places:
            break
        where, key = rng.choice(places)
        rng.choice(_CHANGES)(rng, where, key)
    return found


def with_words(rng: Random, obj: Json) -> Json:
    """Some annotations and resources that mean something to us, with anything as their value."""
    kind, meta = obj.get("kind"), obj.get("metadata")
    words = {"Pod": POD_WORDS, "Node": NODE_WORDS}.get(str(kind))
    if words and isinstance(meta, dict):
        count = rng.choice((0, 0, 1, 3))
        said = {rng.choice(words): rng.choice(_TEXTS) for _ in range(count)}
        if _MAP in said and rng.random() < 0.8:
            said[_MAP] = scheduling_map(rng)
        known = meta.get("annotations")
        meta["annotations"] = {**(known if isinstance(known, dict) else {}), **said}
    amounts = {rng.choice(RESOURCES): _amount(rng) for _ in range(rng.choice((0, 0, 0, 1, 2)))}
    for place in _amounts(obj):
        place.update(amounts)
    return obj


def scheduling_map(rng: Random) -> str:
    """Lines that are mostly right, with anything in any of their parts."""
    lines = []
    for _ in range(rng.choice((1, 2, 3, 8))):
        index = rng.choice(("0", "1", "2", "00", "-1", "1_0", "٣", "9" * 20, rng.choice(_TEXTS)))
        node = rng.choice(("gpus-0", "sane-0", "nowhere", "", rng.choice(_TEXTS)))
        gpus = rng.choice(("0", "0,1", "GPU-2", "all", "", "0,0,0", "7", "-1", rng.choice(_TEXTS)))
        lines.append(f"{index}={node}:{gpus}")
    return rng.choice(("\n", "\n", "\n", "\r\n", "\n\n", ";")).join(lines)


def _amount(rng: Random) -> str:
    return rng.choice((str(rng.randint(0, 16)), rng.choice(_TEXTS), str(rng.choice(_NUMBERS))))


def _amounts(obj: Any) -> Iterator[Json]:
    for where, key in list(_places(obj)):
        if key in ("limits", "requests", "allocatable", "capacity") and isinstance(
            where[key], dict
        ):
            yield where[key]


def _places(value: Any) -> Iterator[_Place]:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _remove(_: Random, where: Any, key: Any) -> None:
    del where[key]


def _like(rng: Random, where: Any, key: Any) -> None:
    """Another value of the same type."""
    value = where[key]
    if isinstance(value, bool):
        where[key] = not value
    elif isinstance(value, int | float):
        where[key] = rng.choice(_NUMBERS)
    elif isinstance(value, str):
        where[key] = rng.choice(_TEXTS)
    elif isinstance(value, list):
        where[key] = rng.choice(([], value + value, value * rng.choice((2, 7, 40)), value[::-1]))
    elif isinstance(value, dict):
        where[key] = {**value, rng.choice(_TEXTS): rng.choice(list(value.values()) or ["x"])}


def _other(rng: Random, where: Any, key: Any) -> None:
    where[key] = copy.deepcopy(rng.choice(_OTHERS))


def _longer(rng: Random, where: Any, key: Any) -> None:
    if isinstance(where[key], str):
        where[key] = where[key] * rng.choice((3, 100)) or "x"


def _nested(rng: Random, where: Any, key: Any) -> None:
    if isinstance(where[key], str):
        where[key] = json.dumps({where[key]: [rng.choice(_TEXTS), rng.choice(_NUMBERS), None]})


_CHANGES: tuple[Callable[[Random, Any, Any], None], ...] = (
    _remove, _remove, _like, _like, _like, _like, _other, _longer, _nested,
)  # fmt: skip
