"""Who owns what: an index of dependents by the uid of their owner, kept with every write."""

from typing import Any

from fairlead.sim.apiserver.store import Change, Store, StoredObject

Object = dict[str, Any]


class Owners:
    """Dependents by owner uid, and the whereabouts of every object by its uid."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._dependents: dict[str, dict[tuple[str, str], None]] = {}
        self._places: dict[str, tuple[str, str]] = {}
        for collection in store.collections():
            for entry in collection.entries.values():
                self._note(collection.name, entry)
        store.written.insert(0, self._on_change)

    def dependents(self, uid: str) -> list[tuple[str, StoredObject]]:
        """(resource, entry) of everything that names this owner."""
        found = []
        for resource, key in tuple(self._dependents.get(uid, ())):
            entry = self._store.get(resource, key)
            if entry is not None:
                found.append((resource, entry))
        return found

    def pods(self, uid: str) -> list[Object]:
        """Copies of the pods that name this owner."""
        return [entry.object() for name, entry in self.dependents(uid) if name == "pods"]

    def keys_of_owners(self, resource: str, entry: StoredObject) -> list[str]:
        """Keys of the owners of an object that are of this resource."""
        return [key for name, key in self.places(entry) if name == resource]

    def places(self, entry: StoredObject) -> list[tuple[str, str]]:
        """(resource, key) of the owners of an object that still exist."""
        return [self._places[uid] for uid in entry.owners if uid in self._places]

    def exists(self, uid: str) -> bool:
        return uid in self._places

    def _on_change(self, resource: str, change: Change) -> None:
        if change.previous is not None and change.previous.owners != change.entry.owners:
            self._forget(resource, change.previous)
        if change.type == "DELETED":
            self._forget(resource, change.entry)
            self._places.pop(change.entry.uid, None)
        else:
            self._note(resource, change.entry, new=change.previous is None)

    def _note(self, resource: str, entry: StoredObject, new: bool = True) -> None:
        for uid in entry.owners:
            self._dependents.setdefault(uid, {})[resource, entry.key] = None
        if new and resource not in _NEVER_OWN:
            self._places[entry.uid] = (resource, entry.key)

    def _forget(self, resource: str, entry: StoredObject) -> None:
        for uid in entry.owners:
            known = self._dependents.get(uid)
            if known is not None:
                known.pop((resource, entry.key), None)
                if not known:
                    del self._dependents[uid]


# Too many, and nothing is owned by them.
_NEVER_OWN = frozenset({"events"})
