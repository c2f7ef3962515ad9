"""From a call and a method to the operation, and from its result to an answer."""

from typing import Any

import msgspec
from aiohttp import web

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver import forms, reading, reviews
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.binding import bind
from fairlead.sim.apiserver.bodies import read_document, read_object
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.creating import create
from fairlead.sim.apiserver.deleting import delete
from fairlead.sim.apiserver.evicting import evict
from fairlead.sim.apiserver.patching import change_of, patch
from fairlead.sim.apiserver.reading import selection
from fairlead.sim.apiserver.scaling import SCALE, rescale, scale_of
from fairlead.sim.apiserver.status import bad_request, method_not_allowed
from fairlead.sim.apiserver.store import key_of
from fairlead.sim.apiserver.updating import replace
from fairlead.sim.apiserver.watching import Watch

Object = dict[str, Any]
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class ApiResponse:
    code: int
    body: bytes


def is_watch(call: Call) -> bool:
    return call.query.get("watch") in ("true", "1") and not call.subresource


async def watch(api: ApiState, call: Call, request: web.BaseRequest) -> web.StreamResponse:
    """Streams events until the watch ends or the client goes."""
    if "watch" not in call.kind.verbs:
        raise method_not_allowed()
    stream = Watch(api, call, _form(call, request))
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    try:
        await response.prepare(request)
        async for batch in stream.events():
            await response.write(batch)
        await response.write_eof()
    finally:
        stream.close()
    return response


def _form(call: Call, request: web.BaseRequest) -> forms.Form:
    return forms.choose(request.headers.get("Accept", ""), call.query.get("includeObject", ""))


async def perform(api: ApiState, call: Call, request: web.BaseRequest) -> ApiResponse:
    """Everything that is no watch."""
    method = request.method
    if method == "GET":
        return _read(api, call, _form(call, request))
    body = await request.read()
    content_type = request.headers.get("Content-Type", "")
    if call.subresource not in ("", "status"):
        return await _subresource(api, call, method, body, content_type)
    if method == "POST":
        return await _create(api, call, body, content_type)
    if method == "DELETE":
        return await _delete(api, call, body, content_type)
    if method == "PUT" and call.name:
        call.check_options("UpdateOptions")
        obj = read_object(call, body, content_type, call.shown)
        entry, created = await replace(api, call, obj)
        return ApiResponse(201 if created else 200, forms.present(entry.raw, call.shown))
    if method == "PATCH" and call.name:
        call.check_options("PatchOptions")
        entry, created = await patch(api, call, body, content_type)
        return ApiResponse(201 if created else 200, forms.present(entry.raw, call.shown))
    raise method_not_allowed()


def _read(api: ApiState, call: Call, form: forms.Form) -> ApiResponse:
    if "get" not in call.kind.verbs:
        raise method_not_allowed()
    if call.subresource == "scale":
        return ApiResponse(200, _encode(scale_of(api.entry(call.kind, call.key).object())))
    if call.subresource == "log":
        raise bad_request("the embedded server runs no containers and keeps no logs")
    if call.subresource in ("binding", "eviction", "finalize"):
        raise method_not_allowed()
    if call.name:
        return ApiResponse(200, reading.get(api, call, form))
    return ApiResponse(200, reading.list_(api, call, form))


async def _create(api: ApiState, call: Call, body: bytes, content_type: str) -> ApiResponse:
    if call.name or "create" not in call.kind.verbs:
        raise method_not_allowed()
    if call.kind.plural == "bindings":
        return await _legacy_bind(api, call, body, content_type)
    if reviews.is_review(call.kind):
        return ApiResponse(
            201, _encode(reviews.answer(call.kind, read_document(body, content_type)))
        )
    if call.kind.namespaced and not call.namespace:
        raise method_not_allowed()
    call.check_options("CreateOptions")
    obj = read_object(call, body, content_type, call.shown)
    entry = await create(api, call, obj)
    return ApiResponse(201, forms.present(entry.raw, call.shown))


async def _legacy_bind(api: ApiState, call: Call, body: bytes, content_type: str) -> ApiResponse:
    document = read_document(body, content_type)
    name = (document.get("metadata") or {}).get("name", "") if isinstance(document, dict) else ""
    pods = api.kinds.plural("pods")
    target = Call(pods, call.namespace, name, "binding", call.query, call.warnings)
    return ApiResponse(201, _encode(await bind(api, target, body, content_type)))


async def _delete(api: ApiState, call: Call, body: bytes, content_type: str) -> ApiResponse:
    if call.subresource:
        raise method_not_allowed()
    options = read_document(body, content_type) if body.strip() else {}
    options = _delete_options(call, options if isinstance(options, dict) else {})
    if not call.name:
        return await _delete_many(api, call, options)
    answer, _ = await delete(api, call, options)
    shown = forms.present(answer, call.shown) if isinstance(answer, bytes) else _encode(answer)
    return ApiResponse(200, shown)


def _delete_options(call: Call, options: Object) -> Object:
    query = call.query
    if "gracePeriodSeconds" in query:
        options.setdefault("gracePeriodSeconds", int(query["gracePeriodSeconds"]))
    if "propagationPolicy" in query:
        options.setdefault("propagationPolicy", query["propagationPolicy"])
    if options.get("dryRun"):
        call.query = {**query, "dryRun": options["dryRun"][0]}
    return options


async def _delete_many(api: ApiState, call: Call, options: Object) -> ApiResponse:
    if "deletecollection" not in call.kind.verbs or (call.kind.namespaced and not call.namespace):
        raise method_not_allowed()
    chosen = selection(call)
    collection = api.store.collection(call.kind.store_name)
    prefix = f"{call.namespace}/" if call.namespace else ""
    entries = [
        entry
        for entry in (collection.entries[key] for key in collection.sorted_keys())
        if entry.key.startswith(prefix) and (chosen is None or chosen(entry))
    ]
    metadata = {"resourceVersion": str(api.store.version)}
    for entry in entries:
        if key_of(call.namespace, entry.name) in collection.entries:
            one = Call(call.kind, call.namespace, entry.name, "", call.query, call.warnings)
            await delete(api, one, options)
    return ApiResponse(200, forms.many(entries, call.shown, forms.PLAIN, metadata))


async def _subresource(
    api: ApiState, call: Call, method: str, body: bytes, content_type: str
) -> ApiResponse:
    if method == "POST" and call.subresource == "binding":
        return ApiResponse(201, _encode(await bind(api, call, body, content_type)))
    if method == "POST" and call.subresource == "eviction":
        document = read_document(body, content_type) if body else {}
        return ApiResponse(201, _encode(await evict(api, call, document)))
    if call.subresource == "scale" and method in ("PUT", "PATCH"):
        return ApiResponse(200, _encode(await _rescale(api, call, method, body, content_type)))
    if call.subresource == "finalize" and method == "PUT":
        return ApiResponse(200, await _finalize(api, call, read_object(call, body, content_type)))
    raise method_not_allowed()


async def _rescale(
    api: ApiState, call: Call, method: str, body: bytes, content_type: str
) -> Object:
    if method == "PUT":
        document = read_document(body, content_type)
        return await rescale(api, call, lambda _: document)
    media = content_type.partition(";")[0].strip()
    if media == "application/strategic-merge-patch+json":
        media = "application/merge-patch+json"  # a Scale has no lists: the two are the same
    scale = Call(SCALE, call.namespace, call.name, "", call.query)
    return await rescale(api, call, change_of(scale, body, media))


async def _finalize(api: ApiState, call: Call, obj: Object) -> bytes:
    """A namespace's finalizers, and with the last of them the namespace."""
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    entry = api.entry(call.kind, call.key)
    namespace = entry.object()
    namespace["spec"] = {"finalizers": finalizers} if finalizers else {}
    if namespace["metadata"].get("deletionTimestamp") and not finalizers:
        api.store.remove(call.kind, call.key)
        return entry.raw
    return api.store.put(call.kind, call.key, namespace).raw
