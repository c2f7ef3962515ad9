"""Fairlead's own certificates: kept in a Secret that every replica reads, published to API servers.

The Secret is the one truth. It is changed only as it was read (by its resourceVersion), so of two
replicas that take the same step one gets a conflict and reads again.
"""

import base64
import binascii
import datetime as dt
from typing import Any

import msgspec

from fairlead.kube.admission.certificates import CertState, ServingCert, Subject
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import STRATEGIC_MERGE, Transport
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

_SHOWN, _COMING, _TRUSTED, _SINCE = "tls", "next", "ca.crt", "shown-since"
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
_encode = msgspec.json.Encoder().encode


class CertRotationError(FairleadError):
    """The certificates cannot be rotated now; those in use stay."""


class _Conflict(Exception):
    """Another replica has changed the object."""


@dataclass(frozen=True, slots=True)
class CertLocations:
    """The Secret and the webhook configurations."""

    namespace: str
    secret: str
    #: The name that both webhook configurations have.
    configuration: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/secrets/{self.secret}"


class CertRotation:
    """Takes the next step of the rotation at each call."""

    def __init__(self, client: Transport, places: CertLocations, subject: Subject) -> None:
        self._client = client
        self._places = places
        self._subject = subject

    async def turn(self, now: dt.datetime) -> ServingCert:
        """The certificate to show from now on. Raises KeepingError, or ApiError."""
        for _ in range(5):
            try:
                return await self._turn(now)
            except _Conflict:
                continue
        raise CertRotationError("other replicas changed the certificates at the same time")

    async def _turn(self, now: dt.datetime) -> ServingCert:
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
            raise CertRotationError(
                f"there is no Secret {self._places.namespace}/{self._places.secret} to keep "
                "certificates in; apply deploy/fairlead.yaml, or name another with --cert-store"
            )
        return _object(reply, "read")

    async def _write(self, secret: dict[str, Any], held: CertState) -> None:
        body = _encode({**secret, "data": _data(held)})
        _object(await self._client.request("PUT", self._places.path, body=body), "write")

    async def _publish(self, trusted: bytes) -> bool:
        """Writes the CA bundle; False if all configurations had it before."""
        bundle = base64.b64encode(trusted).decode()
        return any([await self._publish_in(kind, bundle) for kind in _KINDS])

    async def _publish_in(self, kind: str, bundle: str) -> bool:
        path = f"{_CONFIGURATIONS}/{kind}/{self._places.configuration}"
        reply = await self._client.request("GET", path)
        if reply.status == 404:
            return False  # this cluster has no webhook of this kind
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
        raise CertRotationError(f"certificates: cannot {verb}: {reply.message}")
    try:
        found: dict[str, Any] = msgspec.json.decode(reply.body, type=dict)
    except UNREADABLE as error:
        raise CertRotationError(
            f"certificates: the API server's answer is invalid: {error}"
        ) from error
    return found


def _held(secret: dict[str, Any]) -> CertState:
    """What cannot be used counts as absent, and is created again."""
    try:
        data = {k: base64.b64decode(v) for k, v in (secret.get("data") or {}).items()}
    except (binascii.Error, TypeError):
        data = {}
    shown, coming = _pair(data, _SHOWN), _pair(data, _COMING)
    return CertState(shown, coming, data.get(_TRUSTED, b""), _time(data.get(_SINCE, b"")))


def _time(text: bytes) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text.decode("ascii"))
    except ValueError:
        return None
    return found if found.tzinfo else None


def _pair(data: dict[str, bytes], name: str) -> ServingCert | None:
    pair = ServingCert(data.get(f"{name}.crt", b""), data.get(f"{name}.key", b""))
    return pair if pair.usable else None


def _data(held: CertState) -> dict[str, str]:
    plain = {_TRUSTED: held.trusted}
    if held.since is not None:
        plain[_SINCE] = held.since.isoformat().encode()
    for name, pair in ((_SHOWN, held.shown), (_COMING, held.coming)):
        if pair is not None:
            plain |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    return {key: base64.b64encode(value).decode() for key, value in plain.items()}
