"""Creates and deletes reservation pods: the writer of the step `ReservationStep`.

The name of such a pod follows from its node and number. So a step that is carried out again, by
this process or the next one, finds what was created before.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec
import structlog

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.reservations import ReservedGpu
from fairlead.kube.errors import ApiError
from fairlead.kube.http.paths import in_namespace, pod_path
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.reservations import (
    ReservationPlan,
    ReservationStatus,
    reservation_name,
    reservation_object,
    statuses,
)
from fairlead.kube.writes.pauses import pause_s
from fairlead.kube.writes.preparer import StepFailed
from fairlead.model.pods import Pod
from fairlead.plugins.reservation_step import ReservationStep

log = structlog.get_logger(__name__)

#: From the creation of the pod until its GPU is known; an image may have to be pulled.
WAIT_S = 120.0
#: A pod that no event has shown for so long is read.
_UNSEEN_S = 5.0
_TRIES = 5
_LONGEST_PAUSE_S = 2.0
_TIMEOUT_S = 10.0

_encode = msgspec.json.Encoder().encode


class Reserver:
    """Writes, then waits for the watch. `look` must be called when a reservation pod changed.

    `failed` takes a node and the reason when a GPU of it could not be reserved.
    """

    def __init__(
        self,
        client: Transport,
        plan: ReservationPlan,
        cluster: Callable[[], Cluster],
        failed: Callable[[str, str], None],
        *,
        wait_s: float = WAIT_S,
        unseen_s: float = _UNSEEN_S,
    ) -> None:
        self._client = client
        self._plan = plan
        self._cluster = cluster
        self._failed = failed
        self._wait_s = wait_s
        self._unseen_s = unseen_s
        self._changed: dict[str, asyncio.Event] = {}
        self._deleting: dict[str, asyncio.Task[None]] = {}

    def look(self) -> None:
        """A reservation pod changed: those who wait look again."""
        for event in self._changed.values():
            event.set()

    async def carry_out(self, pod: Pod, node: str, step: ReservationStep) -> None:
        """Returns when the GPU of every reservation is known; raises StepFailed."""
        changed = self._changed[pod.uid] = asyncio.Event()
        try:
            for number in step.numbers:
                await self._create(node, number)
            await self._wait(node, step.numbers, changed)
        except StepFailed as error:
            self._failed(node, str(error))
            raise
        finally:
            del self._changed[pod.uid]

    # -- creating ----------------------------------------------------------------------------

    async def _create(self, node: str, number: int) -> None:
        """Creates the pod, unless it is there. One that has failed is replaced."""
        found = self._cluster().reservations.get(node, number)
        if found is not None and found.pod is not None:
            return
        known, problem = self._cluster().node_named(node), ""
        body = _encode(reservation_object(self._plan, node, known.uid if known else "", number))
        path = in_namespace("/api/v1", self._plan.namespace, "pods")
        for tries in range(_TRIES):
            reply = await self._try("POST", path, body)
            if isinstance(reply, Reply) and reply.status < 300:
                return
            problem = reply.message if isinstance(reply, Reply) else reply
            if isinstance(reply, Reply) and reply.status == 409:
                if await self._is_usable(node, number):
                    return
            elif isinstance(reply, Reply) and reply.status in (400, 403, 404, 422):
                break
            await asyncio.sleep(pause_s(tries, longest_s=_LONGEST_PAUSE_S))
        raise StepFailed(f"no GPU of {node} can be reserved: {problem}")

    async def _is_usable(self, node: str, number: int) -> bool:
        """Whether the pod that has the name already will do. One that has ended is deleted."""
        status = await self._status(reservation_name(node, number))
        if status is None or status.metadata.deletion_timestamp:
            return False
        if status.has_failed:
            await self._delete(reservation_name(node, number), status.metadata.uid)
            return False
        return True

    # -- waiting -----------------------------------------------------------------------------

    async def _wait(self, node: str, numbers: tuple[int, ...], changed: asyncio.Event) -> None:
        seen: set[int] = set()
        try:
            async with asyncio.timeout(self._wait_s):
                while not await self._are_known(node, numbers, seen):
                    changed.clear()
                    try:
                        async with asyncio.timeout(self._unseen_s):
                            await changed.wait()
                    except TimeoutError:
                        await self._read_unseen(node, numbers, seen)
        except TimeoutError:
            raise StepFailed(
                f"the reservation pod on {node} has not reported its GPU for {self._wait_s:g} s"
            ) from None

    async def _are_known(self, node: str, numbers: tuple[int, ...], seen: set[int]) -> bool:
        """False while there is something to wait for; raises when waiting is in vain."""
        known = True
        for number in numbers:
            found = self._cluster().reservations.get(node, number)
            if found is None or found.pod is None:
                if number in seen:
                    raise StepFailed(await self._why_gone(node, number))
                known = False
                continue
            seen.add(number)
            _check(node, found)
            known = known and bool(found.uuid)
        return known

    async def _read_unseen(self, node: str, numbers: tuple[int, ...], seen: set[int]) -> None:
        """A watch shows a pod that has failed like one that is gone. A pod that fails before its
        first event is seen is never shown.
        """
        for number in numbers:
            if number not in seen and (why := await self._why_rejected(node, number)):
                raise StepFailed(why)

    async def _why_gone(self, node: str, number: int) -> str:
        name = reservation_name(node, number)
        return await self._why_rejected(node, number) or (
            f"the reservation pod {name} on {node} was deleted"
        )

    async def _why_rejected(self, node: str, number: int) -> str:
        """Empty if the pod has not failed. One that has failed is deleted."""
        name = reservation_name(node, number)
        status = await self._status(name)
        if status is None or not status.has_failed:
            return ""
        await self._delete(name, status.metadata.uid)
        said = status.status
        return f"the kubelet of {node} rejected the reservation pod: {said.reason}: {said.message}"

    # -- deleting ----------------------------------------------------------------------------

    def delete(self, pod: Pod) -> None:
        """Deletes this very pod; returns at once. What fails is tried again by the caller."""
        if pod.uid not in self._deleting:
            task = asyncio.create_task(self._delete(pod.name, pod.uid), name=f"unreserve-{pod.uid}")
            self._deleting[pod.uid] = task
            task.add_done_callback(partial(self._deleted, pod.uid))

    def clear(self, pod: Pod) -> None:
        """Deletes the pod if it has failed: a watch shows it like one that is gone."""
        if pod.uid not in self._deleting:
            task = asyncio.create_task(self._clear(pod), name=f"clear-{pod.uid}")
            self._deleting[pod.uid] = task
            task.add_done_callback(partial(self._deleted, pod.uid))

    async def _clear(self, pod: Pod) -> None:
        status = await self._status(pod.name)
        if status is not None and status.has_failed and status.metadata.uid == pod.uid:
            await self._delete(pod.name, pod.uid)

    def _deleted(self, uid: str, task: asyncio.Task[None]) -> None:
        del self._deleting[uid]
        if not task.cancelled() and task.exception():
            log.error("deleting a reservation pod failed", error=str(task.exception()))

    async def stop(self) -> None:
        """The next leader finds what is not done."""
        tasks = list(self._deleting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _delete(self, name: str, uid: str) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        reply = await self._try("DELETE", pod_path(self._plan.namespace, name), _encode(options))
        if isinstance(reply, Reply) and reply.status in (200, 202, 404, 409):
            return
        problem = reply.message if isinstance(reply, Reply) else reply
        log.warning("a reservation pod was not deleted; retrying", pod=name, error=problem)

    # -- requests ----------------------------------------------------------------------------

    async def _status(self, name: str) -> ReservationStatus | None:
        reply = await self._try("GET", pod_path(self._plan.namespace, name))
        if not isinstance(reply, Reply) or reply.status != 200:
            return None
        try:
            return statuses.decode(reply.body)
        except UNREADABLE:
            return None

    async def _try(self, method: str, path: str, body: bytes | None = None) -> Reply | str:
        try:
            return await self._client.request(method, path, body=body, timeout_s=_TIMEOUT_S)
        except ApiError as error:
            return str(error)


def _check(node: str, found: ReservedGpu) -> None:
    said = found.pod.reservation if found.pod else None
    if said is not None and said.problem:
        raise StepFailed(f"the reservation pod on {node} has no GPU to report: {said.problem}")
    if not found.is_open:
        raise StepFailed(f"the reservation pod on {node} is being deleted")
