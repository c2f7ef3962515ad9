"""The Lease object, read and written as client-go does, so that its electors could share it."""

from typing import Any

import msgspec

from fairlead.kube.errors import ApiError, ReplyLost
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.leadership.election import LeaderRecord, Terms
from fairlead.model.lazy_dataclass import dataclass

_HINTS = {
    403: "; grant this user create, get and update on leases there",
    404: "; does its namespace exist?",
}


class LeaseProblem(ApiError):
    """The Lease cannot be read or written just now."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    metadata: dict[str, Any]
    spec: _Spec | None = None


_leases = msgspec.json.Decoder(_Lease)


@dataclass(frozen=True, slots=True)
class LeaseObject:
    """A Lease as the server has it. Writing it back keeps labels and all other fields."""

    metadata: dict[str, Any]
    record: LeaderRecord


class LeaseClient:
    """Reads and writes one Lease. Everything raises ApiError when there is no answer."""

    def __init__(self, client: Transport, terms: Terms) -> None:
        self._client = client
        self._name, self._namespace = terms.name, terms.namespace
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{terms.namespace}/leases"
        self._timeout_s = terms.renew_s / 2

    async def read(self) -> LeaseObject | None:
        """The Lease, or None when there is none."""
        reply = await self._request("GET", f"{self._folder}/{self._name}")
        if reply.status == 404:
            return None
        return self._read(reply)

    async def write(self, record: LeaderRecord, over: LeaseObject | None) -> LeaseObject | None:
        """Replaces what was seen, or creates the Lease; None if another writer was faster."""
        meta: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        if over is None:
            reply = await self._request("POST", self._folder, _encoded(meta, record))
        else:
            path = f"{self._folder}/{self._name}"
            reply = await self._request("PUT", path, _encoded(over.metadata, record))
        if reply.status == 409 or (over is not None and reply.status == 404):
            return None
        return self._read(reply)

    async def _request(self, method: str, path: str, body: bytes | None = None) -> Reply:
        return await self._client.request(method, path, body=body, timeout_s=self._timeout_s)

    def _read(self, reply: Reply) -> LeaseObject:
        if reply.status >= 300:
            raise LeaseProblem(
                f"lease {self._namespace}/{self._name}: {reply.status} {reply.message}"
                f"{_HINTS.get(reply.status, '')}"
            )
        try:
            lease = _leases.decode(reply.body)
        except UNREADABLE as error:
            raise ReplyLost(f"the lease cannot be read: {error}") from error
        return LeaseObject(lease.metadata, _record(lease.spec or _Spec()))


def _record(spec: _Spec) -> LeaderRecord:
    return LeaderRecord(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time or "",
        spec.renew_time or "",
        spec.lease_transitions or 0,
    )


def _encoded(metadata: dict[str, Any], record: LeaderRecord) -> bytes:
    spec = _Spec(record.holder, record.lease_s, record.acquired, record.renewed, record.transitions)
    return msgspec.json.encode({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
    })  # fmt: skip
