"""A node from its JSON."""

from collections.abc import Mapping, Sequence
from sys import intern

import msgspec
from msgspec import Raw

from fairlead.kube import dialects
from fairlead.kube.codec.meta import Meta, StatusConditionWire
from fairlead.model.errors import QuantityError
from fairlead.model.nodes import Image, Node
from fairlead.model.pods import Amounts, Taint
from fairlead.model.quantities import amount
from fairlead.model.sizes import remembered


class _Taint(msgspec.Struct, rename="camel", gc=False):
    key: str
    effect: str
    value: str = ""


class _NodeSpec(msgspec.Struct, rename="camel", gc=False):
    unschedulable: bool = False
    taints: list[_Taint] | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class _Address(msgspec.Struct, gc=False):
    type: str = ""
    address: str = ""


class _NodeStatus(msgspec.Struct, rename="camel", gc=False):
    addresses: list[_Address] | None = None
    allocatable: Raw = Raw()
    images: list[Raw] | None = None
    declared_features: list[str] | None = None
    conditions: list[StatusConditionWire] | None = None


class _Node(msgspec.Struct, rename="camel", gc=False):
    metadata: Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _Image(msgspec.Struct, rename="camel", gc=False):
    names: list[str] | None = None
    size_bytes: int = 0


_nodes = msgspec.json.Decoder(_Node)
_amounts = msgspec.json.Decoder(dict[str, str])
_images = msgspec.json.Decoder(_Image)


def decode_node(raw: bytes | Raw) -> Node:
    wire = _nodes.decode(raw)
    meta, spec = wire.metadata, wire.spec
    allocatable = _allocatable(bytes(wire.status.allocatable))
    gpus, problem = dialects.read_inventory(_offering(wire, allocatable))
    return Node(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        allocatable=allocatable,
        labels=_shared(meta.labels or {}),
        annotations=meta.annotations or {},
        taints=tuple(Taint(t.key, t.value, t.effect) for t in spec.taints or ()),
        unschedulable=spec.unschedulable,
        provider_id=spec.provider_id,
        images=tuple(_image(bytes(image)) for image in wire.status.images or ()),
        features=tuple(wire.status.declared_features or ()),
        inventory=gpus,
        gpu_problem=problem,
        reservable=dialects.reservable(_offering(wire, allocatable), gpus),
        address=_internal_address(wire.status.addresses or ()),
    )


def _shared(labels: Mapping[str, str]) -> dict[str, str]:
    """Discovery of features gives all nodes a hundred equal labels: their text is kept once."""
    return {intern(key): intern(value) for key, value in labels.items()}


def _internal_address(addresses: Sequence[_Address]) -> str:
    return next((each.address for each in addresses if each.type == "InternalIP"), "")


def _offering(wire: _Node, allocatable: Amounts) -> dialects.NodeDeclaration:
    meta = wire.metadata
    true = (c.type for c in wire.status.conditions or () if c.status == "True")
    return dialects.NodeDeclaration(
        meta.name, meta.labels or {}, meta.annotations or {}, dict(allocatable), frozenset(true)
    )


@remembered(4 << 20)
def _image(raw: bytes) -> Image:
    """Nodes share what they have in common: a cluster has few images, on many nodes."""
    found = _images.decode(raw)
    return Image(tuple(found.names or ()), found.size_bytes)


@remembered(4 << 20)
def _allocatable(raw: bytes) -> Amounts:
    found = _amounts.decode(raw) if raw and raw != b"null" else {}
    try:
        return tuple(sorted((name, amount(name, text)) for name, text in found.items()))
    except QuantityError as error:
        raise QuantityError(f"status.allocatable: {error}") from error
