"""Namespaces: one that is being deleted is emptied, then let go."""

from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller
from fairlead.sim.apiserver.store import Change


class NamespaceController(Controller):
    resource = "namespaces"
    follows: frozenset[str] | None = None

    def concerns(self, resource: str, change: Change) -> list[str]:
        if resource == self.resource:
            return [change.entry.key] if change.type != "DELETED" else []
        if change.type != "DELETED":
            return []
        entry = self.api.store.get(self.resource, change.entry.namespace)
        is_going = entry is not None and entry.fields["status.phase"] == "Terminating"
        return [change.entry.namespace] if is_going else []

    async def sync(self, key: str) -> None:
        namespace = self.api.find(self.resource, key)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        left = False
        for collection in self.api.store.collections():
            for entry in [each for each in collection.entries.values() if each.namespace == key]:
                await pods.remove(self.api, collection.name, key, entry.name)
                left = left or entry.key in collection.entries
        if not left:
            self.api.store.remove(self.api.kinds.plural(self.resource), key)
