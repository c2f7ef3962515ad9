"""AdmissionReview, version v1: the API server's question about one object, and our answer."""

import base64
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw

from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.nesting import of_any_depth
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
_SHOWN_CHARS = 120


class BadReview(FairleadError):
    """What was sent is no question that could be answered."""


class Operation(msgspec.Struct, omit_defaults=True):
    """One step of a JSON patch (RFC 6902)."""

    op: str
    path: str
    value: Raw = Raw()


class _Kind(msgspec.Struct, gc=False):
    group: str = ""
    kind: str = ""


class _Request(msgspec.Struct, rename="camel", gc=False):
    uid: str = ""
    kind: _Kind = msgspec.field(default_factory=_Kind)
    sub_resource: str = ""
    operation: str = ""
    object: Raw = Raw()
    old_object: Raw = Raw()


class _Question(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Status(msgspec.Struct):
    message: str
    code: int = 422
    reason: str = "Invalid"


class _Response(msgspec.Struct, rename="camel", omit_defaults=True):
    uid: str
    # No default, so that it is written even when it is false.
    allowed: bool
    status: _Status | None = None
    patch_type: str = ""
    patch: str = ""
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, rename="camel"):
    response: _Response
    api_version: str = VERSION
    kind: str = KIND


_read_question = of_any_depth(msgspec.json.Decoder(_Question).decode)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Review:
    """A question about one object."""

    uid: str
    object: bytes
    #: Whether it is about a pod that is being created.
    creates_pod: bool
    #: Whether it is about a queue of our own that is being created or changed.
    describes_queue: bool
    #: The pod as it was, if ephemeral containers are being added to it. We have a say in no more.
    before: bytes | None = None


def read_review(body: bytes) -> Review:
    """Raises BadReview with one sentence for the administrator who configured the sender."""
    try:
        asked = _read_question(body)
    except UNREADABLE as error:
        raise BadReview(
            f"the body is not an AdmissionReview: {str(error)[:_SHOWN_CHARS]}"
        ) from error
    if asked.kind != KIND or asked.api_version != VERSION:
        said = f"{asked.kind or 'no kind'} of {asked.api_version or 'no apiVersion'}"
        raise BadReview(
            f"the body is {said[:_SHOWN_CHARS]!r}; send an {KIND} of {VERSION} "
            "(admissionReviewVersions: [v1])"
        )
    request = asked.request
    if request is None or not request.uid:
        raise BadReview("the AdmissionReview has no request with a uid; there is nothing to answer")
    asks = _asks(request)
    before = bytes(request.old_object) if asks == ("UPDATE", "ephemeralcontainers") else None
    return Review(
        request.uid,
        bytes(request.object),
        asks == ("CREATE", ""),
        _is_about(request, "fairlead.dev", "Queue") and request.operation in ("CREATE", "UPDATE"),
        before,
    )


def _asks(request: _Request) -> tuple[str, str] | None:
    """The operation, and on what of a pod; None if it is about something else."""
    about_pod = _is_about(request, "", "Pod")
    return (request.operation, request.sub_resource) if about_pod else None


def _is_about(request: _Request, group: str, kind: str) -> bool:
    given = bytes(request.object) not in (b"", b"null")
    return given and (request.kind.group, request.kind.kind) == (group, kind)


def allow(review: Review, patch: Sequence[Operation] = (), warnings: Iterable[str] = ()) -> bytes:
    """Yes; with a patch if there is something to put in, and with warnings that are not empty."""
    if not patch:
        told = tuple(filter(None, warnings))
        return _encode(_Answer(_Response(review.uid, allowed=True, warnings=told)))
    coded = base64.b64encode(_encode(patch)).decode()
    return _encode(_Answer(_Response(review.uid, True, None, "JSONPatch", coded)))


def refuse(review: Review, sentence: str) -> bytes:
    """A refusal; the API server shows the sentence to the user who creates the pod."""
    return _encode(_Answer(_Response(review.uid, False, _Status(sentence))))
