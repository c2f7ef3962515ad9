"""The JSON of ComputeDomains of NVIDIA's driver, as far as it is of use to explain and to place.

It is an object of another project: one that cannot be read says so, and nothing depends on it.
"""

import msgspec
from msgspec import Raw

from fairlead.kube.claims.common import read_claim_object, unreadable
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.compute_domains import ComputeDomain, DomainNode

#: Nodes of one domain that are kept.
MOST_NODES = 2000
_MOST_ASKED = 1_000_000
_READY = "Ready"


class _Template(msgspec.Struct, gc=False):
    name: str = ""


class _Channel(msgspec.Struct, rename="camel", gc=False):
    resource_claim_template: _Template | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    num_nodes: int = 0
    channel: _Channel | None = None


class _Node(msgspec.Struct, gc=False):
    name: str = ""
    clique: str = msgspec.field(default="", name="cliqueID")
    status: str = ""


class _Status(msgspec.Struct, gc=False):
    status: str = ""
    nodes: list[_Node | None] | None = None


_specs = msgspec.json.Decoder(_Spec | None)
_statuses = msgspec.json.Decoder(_Status | None)


def decode_compute_domain(raw: bytes | Raw) -> ComputeDomain:
    """One that makes no sense has a `problem`."""
    wire = read_claim_object(raw)
    meta, problem = wire.metadata, ""
    try:
        spec, status = _specs.decode(wire.spec), _statuses.decode(wire.status)
    except UNREADABLE as error:
        spec, status, problem = None, None, unreadable("ComputeDomain", error)
    channel = spec.channel if spec else None
    template = channel.resource_claim_template if channel else None
    nodes = (status.nodes if status else None) or ()
    return ComputeDomain(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        num_nodes=min(max(0, spec.num_nodes), _MOST_ASKED) if spec else 0,
        template=template.name if template else "",
        is_ready=status is not None and status.status == _READY,
        nodes=tuple(_node(each) for each in nodes[:MOST_NODES] if each is not None),
        deleting=meta.deletion_timestamp is not None,
        problem=problem,
    )


def _node(wire: _Node) -> DomainNode:
    return DomainNode(wire.name, wire.clique, wire.status == _READY)
