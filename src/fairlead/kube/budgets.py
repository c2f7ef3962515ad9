"""Disruption budgets (policy/v1), as far as evicting pods needs them."""

import msgspec
from msgspec import Raw

from fairlead.kube.codec import Meta
from fairlead.kube.requests import decode_selector
from fairlead.model.budgets import Budget


class _Spec(msgspec.Struct, rename="camel", gc=False):
    selector: Raw = Raw()


class _Status(msgspec.Struct, rename="camel", gc=False):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Raw] | None = None


class _Budget(msgspec.Struct, gc=False):
    metadata: Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_budgets = msgspec.json.Decoder(_Budget)


def decode_budget(raw: bytes | Raw) -> Budget:
    wire = _budgets.decode(raw)
    meta, status = wire.metadata, wire.status
    return Budget(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        selector=decode_selector(bytes(wire.spec.selector)),
        allowed=status.disruptions_allowed,
        disrupted=frozenset(status.disrupted_pods or ()),
    )
