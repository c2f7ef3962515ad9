"""Which slices to write, so that the API server has what it should.

A pool is used only while all its slices have one generation. So a change of several slices raises
the generation, and a change of one slice does not: the slice is replaced at once.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairlead.apps.agent.resource_slices.device_pool import MARK, MARKED
from fairlead.base.nvidia_devices import Object
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.device_gpus import NVIDIA
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

LABEL = "fairlead.dev/publisher"
_AGENT = "agent"
_API = "resource.k8s.io/v1"
_LONGEST_NODE = 200


@dataclass(frozen=True, slots=True)
class FoundSlice:
    """A slice of this node that the API server has."""

    name: str
    version: str
    owner: str
    generation: int
    count: int
    #: Counters or devices, without what the server adds.
    part: Object
    #: Not of a driver, nor changed by one.
    is_ours: bool


class _Owner(msgspec.Struct):
    kind: str = ""
    uid: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Pool(msgspec.Struct, rename="camel"):
    generation: int
    resource_slice_count: int


@dataclass(frozen=True, slots=True)
class SliceSteps:
    """In this order: slices that are not needed go before new ones come."""

    delete: tuple[FoundSlice, ...] = ()
    #: By name, with the version that it replaces; empty: create it.
    write: tuple[tuple[Object, str], ...] = ()


def found_slices(body: bytes) -> list[FoundSlice]:
    """Those of a list. Raises FairleadError: what cannot be read may be of a driver."""
    try:
        return [found_slice(each) for each in msgspec.json.decode(body)["items"]]
    except (*UNREADABLE, LookupError, TypeError, AttributeError) as error:
        raise FairleadError(
            f"a ResourceSlice of the node cannot be read: {error!r:.200}"
        ) from error


def found_slice(slice_: Mapping[str, Any]) -> FoundSlice:
    meta, spec = msgspec.convert(slice_["metadata"], _Meta), slice_["spec"]
    part, pool = bare_part(spec), msgspec.convert(spec["pool"], _Pool)
    return FoundSlice(
        meta.name,
        meta.resource_version,
        next((each.uid for each in meta.owner_references or () if each.kind == "Node"), ""),
        pool.generation,
        pool.resource_slice_count,
        part,
        (meta.labels or {}).get(LABEL) == _AGENT and _is_marked(part),
    )


def bare_part(spec: Mapping[str, Any]) -> Object:
    """Counters and devices, as they were written: the server adds times to taints."""
    devices = [
        device | {"taints": [_without_time(taint) for taint in device["taints"]]}
        if "taints" in device
        else device
        for device in spec.get("devices") or ()
    ]
    counters = spec.get("sharedCounters")
    return ({"devices": devices} if devices else {}) | (
        {"sharedCounters": counters} if counters else {}
    )


def slice_steps(
    node: str, node_uid: str, parts: Sequence[Object], found: Sequence[FoundSlice]
) -> SliceSteps:
    """What is to be done about our slices; slices of others are left alone."""
    ours = {each.name: each for each in found if each.is_ours}
    names = [_name(node, index, len(parts)) for index in range(len(parts))]
    extra = tuple(each for name, each in ours.items() if name not in set(names))
    kept = [ours[name] for name in names if name in ours]
    generations = {each.generation for each in kept}
    is_one_pool = len(generations) <= 1 and all(each.count == len(parts) for each in kept)
    wrong = [
        (name, part)
        for name, part in zip(names, parts, strict=True)
        if name not in ours or (ours[name].part, ours[name].owner) != (part, node_uid)
    ]
    generation = max((each.generation for each in ours.values()), default=0)
    if not is_one_pool or extra or len(wrong) > 1:
        generation += 1
        wrong = list(zip(names, parts, strict=True))
    write = tuple(
        (
            _slice(name, node, node_uid, part, max(generation, 1), len(parts)),
            ours[name].version if name in ours else "",
        )
        for name, part in wrong
    )
    return SliceSteps(extra, write)


def _is_marked(part: Object) -> bool:
    return all(
        device.get("attributes", {}).get(MARK) == MARKED for device in part.get("devices", ())
    )


def _without_time(taint: Object) -> Object:
    return {key: value for key, value in taint.items() if key != "timeAdded"}


def _name(node: str, index: int, count: int) -> str:
    """In the order of the parts; the same after a restart, so that a lost reply does no harm."""
    short = node[:_LONGEST_NODE].rstrip(".-")
    suffix = f"{zlib.crc32(f'{node}/{index}'.encode()):08x}"
    return f"{index:0{len(f'{count:x}')}x}-{NVIDIA}-{short}-{suffix}"


def _slice(
    name: str, node: str, node_uid: str, part: Object, generation: int, count: int
) -> Object:
    owner = {
        "apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True,
    }  # fmt: skip
    return {
        "apiVersion": _API,
        "kind": "ResourceSlice",
        "metadata": {"name": name, "labels": {LABEL: _AGENT}, "ownerReferences": [owner]},
        "spec": {
            "driver": NVIDIA,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            **part,
        },
    }
