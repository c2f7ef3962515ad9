"""The form of the answer that a client accepts, and objects in that form."""

from typing import Any

import msgspec

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver.eventviews import to_events_group
from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.status import ApiStatusError
from fairlead.sim.apiserver.store import StoredObject, encode_as
from fairlead.sim.apiserver.tables import partial, table

Object = dict[str, Any]
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_READABLE = ("application/json", "application/*", "*/*", "application/yaml")


@dataclass(frozen=True, slots=True)
class Form:
    """`as_` is "", "Table", "PartialObjectMetadata" or "PartialObjectMetadataList"."""

    as_: str = ""
    include: str = "Metadata"

    @property
    def is_table(self) -> bool:
        return self.as_ == "Table"

    @property
    def is_partial(self) -> bool:
        return self.as_.startswith("PartialObjectMetadata")


PLAIN = Form()


def choose(accept: str, include: str = "") -> Form:
    """The first form in an Accept header that is served here."""
    if not accept or accept in ("application/json", "*/*"):
        return PLAIN
    for offer in accept.split(","):
        media, *parameters = [part.strip() for part in offer.split(";")]
        if media not in _READABLE:
            continue
        named = dict(part.split("=", 1) for part in parameters if "=" in part)
        wanted = named.get("as", "")
        if not wanted:
            return PLAIN
        if named.get("g") == "meta.k8s.io" and named.get("v") == "v1":
            return Form(wanted, include or "Metadata")
    raise ApiStatusError(
        406, "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml",
    )  # fmt: skip


def present(entry_raw: bytes, kind: Kind) -> bytes:
    """Stored bytes as this kind shows them; the same bytes where it is the kind that keeps them."""
    if entry_raw.startswith(kind.prefix):
        return entry_raw
    obj = _decode(entry_raw)
    return encode_as(kind, to_events_group(obj) if kind.store == "events" else obj)


def one(raw: bytes, kind: Kind, form: Form) -> bytes:
    """A single object in the wanted form."""
    if form.is_table:
        obj = _decode(raw)
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return _encode(table(kind, [_bare(obj)], metadata, form.include))
    if form.is_partial:
        return _encode(partial(_decode(raw)))
    return present(raw, kind)


def many(entries: list[StoredObject], kind: Kind, form: Form, metadata: Object) -> bytes:
    """A list in the wanted form."""
    if form.is_table:
        objects = [_bare(entry.object()) for entry in entries]
        return _encode(table(kind, objects, metadata, form.include))
    if form.is_partial:
        items = [partial(entry.object()) for entry in entries]
        named = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        return _encode({**named, "metadata": metadata, "items": items})
    head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
        kind.listed_as.encode(), kind.api_version.encode(), _encode(metadata),
    )  # fmt: skip
    raws = [present(entry.raw, kind) for entry in entries]
    if kind.custom:  # custom resources keep their kind in lists
        return head + b",".join(raws) + b"]}\n"
    cut = len(kind.prefix)
    return head + b",".join([b"{" + raw[cut:] for raw in raws]) + b"]}\n"


def _bare(obj: Object) -> Object:
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    return obj
