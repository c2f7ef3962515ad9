"""How much of a review is read and answered. What is beyond is refused before it costs anything."""

from collections.abc import Iterable, Iterator

import msgspec

from fairlead.kube.admission.review import Operation
from fairlead.model.errors import FairleadError

#: A request that creates a pod has up to 3 MiB; the API server adds default values to it.
MOST_POD_BYTES = 4 * 2**20
#: JSON objects in one pod: containers, variables, volumes and the like. Pods in use have hundreds.
MOST_OBJECTS = 20_000
MOST_FIELDS = 100_000
#: The API server stores no more; it says so only after it asked us.
MOST_ANNOTATION_BYTES = 256 * 2**10
#: The steps of one patch, encoded. A container takes 200 to 400 bytes of it.
MOST_PATCH_BYTES = 2**20
_STEP_BYTES = 40


class _Meta(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_pods = msgspec.json.Decoder(_Pod)


class TooMuch(FairleadError):
    """The pod is larger than what is answered; the sentence is for its author."""


def check_size(pod: bytes) -> None:
    """Raises TooMuch. It counts bytes, which is far cheaper than decoding.

    What stands inside of texts counts as well.
    """
    if len(pod) > MOST_POD_BYTES:
        raise TooMuch(f"the pod is longer than {MOST_POD_BYTES // 2**20} MiB")
    for mark, most, what in (
        (b"{", MOST_OBJECTS, "containers, variables, volumes and other objects"),
        (b'":', MOST_FIELDS, "labels, annotations and other fields"),
    ):
        found = pod.count(mark)
        if found > most:
            raise TooMuch(f"the pod has {found} {what}; Fairlead reads pods of up to {most}")
    if len(pod) > MOST_ANNOTATION_BYTES:
        _check_annotations(pod)


def _check_annotations(pod: bytes) -> None:
    found = _pods.decode(pod).metadata.annotations or {}
    if sum(map(len, found.values())) > MOST_ANNOTATION_BYTES:
        kib = MOST_ANNOTATION_BYTES // 2**10
        raise TooMuch(f"the annotations of the pod are longer than the {kib} KiB that are stored")


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
