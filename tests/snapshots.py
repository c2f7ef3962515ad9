"""Everything that a cluster knows, as plain values that can be compared bit for bit.

Caches that are worked out again when needed are left out, and so are free places in tables: what
rules can read is compared, arrays by their bytes.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from builders import a_pod
from fairlead.cluster.affinity_weights import AffinityWeights
from fairlead.cluster.attached import AttachedVolumes
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.devices import Devices
from fairlead.cluster.interned import Interned
from fairlead.cluster.pod_index import PodIndex
from fairlead.cluster.pod_table import PodTable
from fairlead.cluster.row_counts import RowCounts
from fairlead.model.sizes import Kept
from fairlead.placement.views import View

_CACHES = {
    "changes", "work", "missed", "outlook", "_about", "_keys_before", "_existing_anti_affinity",
    "_holds", "_summed", "_arrays", "_stale", "version", "_storage", "in_trial", "improved",
    "_improved", "_cluster", "match", "_work", "_columns", "_tables", "_counts",
    "_asking", "_query_bytes", "topology", "_charge_of",
}  # fmt: skip


def state(cluster: Cluster) -> dict[str, object]:
    pods = (a_pod(uid="", priority=priority) for priority in range(4))
    evictable = [plain(cluster.evictable(pod)) for pod in pods]
    return {**_plain_attributes(cluster), "evictable": evictable}


def plain(value: object) -> object:
    match value:
        case np.ndarray():
            return value.dtype.str, value.shape, value.tobytes()
        case Kept():
            return None
        case Counter():
            return {key: count for key, count in value.items() if count}
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case set():
            return frozenset(value)
        case float():
            return value.hex()
        case list() | tuple():
            return [plain(each) for each in value]
        case Interned():
            return {v: (code, value._uses[code]) for v, code in value.code_of.items()}
        case RowCounts():
            return value.dense(value._rows).tobytes()
        case PodTable():
            return _pods(value)
        case Devices():
            return {**_plain_attributes(value), "order": _order(value)}
        case AffinityWeights():
            return value.keys, plain(value._held)
        case PodIndex():
            for query, counts in value._counts.items():  # which there are depends on who asked
                assert (counts == value._counted(query)).all(), query
            keys = value.keys_of_anti_affinity
            return {**_plain_attributes(value), "_seen": keys}
        case AttachedVolumes():
            value._count_stale()
            return _plain_attributes(value)
        case _ if type(value).__module__.startswith(("fairlead.cluster", "fairlead.claims")):
            return _plain_attributes(value)
        case _:
            return value


def seen(view: View) -> tuple[object, ...]:
    """What a view answers, to the bit. Scores of nodes that are refused are not used."""
    said = view.pre_filter_message, sorted(view._speaking)
    scores = np.where(view.left, view._scores, 0.0)
    return (*said, *map(plain, (view.allowed, scores, view.total)))


def _plain_attributes(thing: object) -> dict[str, object]:
    return {name: plain(each) for name, each in _attributes(thing) if name not in _CACHES}


def _attributes(thing: object) -> Iterator[tuple[str, object]]:
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(thing, name):
                yield name, getattr(thing, name)


def _order(devices: Devices) -> dict[int, list[str]]:
    return {row: list(grants) for row, grants in devices._grants.items()}


def _pods(table: PodTable) -> dict[str, tuple[object, ...]]:
    columns = {key: column for key, column in table._columns.items() if column.values.code_of}
    return {
        uid: (
            slot,
            *(array[slot].item() for array in (table.row, table._leaving, table._priority)),
            table._namespace[slot].item(),
            {key: column.codes[slot].item() for key, column in columns.items()},
        )
        for uid, slot in table._slot_of.items()
    }
