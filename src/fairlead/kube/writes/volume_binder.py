"""Binds and provisions the volumes of pods: the writer of the step `VolumeStep`.

Nothing is undone when it fails: a volume that was reserved for a claim stays reserved, and a claim
that was sent to a node stays sent. So a restart at any point loses nothing, for the next attempt
finds both.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from fairlead.kube.errors import ApiError
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.storage_codec import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    decode_volume,
    decode_volume_claim,
)
from fairlead.kube.writes.pauses import pause_s
from fairlead.kube.writes.preparer import StepFailed
from fairlead.model.pods import Pod
from fairlead.model.storage import Volume, VolumeClaim, VolumePlan
from fairlead.plugins.volume_step import VolumeStep

#: kube-scheduler's bindTimeoutSeconds.
WAIT_S = 600.0
_TRIES = 5
_LONGEST_PAUSE_S = 2.0
_WRITES_AT_ONCE = 16
_MERGE_PATCH = "application/merge-patch+json"
#: Statuses after which the same write could succeed.
_PASSING = frozenset({401, 429, 500, 502, 503, 504})

_encode = msgspec.json.Encoder().encode


class VolumeBinder:
    """Writes, then waits for the watches. `claims` and `volumes` are what they have shown so far.

    `look` must be called whenever they may have changed.
    """

    def __init__(
        self,
        client: Transport,
        claims: Mapping[str, VolumeClaim],
        volumes: Mapping[str, Volume],
        *,
        wait_s: float = WAIT_S,
    ) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes
        self._wait_s = wait_s
        self._writing = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._changed: dict[str, asyncio.Event] = {}

    def look(self) -> None:
        """A claim or a volume changed: those who wait look again."""
        for event in self._changed.values():
            event.set()

    async def carry_out(self, pod: Pod, node: str, step: VolumeStep) -> None:
        """Returns when every claim of the plan is bound; raises StepFailed."""
        changed = self._changed[pod.uid] = asyncio.Event()
        try:
            written = await self._write(step.plan, node)
            await self._wait(step.plan, node, written, changed)
        finally:
            del self._changed[pod.uid]

    # -- writing -----------------------------------------------------------------------------

    async def _write(self, plan: VolumePlan, node: str) -> dict[str, str]:
        """Writes what is not written yet. Versions by key, older than which is no answer."""
        versions = {}
        for claim, volume in plan.bindings:
            if not (volume.belongs_to(claim) and volume.claim_uid):
                path = named("/api/v1/persistentvolumes", volume.name)
                done = partial(_has_claim_ref, claim)
                versions[volume.key] = await self._patch(
                    path, _claim_ref_patch(volume, claim), done
                )
        for claim in plan.provisions:
            if claim.selected_node != node:
                path = named(_claims_in(claim.namespace), claim.name)
                done = partial(_has_selected_node, node)
                versions[claim.key] = await self._patch(
                    path, _selected_node_patch(claim, node), done
                )
        return versions

    async def _patch(
        self, path: str, body: Mapping[str, Any], is_done: Callable[[bytes], str | None]
    ) -> str:
        """The version that holds what was to be written. A lost reply is settled by reading."""
        encoded, problem = _encode(body), ""
        for tries in range(_TRIES):
            reply = await self._try("PATCH", path, encoded)
            if isinstance(reply, Reply) and reply.status < 300:
                return _version(reply.body)
            problem = reply.message if isinstance(reply, Reply) else reply
            now = await self._try("GET", path)
            if isinstance(now, Reply) and now.status == 200 and (found := is_done(now.body)):
                return found
            if isinstance(reply, Reply) and reply.status not in _PASSING:
                break
            await asyncio.sleep(pause_s(tries, longest_s=_LONGEST_PAUSE_S))
        raise StepFailed(problem)

    async def _try(self, method: str, path: str, body: bytes | None = None) -> Reply | str:
        try:
            async with self._writing:
                return await self._client.request(
                    method, path, body=body, content_type=_MERGE_PATCH
                )
        except ApiError as error:
            return str(error)

    # -- waiting -----------------------------------------------------------------------------

    async def _wait(
        self, plan: VolumePlan, node: str, written: Mapping[str, str], changed: asyncio.Event
    ) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                while not self._is_done(plan, node, written):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            raise StepFailed("binding volumes: context deadline exceeded") from None

    def _is_done(self, plan: VolumePlan, node: str, written: Mapping[str, str]) -> bool:
        """False while there is something to wait for; raises when waiting is in vain."""
        bound = [self._is_bound(*pair, written) for pair in plan.bindings]
        made = [self._is_provisioned(claim, node, written) for claim in plan.provisions]
        return all(bound) and all(made)

    def _is_bound(self, claim: VolumeClaim, volume: Volume, written: Mapping[str, str]) -> bool:
        told, now = self._volumes.get(volume.name), self._claims.get(claim.key)
        if told is None:
            raise StepFailed(
                "binding volumes: failed to check binding: "
                f'persistentvolumes "{volume.name}" not found'
            )
        if now is None:
            raise StepFailed(
                "binding volumes: failed to check binding: "
                f'persistentvolumeclaims "{claim.key}" not found'
            )
        if _is_older(told.version, written.get(volume.key)):
            return False
        if not told.claim_uid:
            raise StepFailed(f'binding volumes: ClaimRef got reset for pv "{volume.name}"')
        return now.bound

    def _is_provisioned(self, claim: VolumeClaim, node: str, written: Mapping[str, str]) -> bool:
        now = self._claims.get(claim.key)
        if now is None:
            raise StepFailed(
                "binding volumes: failed to check provisioning pvc: "
                f'persistentvolumeclaims "{claim.key}" not found'
            )
        if _is_older(now.version, written.get(claim.key)):
            return False
        if now.selected_node != node:
            raise StepFailed(f'binding volumes: provisioning failed for PVC "{claim.name}"')
        return now.bound and now.volume in self._volumes


def _claims_in(namespace: str) -> str:
    return in_namespace("/api/v1", namespace, "persistentvolumeclaims")


def _claim_ref_patch(volume: Volume, claim: VolumeClaim) -> dict[str, Any]:
    """The volume becomes the claim's, unless it is another version than was decided on."""
    reference = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.version,
    }
    meta: dict[str, Any] = {"resourceVersion": volume.version, "uid": volume.uid}
    if not volume.belongs_to(claim):  # else a user wrote the reference, and it stays
        meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return {"metadata": meta, "spec": {"claimRef": reference}}


def _selected_node_patch(claim: VolumeClaim, node: str) -> dict[str, Any]:
    return {
        "metadata": {
            "resourceVersion": claim.version,
            "uid": claim.uid,
            "annotations": {SELECTED_NODE: node},
        }
    }


def _has_claim_ref(claim: VolumeClaim, raw: bytes) -> str | None:
    now = decode_volume(raw)
    return now.version if (now.claim, now.claim_uid) == (claim.key, claim.uid) else None


def _has_selected_node(node: str, raw: bytes) -> str | None:
    now = decode_volume_claim(raw)
    return now.version if now.selected_node == node else None


def _version(raw: bytes) -> str:
    version = msgspec.json.decode(raw)["metadata"]["resourceVersion"]
    return str(version)


def _is_older(version: str, written: str | None) -> bool:
    """Have the watches not shown yet what we wrote?"""
    return written is not None and int(version or 0) < int(written)
