"""Request scripts: steps in, a comparable transcript out.

A case is a list of steps. Everything that two servers may choose freely (uids, versions, times,
generated names, the namespace) is replaced by a placeholder in order of appearance, so that equal
transcripts mean equal behaviour, down to which writes did not change the version.
"""

import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

from fidelity.client import Connection, WatchReader

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Step:
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str | None = None
    save: dict[str, str] = field(default_factory=dict)
    hide: bool = False  # preparation: not part of the transcript
    only: tuple[str, ...] = ()  # paths to compare; everything when empty
    at_least: int = 0


@dataclass(frozen=True)
class Case:
    name: str
    steps: tuple[Step, ...]


def case(name: str, *steps: Step) -> Case:
    return Case(name, tuple(steps))


def post(path: str, body: Any, **more: Any) -> Step:
    return Step("POST", path, body, **more)


def put(path: str, body: Any, **more: Any) -> Step:
    return Step("PUT", path, body, **more)


def get(path: str, **more: Any) -> Step:
    return Step("GET", path, **more)


def delete(path: str, body: Any = None, **more: Any) -> Step:
    return Step("DELETE", path, body, **more)


def merge(path: str, body: Any, **more: Any) -> Step:
    return Step("PATCH", path, body, MERGE, **more)


def strategic(path: str, body: Any, **more: Any) -> Step:
    return Step("PATCH", path, body, STRATEGIC, **more)


def json_patch(path: str, *steps: dict, **more: Any) -> Step:
    return Step("PATCH", path, list(steps), JSON_PATCH, **more)


def apply(path: str, body: Any, manager: str = "tester", **more: Any) -> Step:
    mark = "&" if "?" in path else "?"
    return Step("PATCH", f"{path}{mark}fieldManager={manager}", body, APPLY, **more)


def watch(path: str, name: str = "watch", **more: Any) -> Step:
    """Opens a watch; `seen` shows what it got."""
    return Step("WATCH", path, name, **more)


def until(path: str, code: int = 200) -> Step:
    """Waits until a GET gives this code: some things take the real server a moment."""
    return Step("UNTIL", path, code)


def seen(at_least: int = 0, name: str = "watch", **more: Any) -> Step:
    return Step("SEEN", name, at_least=at_least, **more)


def hidden(step: Step) -> Step:
    return Step(**{**step.__dict__, "hide": True})


class Run:
    """One case on one server."""

    def __init__(self, server: Connection, namespace: str) -> None:
        self._server = server
        self._values = {"ns": namespace}
        self._watches: dict[str, WatchReader] = {}
        self._names: dict[str, str] = {namespace: "NS"}
        self._versions: dict[str, str] = {}
        self.transcript: list[Any] = []

    def play(self, steps: tuple[Step, ...]) -> list[Any]:
        try:
            for step in steps:
                self._step(step)
        finally:
            for reader in self._watches.values():
                reader.finish()
        return self.transcript

    def _step(self, step: Step) -> None:
        if step.method == "SEEN":
            reader = self._watches.pop(step.path)
            events = [each for each in reader.finish(step.at_least) if not _is_periodic(each)]
            date_bookmarks(events)
            self._note(step, {"code": reader.code, "events": events, "error": reader.error})
            return
        path = self.url(step.path)
        if step.method == "UNTIL":
            self._wait(path, step.body)
            return
        if step.method == "WATCH":
            mark = "&" if "?" in path else "?"
            self._watches[step.body] = self._server.watch(f"{path}{mark}watch=true", step.accept)
            return
        body = self._filled(step.body)
        code, answer, warnings = self._server.request(
            step.method, path, body, step.content_type, step.accept
        )
        for name, where in step.save.items():
            self._values[name] = str(_at(answer, where))
        entry = {"code": code, "body": answer}
        if warnings:
            entry["warnings"] = warnings
        self._note(step, entry)

    def _wait(self, path: str, code: int) -> None:
        deadline = time.monotonic() + 180
        while self._server.request("GET", path)[0] != code:
            assert time.monotonic() < deadline, f"{path} never answered {code}"
            time.sleep(0.05)

    def url(self, path: str) -> str:
        """`pods/x` is in the namespace, `apps/v1:deployments/x` in a group, `/…` as it stands."""
        path = self._filled(path)
        if path.startswith("/"):
            return path
        if ":" in path.partition("?")[0]:
            group, _, rest = path.partition(":")
            return f"/apis/{group}/namespaces/{self._values['ns']}/{rest}"
        return f"/api/v1/namespaces/{self._values['ns']}/{path}"

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"<(\w+)>", lambda match: self._values.get(match[1], match[0]), value)
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if isinstance(value, dict):
            return {self._filled(key): self._filled(each) for key, each in value.items()}
        return value

    def _note(self, step: Step, entry: dict[str, Any]) -> None:
        if step.only:
            entry["body"] = {where: _at(entry["body"], where) for where in step.only}
        normal = self._normal(entry)
        if not step.hide:
            self.transcript.append(normal)

    def _normal(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {
                name: self._normal(each, name.rpartition(".")[2])
                for name, each in value.items()
                if name not in _DROPPED and not (name == "creationTimestamp" and each is None)
            }
        if isinstance(value, list):
            return [self._normal(each, key) for each in value]
        if key == "cells" and isinstance(value, str) and re.fullmatch(r"(\d+[smhd])+", value):
            return "AGE"
        if key == "resourceVersion" and isinstance(value, str) and value not in ("", "0"):
            return self._versions.setdefault(value, f"RV{len(self._versions) + 1}")
        if key == "continue" and value:
            return "CONTINUE"
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        text = _TIME.sub("TIME", text)
        for uid in _UID.findall(text):
            self._names.setdefault(
                uid, f"UID{sum(v.startswith('UID') for v in self._names.values())}"
            )
        for name, shown in self._names.items():
            text = text.replace(name, shown)
        text = re.sub(r"\b(gen-\S*?-)[a-z0-9]{5}\b", r"\1RANDOM", text)
        text = re.sub(r"(resource version: )(\d+)( \()\d+(\))", r"\1\2\3N\4", text)
        text = re.sub(r"(current: )\d+", r"\1N", text)
        if "resourceVersion" in text or "ResourceVersion" in text:
            for version, shown in self._versions.items():
                text = re.sub(rf"\b{version}\b", shown, text)
        return text


def _is_periodic(event: dict) -> bool:
    """Bookmarks come when the server pleases, but for the one that ends the initial events."""
    annotations = event["object"].get("metadata", {}).get("annotations") or {}
    return event["type"] == "BOOKMARK" and "k8s.io/initial-events-end" not in annotations


def date_bookmarks(events: list[dict]) -> None:
    """The end of the initial events has the version of the server's cache. That may be later than
    the newest of these events: other objects, and the server's own checks, move it on."""
    newest = 0
    for event in events:
        meta = event["object"].get("metadata", {})
        version = int(meta.get("resourceVersion") or 0)
        if event["type"] == "BOOKMARK" and version > newest > 0:
            meta["resourceVersion"] = str(newest)
        newest = max(newest, version if event["type"] != "BOOKMARK" else 0)


_DROPPED = frozenset({"managedFields", "description", "storageVersionHash"})


def _at(value: Any, path: str) -> Any:
    for part in path.split(".") if path else []:
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def pretty(transcript: Any) -> list[str]:
    return json.dumps(transcript, indent=1, sort_keys=True).splitlines()
