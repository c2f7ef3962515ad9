"""Objects that say where data is cached: Datasets of Fluid, and the models that KServe caches.

All of them are of other projects: what cannot be read is data that is not counted, no more.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from fairlead.kube.gangs.api import GangKind, ObjectWire
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.data_sets import FLUID, KSERVE, DataSet, NodeData, data_size_bytes
from fairlead.model.lazy_dataclass import dataclass

#: Models of one node that are counted.
_MOST_MODELS = 1000
_REMEDY = "install its CustomResourceDefinition"
_DOWNLOADED = "ModelDownloaded"

DATASET = GangKind("data.fluid.io", ("v1alpha1",), "datasets", "Dataset", _REMEDY)
_SERVING = "serving.kserve.io"
MODEL_CACHE = GangKind(
    _SERVING, ("v1alpha1",), "localmodelcaches", "LocalModelCache", _REMEDY
)  # fmt: skip
NAMESPACE_CACHE = GangKind(
    _SERVING, ("v1alpha1",), "localmodelnamespacecaches", "LocalModelNamespaceCache", _REMEDY
)
MODEL_NODE = GangKind(
    _SERVING, ("v1alpha1",), "localmodelnodes", "LocalModelNode", _REMEDY
)  # fmt: skip
DATA_KINDS = (DATASET, MODEL_CACHE, NAMESPACE_CACHE, MODEL_NODE)


@dataclass(frozen=True, slots=True)
class DataObject:
    """One of them, as it was last seen."""

    key: str
    uid: str
    version: str
    described: DataSet | NodeData


class _CacheStates(msgspec.Struct, gc=False):
    cached: str = ""


class _DatasetStatus(msgspec.Struct, rename="camel", gc=False):
    ufs_total: str = ""
    cache_states: _CacheStates | None = None


class _CacheSpec(msgspec.Struct, rename="camel", gc=False):
    model_size: str | int = ""


class _NodeStatus(msgspec.Struct, rename="camel", gc=False):
    model_status: dict[str, str] | None = None


_objects = msgspec.json.Decoder(ObjectWire)
_dataset_statuses = msgspec.json.Decoder(_DatasetStatus | None)
_cache_specs = msgspec.json.Decoder(_CacheSpec | None)
_node_statuses = msgspec.json.Decoder(_NodeStatus | None)


def data_decoder(kind: GangKind) -> Callable[[bytes | msgspec.Raw], DataObject]:
    return partial(_decode, kind)


def gone(kind: GangKind, key: str) -> DataSet | NodeData:
    """What is left of an object that does not exist any more."""
    return NodeData(key) if kind is MODEL_NODE else DataSet(_PREFIXES[kind] + key)


_PREFIXES = {DATASET: FLUID, MODEL_CACHE: KSERVE, NAMESPACE_CACHE: KSERVE}


def _decode(kind: GangKind, raw: bytes | msgspec.Raw) -> DataObject:
    wire = _objects.decode(raw)
    meta = wire.metadata
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    try:
        described = _READERS[kind](meta.namespace, meta.name, bytes(wire.spec), bytes(wire.status))
    except UNREADABLE:
        described = gone(kind, key)
    return DataObject(key, meta.uid, meta.resource_version, described)


def _dataset(namespace: str, name: str, _spec: bytes, status: bytes) -> DataSet:
    said = _dataset_statuses.decode(status) or _DatasetStatus()
    cached = data_size_bytes(said.cache_states.cached) if said.cache_states else 0
    size = data_size_bytes(said.ufs_total)
    label = f"fluid.io/s-{namespace}-{name}"
    return DataSet(f"{FLUID}{namespace}/{name}", size, min(cached, size), label)


def _model_cache(namespace: str, name: str, spec: bytes, _status: bytes) -> DataSet:
    said = _cache_specs.decode(spec) or _CacheSpec()
    key = f"{namespace}/{name}" if namespace else name
    return DataSet(KSERVE + key, data_size_bytes(str(said.model_size)))


def _model_node(_namespace: str, name: str, _spec: bytes, status: bytes) -> NodeData:
    said = _node_statuses.decode(status) or _NodeStatus()
    there = [key for key, state in (said.model_status or {}).items() if state == _DOWNLOADED]
    return NodeData(name, frozenset(KSERVE + key for key in sorted(there)[:_MOST_MODELS]))


_READERS: dict[GangKind, Callable[[str, str, bytes, bytes], DataSet | NodeData]] = {
    DATASET: _dataset,
    MODEL_CACHE: _model_cache,
    NAMESPACE_CACHE: _model_cache,
    MODEL_NODE: _model_node,
}
