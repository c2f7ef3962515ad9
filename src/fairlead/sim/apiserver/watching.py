"""Watches: past changes, then present ones, each shown to those whose selection it touches."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from fairlead.sim.apiserver import forms
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.forms import Form
from fairlead.sim.apiserver.reading import list_options_error, parse_version, selection
from fairlead.sim.apiserver.status import ApiStatusError, bad_request, expired
from fairlead.sim.apiserver.store import Change, Collection, StoredObject

Object = dict[str, Any]
BOOKMARK_EVERY_S = 60.0
# A reader this far behind is cut off; it can resume or list again, as with the real server.
MOST_PENDING = 100_000
_encode = msgspec.json.Encoder().encode


class Watch:
    """One open watch. Collects encoded events; the connection sends them."""

    def __init__(self, api: ApiState, call: Call, form: Form) -> None:
        self.kind, self.form = call.shown, form
        self._store = api.store
        self._collection = api.store.collection(call.kind.store_name)
        self._prefix = f"{call.namespace}/" if call.namespace else ""
        self._chooses = selection(call)
        self._pending: list[bytes] = []
        self._news = asyncio.Event()
        self._overflowed = False
        self._bookmarks = call.query.get("allowWatchBookmarks") in ("true", "1")
        self._timeout_s = _timeout_s(call.query.get("timeoutSeconds", ""))
        self._started = False
        self._begin(call.query)

    async def events(self) -> AsyncIterator[bytes]:
        """Batches of encoded events until the watch times out."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout_s
        bookmark = min(loop.time() + BOOKMARK_EVERY_S, max(end - 2, loop.time() + 1))
        try:
            while not self._overflowed:
                if self._pending:
                    batch, self._pending = self._pending, []
                    yield b"".join(batch)
                    continue
                now = loop.time()
                if now >= end:
                    return
                if self._bookmarks and now >= bookmark:
                    bookmark = now + BOOKMARK_EVERY_S
                    yield self._bookmark()
                    continue
                await self._wait(min(end, bookmark if self._bookmarks else end) - now)
        finally:
            self.close()

    def close(self) -> None:
        if self._started:
            self._collection.listeners.remove(self._on_change)
            self._started = False

    async def _wait(self, timeout_s: float) -> None:
        self._news.clear()
        handle = asyncio.get_running_loop().call_later(max(timeout_s, 0.001), self._news.set)
        try:
            await self._news.wait()
        finally:
            handle.cancel()

    def _begin(self, query: Any) -> None:
        """Queues what the client does not know yet, then listens: nothing is lost in between."""
        version_text = query.get("resourceVersion", "")
        version = parse_version(version_text)
        initial = _initial_events(query)
        if initial or (initial is None and version == 0):
            self._pending += self._present_state()
            if initial:
                self._pending.append(self._bookmark(initial_end=True))
        elif initial is None and version < self._collection.floor:
            self._pending.append(_error_event(_too_old(version, self._collection)))
            self._timeout_s = 0
            return
        else:
            self._replay(version)
        self._resume_after = version
        self._collection.listeners.append(self._on_change)
        self._started = True

    def _present_state(self) -> list[bytes]:
        entries = self._collection.entries
        chosen = (entries[key] for key in self._collection.sorted_keys())
        return [self._wire("ADDED", entry, None) for entry in chosen if self._wants(entry)]

    def _replay(self, version: int) -> None:
        for change in self._collection.since(version):
            self._take(change)

    def _on_change(self, change: Change) -> None:
        if change.version <= self._resume_after:
            return  # the client says it has seen this version already
        self._take(change)
        self._news.set()

    def _take(self, change: Change) -> None:
        if self._prefix and not change.entry.key.startswith(self._prefix):
            return
        type_ = change.type if self._chooses is None else self._transition(change)
        if type_:
            if len(self._pending) >= MOST_PENDING:
                self._overflowed = True
                return
            shown = change.entry if type_ != "DELETED" else _last_seen(change)
            self._pending.append(self._wire(type_, shown, change))

    def _transition(self, change: Change) -> str:
        """The event as seen through the selection: in is ADDED, out is DELETED."""
        assert self._chooses is not None
        before = change.previous is not None and self._chooses(change.previous)
        after = change.type != "DELETED" and self._chooses(change.entry)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def _wants(self, entry: StoredObject) -> bool:
        if self._prefix and not entry.key.startswith(self._prefix):
            return False
        return self._chooses is None or self._chooses(entry)

    def _wire(self, type_: str, entry: StoredObject, change: Change | None) -> bytes:
        if self.form.is_table or change is None or entry is not change.entry:
            return _event(type_, self._object(entry))
        cache_key = (type_, f"{self.kind.api_version}{self.form.as_}")
        wire = change.wires.get(cache_key)
        if wire is None:
            wire = change.wires[cache_key] = _event(type_, self._object(entry))
        return wire

    def _object(self, entry: StoredObject) -> bytes:
        return forms.one(entry.raw, self.kind, self.form)

    def _bookmark(self, initial_end: bool = False) -> bytes:
        metadata: Object = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: Object = {
            "kind": self.kind.kind,
            "apiVersion": self.kind.api_version,
            "metadata": metadata,
        }
        if self.kind.store_name == "pods":  # as Go writes a pod that has nothing but metadata
            obj |= {"spec": {"containers": None}, "status": {}}
        if self.form.is_table:
            obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                   "columnDefinitions": None, "rows": []}  # fmt: skip
        return _event("BOOKMARK", _encode(obj))


def _last_seen(change: Change) -> StoredObject:
    """What left the selection: its old state, at the version of the change."""
    if change.type == "DELETED" or change.previous is None:
        return change.entry
    old = change.previous.object()
    old["metadata"]["resourceVersion"] = str(change.version)
    raw = _encode(old)
    return StoredObject(change.entry.key, change.version, raw, change.previous.labels, {})


def _initial_events(query: Any) -> bool | None:
    text = query.get("sendInitialEvents")
    if text is None:
        if query.get("resourceVersionMatch"):
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise list_options_error(
                "resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {why}"
            )
        return None
    if query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise list_options_error("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {why}")
    return text in ("true", "1")


def _timeout_s(text: str) -> float:
    if not text or text == "0":
        return random.uniform(1800, 3600)
    try:
        return float(int(text))
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _too_old(version: int, collection: Collection) -> ApiStatusError:
    return expired(f"too old resource version: {version} ({collection.floor})")


def _event(type_: str, obj: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (type_.encode(), obj.rstrip(b"\n"))


def _error_event(error: ApiStatusError) -> bytes:
    return _event("ERROR", _encode(error.document()))
