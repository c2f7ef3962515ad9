"""Objects as encoded JSON, one ever-growing resourceVersion, and the changes that watches replay.

Everything happens in one event loop and without awaits, so every write is atomic and every
reader sees a whole state. An object is encoded once, when it is written; lists and watches send
those bytes.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fairlead.sim.apiserver.fields import FieldReader, reader_for
from fairlead.sim.apiserver.kinds import Kind

Object = dict[str, Any]
Listener = Callable[["Change"], None]
WriteListener = Callable[[str, "Change"], None]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
DEFAULT_HISTORY = 10_000


class StoredObject:
    """One stored object at one version; never changed, only replaced."""

    __slots__ = ("fields", "key", "labels", "owners", "raw", "uid", "version")

    def __init__(
        self,
        key: str,
        version: int,
        raw: bytes,
        labels: dict[str, str],
        fields: dict[str, str],
        owners: tuple[str, ...] = (),
        uid: str = "",
    ) -> None:
        self.key, self.version, self.raw = key, version, raw
        self.labels, self.fields = labels, fields
        self.owners, self.uid = owners, uid  # owners by their uids

    def object(self) -> Object:
        """A fresh copy that the caller may change."""
        decoded: Object = _decode(self.raw)
        return decoded

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


class Change:
    """A write: what the object became (for DELETED: what it was last) and what it was before."""

    __slots__ = ("entry", "previous", "type", "version", "wires")

    def __init__(
        self, type_: str, version: int, entry: StoredObject, previous: StoredObject | None
    ) -> None:
        self.type, self.version, self.entry, self.previous = type_, version, entry, previous
        # Encoded events by (type, form): watchers of one form share the bytes.
        self.wires: dict[tuple[str, str], bytes] = {}


class Collection:
    """All objects of one resource, and the changes that a watch may still ask for."""

    def __init__(self, name: str, reader: FieldReader, floor: int, history: int) -> None:
        self.name, self.read_fields = name, reader
        self.entries: dict[str, StoredObject] = {}
        self.changes: deque[Change] = deque()
        self.floor = floor  # changes at or before this version are forgotten
        self.listeners: list[Listener] = []
        self._history = history
        self._sorted: list[str] | None = None

    def sorted_keys(self) -> list[str]:
        """Keys in the order that lists show: namespace, then name."""
        if self._sorted is None:
            self._sorted = sorted(self.entries)
        return self._sorted

    def apply(self, change: Change) -> None:
        key = change.entry.key
        if change.type == "DELETED":
            del self.entries[key]
            self._sorted = None
        else:
            if key not in self.entries:
                self._sorted = None
            self.entries[key] = change.entry
        self.changes.append(change)
        if len(self.changes) > self._history:
            self.floor = self.changes.popleft().version
        for listener in tuple(self.listeners):
            listener(change)

    def since(self, version: int) -> Iterable[Change]:
        """Changes after a version, oldest first."""
        newer: list[Change] = []
        for change in reversed(self.changes):
            if change.version <= version:
                break
            newer.append(change)
        return reversed(newer)


class Store:
    """Every collection, under one version counter."""

    def __init__(self, version: int = 1, history: int = DEFAULT_HISTORY) -> None:
        self.version = version
        self._history = history
        self._collections: dict[str, Collection] = {}
        self.written: list[WriteListener] = []

    def collection(self, name: str) -> Collection:
        found = self._collections.get(name)
        if found is None:
            found = Collection(name, reader_for(name), self.version, self._history)
            self._collections[name] = found
        return found

    def collections(self) -> list[Collection]:
        return list(self._collections.values())

    def get(self, name: str, key: str) -> StoredObject | None:
        return self.collection(name).entries.get(key)

    def put(self, kind: Kind, key: str, obj: Object) -> StoredObject:
        """Writes an object, new or changed, at the next version."""
        collection = self.collection(kind.store_name)
        previous = collection.entries.get(key)
        self.version += 1
        entry = self._entry(collection, kind, key, obj)
        self._commit(collection, "MODIFIED" if previous else "ADDED", entry, previous)
        return entry

    def remove(self, kind: Kind, key: str) -> StoredObject:
        """Takes an object out; watchers are shown its last state at the version of the delete."""
        collection = self.collection(kind.store_name)
        previous = collection.entries[key]
        self.version += 1
        entry = self._entry(collection, kind, key, previous.object())
        self._commit(collection, "DELETED", entry, previous)
        return entry

    def drop_collection(self, name: str) -> None:
        self._collections.pop(name, None)

    def restore(self, name: str, key: str, version: int, raw: bytes) -> None:
        """Puts back a saved object as it was; no watcher hears of it."""
        obj = _decode(raw)
        collection = self.collection(name)
        metadata = obj["metadata"]
        labels = metadata.get("labels") or {}
        fields = collection.read_fields(obj)
        entry = StoredObject(key, version, raw, labels, fields, _owners(metadata), metadata["uid"])
        collection.entries[key] = entry

    def forget_history(self) -> None:
        """Drops every change kept so far, as a compaction does."""
        for collection in self._collections.values():
            collection.changes.clear()
            collection.floor = self.version

    def _entry(self, collection: Collection, kind: Kind, key: str, obj: Object) -> StoredObject:
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.version)
        raw = encode_as(kind, obj)
        labels = metadata.get("labels") or {}
        fields = collection.read_fields(obj)
        uid = metadata.get("uid", "")
        return StoredObject(key, self.version, raw, labels, fields, _owners(metadata), uid)

    def _commit(
        self, collection: Collection, type_: str, entry: StoredObject, previous: StoredObject | None
    ) -> None:
        change = Change(type_, self.version, entry, previous)
        collection.apply(change)
        for listener in self.written:
            listener(collection.name, change)


def encode_as(kind: Kind, obj: Object) -> bytes:
    """The object with kind and apiVersion first, so that a list can cut them off."""
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    return kind.prefix + _encode(obj)[1:]


def _owners(metadata: Object) -> tuple[str, ...]:
    references = metadata.get("ownerReferences")
    return tuple(each.get("uid", "") for each in references) if references else ()


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
