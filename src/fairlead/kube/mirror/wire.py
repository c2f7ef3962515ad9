"""The JSON around the objects: watch events, list pages, refusals, and names read leniently."""

from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.kube.http.reply import LONGEST_RETRY_AFTER_S, UNREADABLE, Reply
from fairlead.kube.mirror.changes import Undecodable
from fairlead.kube.nesting import of_any_depth

if TYPE_CHECKING:
    from fairlead.kube.http.watch import WatchStream

END_OF_INITIAL_EVENTS = "k8s.io/initial-events-end"
_EXCERPT_BYTES = 500


class Envelope(msgspec.Struct, gc=False):
    """One event of a watch; the object is left encoded, for the decoder of its kind."""

    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Bookmark(msgspec.Struct):
    metadata: _Bookmark

    @property
    def version(self) -> str:
        return self.metadata.resource_version

    @property
    def ends_initial_events(self) -> bool:
        return (self.metadata.annotations or {}).get(END_OF_INITIAL_EVENTS) == "true"


class _Names(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class ObjectIdentity(msgspec.Struct, gc=False):
    """Which object this is, whatever else may be in it."""

    metadata: _Names

    @property
    def key(self) -> str:
        names = self.metadata
        return f"{names.namespace}/{names.name}" if names.namespace else names.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def version(self) -> str:
        return self.metadata.resource_version


class _Kind(msgspec.Struct, gc=False):
    kind: str = ""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """One page of a list."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] | None = None
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""
    details: _Details | None = None


read_envelope = msgspec.json.Decoder(Envelope).decode
read_bookmark = msgspec.json.Decoder(Bookmark).decode
read_identity = of_any_depth(msgspec.json.Decoder(ObjectIdentity).decode)
read_page = of_any_depth(msgspec.json.Decoder(Page).decode)
_read_kind = msgspec.json.Decoder(_Kind).decode
_read_status = msgspec.json.Decoder(_Status).decode


class StatusError(Exception):
    """The server said no, by the status of a reply or by an ERROR event inside a 200."""

    def __init__(
        self, code: int, message: str, retry_after_s: float | None, *, too_new: bool = False
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s
        #: We asked for a revision that the server has not reached.
        self.too_new = too_new

    @classmethod
    def of(cls, answer: "Reply | WatchStream") -> "StatusError":
        message = answer.message
        return cls(
            answer.status,
            message,
            answer.retry_after_s,
            too_new="Too large resource version" in message,
        )

    @classmethod
    def of_event(cls, status: bytes) -> "StatusError":
        """From the Status in an ERROR event; raises msgspec.MsgspecError if it is none."""
        said = _read_status(status)
        details = said.details or _Details()
        causes = [cause.reason for cause in details.causes or ()]
        too_new = "ResourceVersionTooLarge" in causes or "Too large resource" in said.message
        asked_s = details.retry_after_seconds
        if asked_s is not None:
            asked_s = min(max(asked_s, 0.0), LONGEST_RETRY_AFTER_S)
        return cls(said.code, said.message, asked_s, too_new=too_new)


def kind_of(raw: bytes) -> str:
    """The kind that an object says it is; empty if it does not say."""
    try:
        return _read_kind(raw).kind
    except UNREADABLE:
        return ""


def undecodable(raw: bytes, error: Exception) -> Undecodable:
    """All that can be said about an object that its decoder refuses."""
    try:
        identity = read_identity(raw)
    except UNREADABLE:
        identity = ObjectIdentity(_Names())
    return Undecodable(
        key=identity.key or None,
        uid=identity.uid,
        version=identity.version,
        raw_excerpt=raw[:_EXCERPT_BYTES].decode("utf-8", "backslashreplace"),
        error=str(error) or type(error).__name__,
        object=_plain(raw),
    )


def _plain(raw: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE:
        return None
    return value if isinstance(value, dict) else None
