"""Certificates of our own: kept in a Secret that every replica reads, published to API servers.

The Secret is the one truth. It is changed only as it was read (by its resourceVersion), so of two
replicas that take the same step one is told of the conflict and reads again.
"""

import base64
import binascii
import datetime as dt
from dataclasses import dataclass
from typing import Any

import msgspec

from fairlead.kube.admission.certificates import Held, Pair, Subject
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import STRATEGIC_MERGE, Transport
from fairlead.model.errors import FairleadError

_SHOWN, _COMING, _TRUSTED, _SINCE = "tls", "next", "ca.crt", "shown-since"
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_encode = msgspec.json.Encoder().encode


class KeepingError(FairleadError):
    """The certificates cannot be kept current just now; those that are shown stay."""


class _Conflict(Exception):
    """Somebody else was faster."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are in the cluster."""

    namespace: str
    secret: str
    #: The name that both webhook configurations have.
    configuration: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/secrets/{self.secret}"


class Keeper:
    """Takes the next step with the certificates, as often as it is asked."""

    def __init__(self, client: Transport, places: Places, subject: Subject) -> None:
        self._client = client
        self._places = places
        self._subject = subject

    async def turn(self, now: dt.datetime) -> Pair:
        """The certificate to show from now on. Raises KeepingError, or ApiError."""
        for _ in range(5):
            try:
                return await self._turn(now)
            except _Conflict:
                continue
        raise KeepingError("other replicas changed the certificates at the same time")

    async def _turn(self, now: dt.datetime) -> Pair:
        secret = await self._read()
        held = _held(secret)
        published = not held.trusted or not await self._publish(held.trusted)
        wanted = held.advanced(now, self._subject, published=published)
        if wanted != held:
            await self._write(secret, wanted)
            await self._publish(wanted.trusted)
        assert wanted.shown is not None
        return wanted.shown

    async def _read(self) -> dict[str, Any]:
        reply = await self._client.request("GET", self._places.path)
        if reply.status == 404:
            raise KeepingError(
                f"there is no Secret {self._places.namespace}/{self._places.secret} to keep "
                "certificates in; apply deploy/fairlead.yaml, or name another with --cert-store"
            )
        return _object(reply, "read")

    async def _write(self, secret: dict[str, Any], held: Held) -> None:
        body = _encode({**secret, "data": _data(held)})
        _object(await self._client.request("PUT", self._places.path, body=body), "write")

    async def _publish(self, trusted: bytes) -> bool:
        """Tells API servers whom to trust; False if all of them had been told before."""
        bundle = base64.b64encode(trusted).decode()
        return any([await self._publish_in(kind, bundle) for kind in _KINDS])

    async def _publish_in(self, kind: str, bundle: str) -> bool:
        path = f"{_CONFIGURATIONS}/{kind}/{self._places.configuration}"
        reply = await self._client.request("GET", path)
        if reply.status == 404:
            return False  # this kind of question is not asked in this cluster
        found = _object(reply, "read")
        stale = [
            one["name"]
            for one in found.get("webhooks") or ()
            if one["clientConfig"].get("caBundle") != bundle
        ]
        if not stale:
            return False
        version = found["metadata"]["resourceVersion"]
        hooks = [{"name": name, "clientConfig": {"caBundle": bundle}} for name in stale]
        body = _encode({"metadata": {"resourceVersion": version}, "webhooks": hooks})
        patched = await self._client.request("PATCH", path, body=body, content_type=STRATEGIC_MERGE)
        _object(patched, "write")
        return True


def _object(reply: Reply, verb: str) -> dict[str, Any]:
    if reply.status == 409:
        raise _Conflict
    if reply.status not in (200, 201):
        raise KeepingError(f"certificates: cannot {verb}: {reply.message}")
    try:
        found: dict[str, Any] = msgspec.json.decode(reply.body, type=dict)
    except UNREADABLE as error:
        raise KeepingError(f"certificates: the API server's answer is invalid: {error}") from error
    return found


def _held(secret: dict[str, Any]) -> Held:
    """What cannot be used counts as absent, and is made anew."""
    try:
        data = {k: base64.b64decode(v) for k, v in (secret.get("data") or {}).items()}
    except (binascii.Error, TypeError):
        data = {}
    shown, coming = _pair(data, _SHOWN), _pair(data, _COMING)
    return Held(shown, coming, data.get(_TRUSTED, b""), _time(data.get(_SINCE, b"")))


def _time(text: bytes) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text.decode("ascii"))
    except ValueError:
        return None
    return found if found.tzinfo else None


def _pair(data: dict[str, bytes], name: str) -> Pair | None:
    pair = Pair(data.get(f"{name}.crt", b""), data.get(f"{name}.key", b""))
    return pair if pair.usable else None


def _data(held: Held) -> dict[str, str]:
    plain = {_TRUSTED: held.trusted}
    if held.since is not None:
        plain[_SINCE] = held.since.isoformat().encode()
    for name, pair in ((_SHOWN, held.shown), (_COMING, held.coming)):
        if pair is not None:
            plain |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    return {key: base64.b64encode(value).decode() for key, value in plain.items()}
