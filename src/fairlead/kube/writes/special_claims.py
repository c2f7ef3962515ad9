"""Makes and deletes the claims for extended resources of pods, and names them in their pods.

A claim without an allocation holds nothing. So a write whose outcome is not known is no danger
here: a claim that is there after all is found by its owner, and deleted before the next attempt.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec
import structlog

from fairlead.cluster.device_claims import ClaimWrite
from fairlead.kube.claims.changes import ClaimRequest
from fairlead.kube.claims.claims import FINALIZER, decode_claim
from fairlead.kube.claims.kinds import CLAIMS
from fairlead.kube.claims.patches import unprotect_patch
from fairlead.kube.claims.special import new_name, pod_status_patch, special_claim_object
from fairlead.kube.errors import ApiError
from fairlead.kube.http.paths import in_namespace, named, pod_path
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import STRATEGIC_MERGE, Transport
from fairlead.kube.writes.claim_settlement import ClaimSettlement
from fairlead.kube.writes.pauses import pause_s
from fairlead.kube.writes.preparer import StepFailed
from fairlead.kube.writes.waits import Waits
from fairlead.model.claims import ResourceClaim
from fairlead.model.pods import Pod

log = structlog.get_logger(__name__)

_TRIES = 5
_LONGEST_PAUSE_S = 2.0
#: How long a watch may take to show a claim: kube-scheduler's limit.
WAIT_S = 120.0
#: Statuses after which the same write could succeed.
_PASSING = frozenset({401, 409, 429, 500, 502, 503, 504})
_EXISTS, _NOT_FOUND = 409, 404

_encode = msgspec.json.Encoder().encode
Latest = Callable[[str], ResourceClaim | None]


class SpecialClaims:
    """`latest` has claims as watches show them."""

    def __init__(self, client: Transport, latest: Latest, wait_s: float = WAIT_S) -> None:
        self._client = client
        self._latest = latest
        self._wait_s = wait_s
        self._waits = Waits()

    def look(self, key: str) -> None:
        """The claim with this key, or the pod with this uid, has changed or is gone."""
        self._waits.look(key)

    async def make(self, pod: Pod, write: ClaimWrite) -> ResourceClaim:
        """The claim, which has no devices yet. Raises StepFailed."""
        name = new_name(pod)
        folder = _folder(pod.namespace)
        body = _encode(special_claim_object(pod, name, write.claim.requests))
        problem = ""
        for tries in range(_TRIES):
            reply = await self._try("POST", folder, body)
            if isinstance(reply, Reply) and reply.status == _EXISTS and tries:
                reply = await self._try("GET", named(folder, name))
            if isinstance(reply, Reply) and reply.status < 300:
                claim = _decoded(reply)
                if claim is not None and claim.owner == pod.uid and claim.for_extended_resources:
                    return claim
            problem = reply.message if isinstance(reply, Reply) else reply
            if isinstance(reply, Reply) and reply.status not in _PASSING:
                break
            await asyncio.sleep(pause_s(tries, longest_s=_LONGEST_PAUSE_S))
        raise StepFailed(f"create claim for extended resources {pod.namespace}/: {problem}")

    async def name_in(self, pod: Pod, claim: ResourceClaim, write: ClaimWrite) -> None:
        """Writes to the status of the pod which claim it has. Raises StepFailed."""
        path = f"{pod_path(pod.namespace, pod.name)}/status"
        body = _encode(pod_status_patch(pod, claim, write.mappings))
        problem = ""
        for tries in range(_TRIES):
            reply = await self._try("PATCH", path, body, STRATEGIC_MERGE)
            if isinstance(reply, Reply) and reply.status < 300:
                return
            problem = reply.message if isinstance(reply, Reply) else reply
            if isinstance(reply, Reply) and reply.status not in _PASSING:
                break
            await asyncio.sleep(pause_s(tries, longest_s=_LONGEST_PAUSE_S))
        raise StepFailed(f"update pod {pod.key} ExtendedResourceClaimStatus: {problem}")

    async def await_shown(self, claim: ResourceClaim, check: Callable[[], None]) -> None:
        """Returns when a watch has shown the claim. Raises StepFailed, or what `check` raises."""
        if not await self._wait(claim, partial(self._is_shown, claim), check):
            raise StepFailed(f"claim {claim.key} was not shown for {self._wait_s:g} s")

    async def delete(self, claim: ResourceClaim) -> None:
        """Deletes the claim, and returns when a watch has shown that; what fails is logged."""
        try:
            settlement = ClaimSettlement(self._client, claim, lambda _: None)
            await settlement.apply(partial(_unprotect_next, claim))
        except StepFailed as error:
            log.warning("a finalizer was not removed", claim=claim.key, error=str(error))
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": claim.uid},
        }
        path = named(_folder(claim.namespace), claim.name)
        for tries in range(_TRIES):
            reply = await self._try("DELETE", path, _encode(options))
            if isinstance(reply, Reply) and reply.status in (200, 202, _NOT_FOUND, _EXISTS):
                await self._wait(claim, lambda: not self._is_shown(claim), lambda: None)
                return
            await asyncio.sleep(pause_s(tries, longest_s=_LONGEST_PAUSE_S))
        problem = reply.message if isinstance(reply, Reply) else reply
        log.warning("a claim for extended resources stays", claim=claim.key, error=problem)

    def _is_shown(self, claim: ResourceClaim) -> bool:
        shown = self._latest(claim.key)
        return shown is not None and shown.uid == claim.uid

    async def _wait(
        self, claim: ResourceClaim, is_done: Callable[[], bool], check: Callable[[], None]
    ) -> bool:
        with self._waits.on((claim.key, claim.owner)) as changed:
            try:
                async with asyncio.timeout(self._wait_s):
                    while not is_done():
                        check()
                        changed.clear()
                        await changed.wait()
            except TimeoutError:
                return False
        return True

    async def _try(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> Reply | str:
        try:
            return await self._client.request(method, path, body=body, content_type=kind)
        except ApiError as error:
            return str(error)


def _folder(namespace: str) -> str:
    return in_namespace(f"/apis/{CLAIMS.group}/v1", namespace, CLAIMS.plural)


def _decoded(reply: Reply) -> ResourceClaim | None:
    try:
        return decode_claim(reply.body)
    except UNREADABLE:
        return None


def _unprotect_next(claim: ResourceClaim, now: ResourceClaim) -> ClaimRequest | None:
    if now.uid != claim.uid or FINALIZER not in now.finalizers:
        return None
    return ClaimRequest("", unprotect_patch(now), "remove finalizer of claim")
