"""Data that pods read, where it is cached, and how a pod names it.

fairlead.dev/data: dataset/imagenet, model/llama-70b, genomes=1.5Ti

`dataset/…` is a Dataset of Fluid in the namespace of the pod, `model/…` a model that KServe caches
on nodes, and any other name is a label of nodes that the administrator chose the prefix of.
"""

from functools import lru_cache

from fairlead.model.errors import FairleadError, QuantityError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.quantities import MEMORY, amount

DATA = "fairlead.dev/data"
#: Labels that KServe puts on the pods of a service whose model it caches.
MODEL, MODEL_NAMESPACE = (
    "internal.serving.kserve.io/localmodel",
    "internal.serving.kserve.io/localmodel-namespace",
)
FLUID, KSERVE, CACHED = "dataset/", "model/", "cache/"
#: Of one pod.
MOST_ITEMS = 16
#: Of a name, and of the whole annotation.
_LONGEST_NAME, _LONGEST = 253, 4096


@dataclass(frozen=True, slots=True)
class DataSet:
    """One set of data: how large it is, and how much of it nodes with a label have together."""

    key: str
    #: 0: it is gone, or its size is not known.
    size_bytes: int = 0
    cached_bytes: int = 0
    #: A label of the nodes that share what is cached, in equal parts.
    label: str = ""


@dataclass(frozen=True, slots=True)
class NodeData:
    """The sets of data that a node has completely."""

    node: str
    keys: frozenset[str] = frozenset()


#: A key, and the size that the pod gives it; 0: it does not say.
DataItem = tuple[str, int]


@lru_cache(maxsize=1024)
def read_data(text: str, namespace: str) -> tuple[DataItem, ...]:
    """What an annotation names; raises FairleadError with what to write instead."""
    if len(text) > _LONGEST:
        raise FairleadError(f"it is longer than {_LONGEST:,} characters")
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(words) > MOST_ITEMS:
        raise FairleadError(f"it names {len(words)} sets of data; the limit is {MOST_ITEMS}")
    return tuple(_item(word, namespace) for word in words)


def _item(word: str, namespace: str) -> DataItem:
    name, said, size = word.partition("=")
    name, size_bytes = name.strip(), data_size_bytes(size) if said else 0
    bare = name.removeprefix(FLUID).removeprefix(KSERVE)
    if not bare or len(name) > _LONGEST_NAME:
        raise FairleadError(f"{word[:64]!r} has no name, or a name of over {_LONGEST_NAME}")
    if said and not size_bytes:
        raise FairleadError(f"{word[:64]!r} has no valid size; write one such as 150Gi")
    if name.startswith(FLUID):
        return f"{FLUID}{namespace}/{bare}", size_bytes
    return (name if name.startswith(KSERVE) else CACHED + name), size_bytes


def data_size_bytes(text: str) -> int:
    """Bytes; 0 if it cannot be read. Fluid writes `1.5GiB` where Kubernetes has `1.5Gi`."""
    try:
        return max(0, amount(MEMORY, text.strip()[:64].removesuffix("B")))
    except QuantityError:
        return 0
