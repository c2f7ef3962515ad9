"""One API server, as the arena sees it: quick writes, and every pod and event followed."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from oracle.case import NAMESPACES, Object, key_of, nominated
from oracle.kinds import BY_NAME, KINDS, Kind

MERGE = "application/merge-patch+json"
_AT_ONCE = 16
_REFUSAL_S = 60.0
_LOOK_EVERY_S = 0.02
_EVENTS = "/apis/events.k8s.io/v1/events"
_PODS = "/api/v1/pods"
_CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"

T = TypeVar("T")
_touches = itertools.count()
#: Namespace and name.
Key = tuple[str, str]


class Refusal(Exception):
    """The API server does not take an object: the case is none."""


class Api:
    """Create it in the event loop that it is used in; what it sees is kept inside `following`.

    `log` is that of Fairlead, at its most talkative: a pod that waits for volumes or devices says
    nowhere else which node they are for. kube-scheduler says it in `nominatedNodeName`.
    """

    def __init__(self, kubeconfig: Path, log: Path | None = None) -> None:
        self._client = Client(load_access(str(kubeconfig)))
        self._log = log
        self.pods: dict[Key, Object] = {}
        #: Pods that were refused, as they were at first: some are bound or tried again soon.
        self.refused: dict[Key, Object] = {}
        #: Nodes of pods whose volumes are being bound, as far as a log tells.
        self.volumes_for: dict[Key, str] = {}
        #: The same of pods whose resource claims are being allocated.
        self.devices_for: dict[Key, str] = {}
        self.claims: dict[Key, Object] = {}
        #: FailedScheduling events about each pod, the oldest first.
        self.failures: dict[Key, list[Object]] = {}
        self._changed = asyncio.Event()
        #: How much of the log has been read.
        self._read = 0

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keeps what is seen here up to date inside: the client ends a watch that is not read."""
        seen = ((_PODS, self._see_pod), (_EVENTS, self._see_event), (_CLAIMS, self._see_claim))
        self.pods.clear()
        self.claims.clear()
        tasks = [asyncio.create_task(self._tail(self._log))] if self._log is not None else []
        try:
            for path, see in seen:
                version = (await self.call("GET", path, limit="1"))["metadata"]["resourceVersion"]
                tasks.append(asyncio.create_task(self._watch(path, version, see)))
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for failure in (one for one in ended if isinstance(one, Exception)):
            raise failure

    async def close(self) -> None:
        await self._client.close()

    async def until(self, holds: Callable[[], Any], timeout_s: float) -> Any:
        """What `holds` answers as soon as it is true, or at the end of the time whatever it is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        return holds()

    async def quiet(self, for_s: float) -> None:
        """Returns when nothing has been heard for a while."""
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(for_s):
                    await self._changed.wait()
            except TimeoutError:
                return

    # -- writing -----------------------------------------------------------------------------

    async def load(self, objects: list[Object]) -> list[Object]:
        """Writes all of them, and returns them as the server has them."""
        await together(*(self._label(name, objects) for name in NAMESPACES))
        written = []
        for kind in KINDS:
            bodies = [found for found in objects if found["kind"] == kind.name]
            written += await _some_at_once(self.create, bodies)
        return written

    async def wait_to_be_nominated(self, pods: list[Object]) -> list[Object]:
        """Writes pods that nobody can place, and nominates those that want it once refused.

        Sooner it would be in vain: the first attempt, without nodes perhaps, takes a nomination.
        """
        return await _some_at_once(self._create_refused, pods)

    async def _create_refused(self, pod: Object) -> Object:
        await self.create({**pod, "status": {}})
        await self.until(lambda: key_of(pod) in self.refused, _REFUSAL_S)
        return await self.nominate(pod)

    async def create_nominated(self, pod: Object) -> Object:
        """A pod that is nominated before anybody tries it: a gate keeps it until then."""
        gated = {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": "oracle/promised"}]}}
        await self.create(gated)
        path = f"{BY_NAME['Pod'].path(pod)}/{pod['metadata']['name']}"
        lifted = {"spec": {"schedulingGates": None}}
        return {**await self.call("PATCH", path, lifted, content_type=MERGE), "kind": "Pod"}

    async def nominate(self, pod: Object) -> Object:
        """Promises the pod what the case says."""
        here = f"{BY_NAME['Pod'].path(pod)}/{pod['metadata']['name']}/status"
        patch = {"status": {"nominatedNodeName": nominated(pod) or None}}
        return {**await self.call("PATCH", here, patch, content_type=MERGE), "kind": "Pod"}

    async def create(self, thing: Object) -> Object:
        """The object as the server has it; a status is written, and a leaving pod deleted."""
        kind = BY_NAME[thing["kind"]]
        path = kind.path(thing)
        here = f"{path}/{thing['metadata']['name']}"
        leaving = thing["metadata"].get("deletionTimestamp")
        if leaving:
            thing = {**thing, "metadata": {**thing["metadata"], "deletionTimestamp": None}}
        body = await self.call("POST", path, thing)
        if kind.status_apart and thing.get("status"):
            patch = {"status": thing["status"]}
            body = await self.call("PATCH", f"{here}/status", patch, content_type=MERGE)
        if leaving:
            body = await self.call("DELETE", here)
        return {**body, "kind": kind.name}

    async def touch(self, nodes: Iterable[Object]) -> None:
        """Changes nothing that a scheduler reads, but each node is seen as changed."""
        patch = {"metadata": {"annotations": {"oracle/touched": str(next(_touches))}}}
        paths = [f"/api/v1/nodes/{node['metadata']['name']}" for node in nodes]
        await together(*(self.call("PATCH", path, patch, content_type=MERGE) for path in paths))

    async def delete(self, thing: Object) -> None:
        """At once, and without complaint if it is gone."""
        path = f"{BY_NAME[thing['kind']].path(thing)}/{thing['metadata']['name']}"
        await self._request("DELETE", path, None, gracePeriodSeconds="0")

    async def clear(self, kinds: Iterable[Kind], kept: Iterable[Object] = ()) -> None:
        """Deletes all objects of these kinds; those that finalizers keep are named."""
        await together(*(self._let_go(thing) for thing in kept))
        await together(
            *(
                self.call("DELETE", path, gracePeriodSeconds="0", propagationPolicy="Background")
                for kind in kinds
                for path in kind.paths()
            )
        )
        for seen in (self.failures, self.refused, self.volumes_for, self.devices_for):
            seen.clear()

    async def remove(self, thing: Object, kind: str) -> None:
        """Deletes it although finalizers keep it."""
        await self._let_go({**thing, "kind": kind})
        await self.delete({**thing, "kind": kind})

    async def _let_go(self, thing: Object) -> None:
        path = f"{BY_NAME[thing['kind']].path(thing)}/{thing['metadata']['name']}"
        await self._request("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)

    async def _label(self, name: str, objects: list[Object]) -> None:
        """Gives a namespace the labels that the case wants, and takes all others."""
        named = (found for found in objects if found["kind"] == "Namespace")
        found = next((n for n in named if n["metadata"]["name"] == name), None)
        labels = found["metadata"].get("labels", {}) if found else {}
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
        status, _ = await self._request("PUT", f"/api/v1/namespaces/{name}", body)
        if status == 404:
            await self.call("POST", "/api/v1/namespaces", body)

    async def namespaces(self) -> list[Object]:
        return (await self.call("GET", "/api/v1/namespaces"))["items"]

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        content_type: str = "application/json",
        **params: str,
    ) -> Object:
        status, answer = await self._request(method, path, body, content_type, **params)
        if status >= 300:
            raise Refusal(f"{method} {path}: {status} {answer.get('message', answer)}")
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        body: Object | None,
        content_type: str = "application/json",
        **params: str,
    ) -> tuple[int, Object]:
        # Without spaces, as kubectl sends it: some fields are kept as they were written.
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        reply = await self._client.request(
            method, path, body=data, params=params, content_type=content_type
        )
        return reply.status, json.loads(reply.body)

    # -- following ---------------------------------------------------------------------------

    async def _watch(self, path: str, version: str, see: Callable[[str, Object], None]) -> None:
        while True:  # a server that finds us slow hangs up; go on from where it did
            params = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
            async with self._client.watch(path, params) as stream:
                async for line in stream:
                    change = json.loads(line)
                    version = change["object"]["metadata"]["resourceVersion"]
                    if change["type"] != "BOOKMARK":
                        see(change["type"], change["object"])
                        self._changed.set()

    def _see_pod(self, change: str, pod: Object) -> None:
        key = pod["metadata"]["namespace"], pod["metadata"]["name"]
        if change == "DELETED":
            self.pods.pop(key, None)
            return
        self.pods[key] = pod
        if refusal(pod):
            self.refused.setdefault(key, pod)

    async def _tail(self, log: Path) -> None:
        with log.open("rb") as lines:
            while True:
                lines.seek(self._read)
                while (line := lines.readline()).endswith(b"\n"):
                    self._see_line(line.decode())
                    self._read = lines.tell()
                await asyncio.sleep(_LOOK_EVERY_S)

    def _see_line(self, line: str) -> None:
        for doing, nodes in (
            ('"binding volumes"', self.volumes_for),
            ('"allocating resource claims"', self.devices_for),
        ):
            if doing in line:
                told = json.loads(line)
                namespace, _, name = told["pod"].partition("/")
                nodes[namespace, name] = told["node"]
                self._changed.set()

    def _see_claim(self, change: str, claim: Object) -> None:
        if change == "DELETED":
            self.claims.pop(key_of(claim), None)
        else:
            self.claims[key_of(claim)] = claim

    def _see_event(self, change: str, event: Object) -> None:
        about = event["regarding"]
        if change == "ADDED" and event["reason"] == "FailedScheduling":
            self.failures.setdefault((about["namespace"], about["name"]), []).append(event)


def refusal(pod: Object) -> Object | None:
    """The condition that says why the pod waits, if a scheduler wrote one."""
    conditions = pod.get("status", {}).get("conditions", ())
    told = (c for c in conditions if c["type"] == "PodScheduled" and c.get("message"))
    return next((c for c in told if c.get("reason") != "SchedulingGated"), None)


async def _some_at_once(work: Callable[[Object], Any], bodies: list[Object]) -> list[Object]:
    waiting = iter(bodies)
    done: list[Object] = []

    async def worker() -> None:
        for body in waiting:
            made = await work(body)
            done.append(made)

    await together(*(worker() for _ in range(min(_AT_ONCE, len(bodies)))))
    return done


async def together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """What all of them gave, once all have ended; then the first failure is raised, if any."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    for one in ended:
        if isinstance(one, BaseException):
            raise one
    return [one for one in ended if not isinstance(one, BaseException)]
