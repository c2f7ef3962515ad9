"""Create: names, identities, admission, and the first version of an object."""

import secrets
import uuid
from typing import Any

from fairlead.sim.apiserver import admission
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.status import (
    ApiStatusError,
    already_exists,
    bad_request,
    generate_name_conflict,
    invalid_object,
)
from fairlead.sim.apiserver.store import StoredObject, encode_as, key_of
from fairlead.sim.apiserver.strategy import strategy_for

Object = dict[str, Any]
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words
_NAMESPACE_DIFFERS = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
_SERVERS_OWN = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
                "selfLink", "generation")  # fmt: skip


async def create(api: ApiState, call: Call, obj: Object) -> StoredObject:
    """Stores a new object and returns it. `obj` is typed and defaulted, and becomes ours."""
    metadata = obj["metadata"]
    check_namespace(call, metadata)
    _check_fresh(metadata)
    _stamp(call, metadata)
    obj = await admission.on_create(api, call, obj)
    _prepare(call, obj)
    _validate(call, obj)
    await admission.validate(api, call, "CREATE", obj, None)
    return _commit(api, call, obj)


def check_namespace(call: Call, metadata: Object) -> None:
    """The URL says the namespace; the object may repeat it but not differ."""
    stated = metadata.get("namespace")
    if not call.kind.namespaced:
        if stated:
            raise bad_request(_NAMESPACE_DIFFERS)
        return
    if stated and stated != call.namespace:
        raise bad_request(_NAMESPACE_DIFFERS)
    metadata["namespace"] = call.namespace


def _check_fresh(metadata: Object) -> None:
    if metadata.get("resourceVersion"):
        message = "resourceVersion should not be set on objects to be created"
        raise ApiStatusError(500, "", message)


def _stamp(call: Call, metadata: Object) -> None:
    for name in _SERVERS_OWN:
        metadata.pop(name, None)
    if not call.applies:
        metadata.pop("managedFields", None)
    prefix = metadata.get("generateName")
    if prefix and not metadata.get("name"):
        metadata["name"] = prefix[:58] + "".join(secrets.choice(_LETTERS) for _ in range(5))
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now_text()
    call.name = metadata.get("name", "")


def _prepare(call: Call, obj: Object) -> None:
    strategy = strategy_for(call.kind)
    strategy.prepare_create(obj)


def _validate(call: Call, obj: Object) -> None:
    causes = strategy_for(call.kind).validate(obj)
    if causes:
        raise invalid_object(call.kind, obj["metadata"].get("name", ""), causes)
    call.warnings += strategy_for(call.kind).warnings(obj)


def _commit(api: ApiState, call: Call, obj: Object) -> StoredObject:
    metadata = obj["metadata"]
    key = key_of(call.namespace, metadata["name"])
    if api.store.get(call.kind.store_name, key):
        if metadata.get("generateName"):
            raise generate_name_conflict(call.kind, metadata["name"])
        raise already_exists(call.kind, metadata["name"])
    if call.dry_run:
        return StoredObject(key, 0, encode_as(call.kind, obj), {}, {})
    return api.store.put(call.kind, key, obj)
