"""What every operation works on."""

from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.registry import KindRegistry
from fairlead.sim.apiserver.status import not_found
from fairlead.sim.apiserver.store import Object, Store, StoredObject
from fairlead.sim.apiserver.webhooks import Webhooks


@dataclass
class ApiState:
    """The store, the kinds it may hold, and the webhooks that are asked before a write."""

    store: Store
    kinds: KindRegistry = field(default_factory=KindRegistry)
    webhooks: Webhooks = field(default_factory=Webhooks)

    def entry(self, kind: Kind, key: str) -> StoredObject:
        """The stored object, or the 404 that says there is none."""
        found = self.store.get(kind.store_name, key)
        if found is None:
            raise not_found(kind, key.rpartition("/")[2])
        return found

    def find(self, group_resource: str, key: str) -> Object | None:
        """A copy of an object, by the name of its resource; None when there is none."""
        found = self.store.get(group_resource, key)
        return found.object() if found else None
