"""What may be written at a bind. The API server checks nothing there, so we must.

A bad key or an oversized value in a Binding is accepted, and from then on every update of that pod
is refused: its kubelet could never report a status again.
"""

from collections.abc import Mapping

from fairlead.base.names import is_subdomain, label_name_problems

#: Of all annotations of a pod, keys and values: Kubernetes refuses every update beyond it.
MOST_ON_A_POD_BYTES = 256 << 10
#: What one bind writes of that. 64 GPUs in the words of HAMi take 16 KiB, and three times as much
#: where init containers have them, too; more is a mistake.
LARGEST_BYTES = 64 << 10


def problem_with_binding(
    node: str, annotations: Mapping[str, str], own: Mapping[str, str] | None = None
) -> str:
    """One sentence on why this must not be sent; empty when it may be.

    `own` are the annotations that the pod has.
    """
    if not is_subdomain(node):
        return f"{node[:80]!r} is not a node name: it must be a lower-case DNS subdomain"
    problem = problem_with_annotations(annotations)
    if problem or not own or not annotations:
        return problem
    size_bytes = size_of({**own, **annotations})
    if size_bytes > MOST_ON_A_POD_BYTES:
        return (
            f"the pod's annotations would take {size_bytes} bytes; "
            f"Kubernetes allows {MOST_ON_A_POD_BYTES}"
        )
    return ""


def size_of(annotations: Mapping[str, str]) -> int:
    """As the API server counts: the bytes of keys and values."""
    return sum(
        len(key) + (len(value) if value.isascii() else len(value.encode(errors="replace")))
        for key, value in annotations.items()
    )


def problem_with_annotations(annotations: Mapping[str, str]) -> str:
    """One sentence on why the API server would choke on these later; empty when it would not."""
    size_bytes = 0
    for key, value in annotations.items():
        if not is_qualified_name(key):
            return f"{key[:80]!r} is not an annotation key: write for example example.com/name"
        # Printable also means no lone surrogates, which no JSON can carry, and no control or
        # direction characters, which would mislead a reader of the value in a terminal.
        if not value.isprintable():
            return f"the value of annotation {key} holds characters that cannot be printed"
        size_bytes += len(key) + (len(value) if value.isascii() else len(value.encode()))
    if size_bytes > LARGEST_BYTES:
        return f"the annotations take {size_bytes} bytes; at most {LARGEST_BYTES} may be written"
    return ""


def is_qualified_name(text: str) -> bool:
    """Whether the text is `[prefix/]name`; in annotation keys Kubernetes ignores the case."""
    return text.isascii() and not label_name_problems(text.lower())
