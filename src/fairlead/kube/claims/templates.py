"""The JSON of ResourceClaimTemplates: what commands read that look ahead. Schedulers read none."""

import msgspec
from msgspec import Raw

from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.kinds import GROUP
from fairlead.kube.object_kinds import ObjectKind
from fairlead.model.claims import ResourceClaim

TEMPLATES = ObjectKind(GROUP, ("v1",), "resourceclaimtemplates", "ResourceClaimTemplate")


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct):
    spec: Raw = Raw(b"{}")


class _Template(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


_templates = msgspec.json.Decoder(_Template)


def decode_template(raw: bytes | Raw) -> ResourceClaim:
    """What claims of the template ask for, under its own name. Raises a `msgspec` error."""
    wire = _templates.decode(raw)
    meta = {"namespace": wire.metadata.namespace, "name": wire.metadata.name}
    return decode_claim(msgspec.json.encode({"metadata": meta, "spec": wire.spec.spec}))
