"""Keeps the served kinds and the webhooks in step with the objects that define them."""

from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.store import Change, Collection

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
_VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"


def follow_definitions(api: ApiState) -> None:
    """Acts on what is stored already, then on every change, within the write itself."""
    definitions = api.store.collection(_DEFINITIONS)
    for entry in definitions.entries.values():
        api.kinds.define(entry.object())
    definitions.listeners.append(lambda change: _define(api, change))
    for name in (_MUTATING, _VALIDATING):
        api.store.collection(name).listeners.append(lambda _: _configure(api))
    _configure(api)


def _define(api: ApiState, change: Change) -> None:
    crd = change.entry.object()
    if change.type != "DELETED":
        api.kinds.define(crd)
        return
    api.kinds.undefine(crd)
    # Custom objects go with their definition; the real server's finalizer does the same.
    api.store.drop_collection(f"{crd['spec']['names']['plural']}.{crd['spec']['group']}")


def _configure(api: ApiState) -> None:
    stored = (api.store.collection(name) for name in (_MUTATING, _VALIDATING))
    api.webhooks.configure(*(_objects(collection) for collection in stored))


def _objects(collection: Collection) -> list[dict[str, object]]:
    return [entry.object() for entry in collection.entries.values()]
