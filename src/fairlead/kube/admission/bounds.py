"""How much of a review is read and answered. What is beyond is refused before it costs anything."""

from collections.abc import Iterable, Iterator

import msgspec

from fairlead.kube.admission.review import Operation
from fairlead.model.errors import FairleadError

#: A request that creates a pod has up to 3 MiB; the API server adds default values to it.
MOST_BYTES = 4 * 2**20
#: JSON objects in one pod: containers, variables, volumes and the like. Pods in use have hundreds.
MOST_OBJECTS = 20_000
MOST_FIELDS = 100_000
#: Texts in lists, such as the values of a selector: decoding many cannot be interrupted.
MOST_TEXTS = 100_000
#: The API server stores no more; it says so only after it asked us.
MOST_ANNOTATION_BYTES = 256 * 2**10
#: The steps of one patch, encoded. A container takes 200 to 400 bytes of it.
MOST_PATCH_BYTES = 2**20
_STEP_BYTES = 40


class _Meta(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_objects = msgspec.json.Decoder(_Object)


class TooMuch(FairleadError):
    """The object is larger than what is answered; the sentence is for its author."""


#: What to count, as the API server writes it; how many there may be; what that is.
_COUNTED = (
    (b"{", MOST_OBJECTS, "containers, variables, volumes and other objects"),
    (b'":', MOST_FIELDS, "labels, annotations and other fields"),
    (b'","', MOST_TEXTS, "values and other texts"),
)


def check_size(raw: bytes, kind: str = "pod") -> None:
    """Raises TooMuch. It counts bytes, which is far cheaper than decoding.

    What stands inside of texts counts as well.
    """
    if len(raw) > MOST_BYTES:
        raise TooMuch(f"the {kind} is longer than {MOST_BYTES // 2**20} MiB")
    for mark, most, what in _COUNTED:
        # Most pods are too short to have so many.
        if len(raw) > most * len(mark) and (found := raw.count(mark)) > most:
            raise TooMuch(f"the {kind} has {found} {what}; Fairlead reads {kind}s of up to {most}")
    if len(raw) > MOST_ANNOTATION_BYTES:
        _check_annotations(raw, kind)


def _check_annotations(raw: bytes, kind: str) -> None:
    found = _objects.decode(raw).metadata.annotations or {}
    if sum(map(len, found.values())) > MOST_ANNOTATION_BYTES:
        kib = MOST_ANNOTATION_BYTES // 2**10
        raise TooMuch(
            f"the annotations of the {kind} are longer than the {kib} KiB that are stored"
        )


def bounded(steps: Iterable[Operation]) -> Iterator[Operation]:
    """The same steps; raises TooMuch as soon as their sum is beyond the bound."""
    total = 0
    for step in steps:
        total += len(step.path) + len(bytes(step.value)) + _STEP_BYTES
        if total > MOST_PATCH_BYTES:
            raise TooMuch(
                "the pod has too many containers or variables: what Fairlead must inject is "
                f"longer than {MOST_PATCH_BYTES // 2**20} MiB"
            )
        yield step
