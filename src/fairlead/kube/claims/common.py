"""What the objects of resource.k8s.io have in common."""

from collections.abc import Mapping
from fractions import Fraction

import msgspec
from msgspec import Raw

from fairlead.kube.claims.wire import (
    ClaimMetaWire,
    ClaimObjectWire,
    ConfigWire,
    DeviceTaintWire,
    DeviceTolerationWire,
    OpaqueWire,
    SelectorWire,
)
from fairlead.kube.nesting import TOO_DEEP
from fairlead.kube.requests import NodeSelectorWire, read_terms
from fairlead.model import quantities
from fairlead.model.claims import SCHEDULING
from fairlead.model.devices import DeviceTaint, DeviceToleration, Exact, OpaqueConfig
from fairlead.model.errors import FairleadError
from fairlead.model.pods import NodeTerm

_LONGEST_PROBLEM = 300
_INT64 = 1 << 63
_objects = msgspec.json.Decoder(ClaimObjectWire)


def read_claim_object(raw: bytes | Raw) -> ClaimObjectWire:
    return _objects.decode(raw)


def unreadable(what: str, error: Exception) -> str:
    return f"the {what} cannot be read: {error}"[:_LONGEST_PROBLEM]


def is_set(raw: Raw) -> bool:
    """Whether a field that is not read has a value."""
    return bytes(raw) not in (b"", b"null", b"[]", b"{}")


def controller_uid(meta: ClaimMetaWire) -> str:
    owners = (owner.uid for owner in meta.owner_references or () if owner.controller)
    return next(owners, "")


def controlling_group(meta: ClaimMetaWire) -> str:
    """The key of the PodGroup that controls the object; empty if something else does."""
    owners = (owner for owner in meta.owner_references or () if owner.controller)
    found = next(owners, None)
    if found is None or found.kind != "PodGroup":
        return ""
    is_ours = found.api_version.startswith(f"{SCHEDULING}/")
    return f"{meta.namespace}/{found.name}" if is_ours else ""


def exact(text: str) -> Exact:
    """Beyond 64 bits it is a fraction: the decision log cannot write such ints."""
    value = quantities.exact(text)
    return value if -_INT64 < value < _INT64 else Fraction(value)


def exact_amounts(texts: Mapping[str, str] | None) -> tuple[tuple[str, Exact], ...]:
    return tuple(sorted((name, exact(text)) for name, text in (texts or {}).items()))


def terms_of(found: NodeSelectorWire | None) -> tuple[NodeTerm, ...] | None:
    return None if found is None else read_terms(found)


def taint_of(wire: DeviceTaintWire) -> DeviceTaint:
    return DeviceTaint(wire.key, wire.value, wire.effect)


def toleration_of(wire: DeviceTolerationWire) -> DeviceToleration:
    return DeviceToleration(
        wire.key, wire.operator, wire.value, wire.effect, wire.toleration_seconds
    )


def selectors_of(found: list[SelectorWire] | None) -> tuple[str | None, ...]:
    return tuple(each.cel.expression if each.cel else None for each in found or ())


def config_of(wire: ConfigWire) -> OpaqueConfig:
    opaque = wire.opaque or OpaqueWire()
    parameters = bytes(opaque.parameters).decode()
    if TOO_DEEP in parameters:
        raise FairleadError(
            f"its parameters for {opaque.driver} are nested too deeply; shorten them"
        )
    return OpaqueConfig(opaque.driver, parameters, tuple(wire.requests or ()))
