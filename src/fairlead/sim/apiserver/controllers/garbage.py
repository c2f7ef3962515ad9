"""Garbage: what its owners leave behind goes too, unless it was to be orphaned."""

from typing import Any

from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller
from fairlead.sim.apiserver.store import Change
from fairlead.sim.apiserver.updating import modify

Object = dict[str, Any]
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector(Controller):
    """Keys are `gone UID` for an owner that is no more, `RESOURCE KEY` for one that is going."""

    resource = "garbage"
    follows: frozenset[str] | None = None

    def concerns(self, resource: str, change: Change) -> list[str]:
        found = []
        raw = change.entry.raw
        if change.type == "DELETED":
            found.append(f"gone {change.entry.uid}")
            # Owners that may have waited for this one to go.
            found += [f"{name} {key}" for name, key in self.owners.places(change.entry)]
        elif b'"foregroundDeletion"' in raw or b'"orphan"' in raw:
            found.append(f"{resource} {change.entry.key}")
        elif change.previous is None and change.entry.owners:
            found += [f"gone {uid}" for uid in change.entry.owners if not self.owners.exists(uid)]
        return found

    async def sync(self, key: str) -> None:
        what, _, which = key.partition(" ")
        if what == "gone":
            await self._collect(which)
        else:
            await self._finish(what, which)

    async def _collect(self, uid: str) -> None:
        if self.owners.exists(uid):
            return
        for resource, entry in self.owners.dependents(uid):
            if not any(self.owners.exists(each) for each in entry.owners):
                policy = {"propagationPolicy": "Background"}
                await pods.remove(self.api, resource, entry.namespace, entry.name, **policy)

    async def _finish(self, resource: str, key: str) -> None:
        owner = self.api.find(resource, key)
        if owner is None or not owner["metadata"].get("deletionTimestamp"):
            return
        finalizers = owner["metadata"].get("finalizers") or []
        if _ORPHAN in finalizers:
            await self._orphan(owner["metadata"]["uid"])
            await self._unfinalize(resource, key, _ORPHAN)
        elif _FOREGROUND in finalizers:
            for name, entry in self.owners.dependents(owner["metadata"]["uid"]):
                policy = {"propagationPolicy": "Foreground" if name != "pods" else "Background"}
                if not entry.object()["metadata"].get("deletionTimestamp"):
                    await pods.remove(self.api, name, entry.namespace, entry.name, **policy)
            if not self.owners.dependents(owner["metadata"]["uid"]):
                await self._unfinalize(resource, key, _FOREGROUND)

    async def _orphan(self, uid: str) -> None:
        for resource, entry in self.owners.dependents(uid):
            call = pods.call_for(self.api, resource, entry.namespace, entry.name)
            await modify(self.api, call, lambda obj: _without_owner(obj, uid))

    async def _unfinalize(self, resource: str, key: str, finalizer: str) -> None:
        namespace, _, name = key.rpartition("/")
        call = pods.call_for(self.api, resource, namespace, name)
        await modify(self.api, call, lambda obj: _without_finalizer(obj, finalizer))


def _without_owner(obj: Object, uid: str) -> Object:
    kept = [each for each in obj["metadata"].get("ownerReferences", []) if each["uid"] != uid]
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": kept}}


def _without_finalizer(obj: Object, finalizer: str) -> Object:
    kept = [each for each in obj["metadata"].get("finalizers", []) if each != finalizer]
    return {**obj, "metadata": {**obj["metadata"], "finalizers": kept}}
