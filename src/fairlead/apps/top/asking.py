"""Where `fairlead top` gets its report: from a scheduler at work, or by looking itself."""

import re
from typing import Protocol

import aiohttp
import msgspec

from fairlead.kube.errors import ApiError
from fairlead.kube.http.client import Client
from fairlead.model.errors import FairleadError
from fairlead.telemetry.report import Report

_TIMEOUT_S = 30.0
_LONGEST = 256 * 2**20
_SERVICE = re.compile(r"([a-z0-9-]+)/([a-z0-9-]+)(?::([a-z0-9-]+))?")
_reports = msgspec.json.Decoder(Report)


class NotAnswered(FairleadError):
    """There is no report; the text says why, and what to do."""


class Asking(Protocol):
    async def report(self) -> Report: ...


class FromUrl:
    """A scheduler that serves at this address."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/usage"

    async def report(self) -> Report:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self._url, allow_redirects=False) as reply,
            ):
                body = await reply.content.read(_LONGEST)
                while chunk := await reply.content.read(_LONGEST - len(body)):
                    body += chunk
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NotAnswered(
                f"no answer from {self._url}: {error or 'it took too long'}; "
                "say with --scheduler where `fairlead run` serves"
            ) from error
        return _read(reply.status, body, self._url)


class FromService:
    """A scheduler behind a Service, reached through the API server."""

    def __init__(self, client: Client, namespace: str, service: str, port: str) -> None:
        self._client = client
        self._path = f"/api/v1/namespaces/{namespace}/services/{service}:{port}/proxy/usage"

    async def report(self) -> Report:
        try:
            reply = await self._client.request("GET", self._path, max_body=_LONGEST)
        except ApiError as error:
            raise NotAnswered(f"no answer from {self._path}: {error}") from error
        return _read(reply.status, reply.body, self._path)


def asking(client: Client, where: str) -> Asking:
    """`where` is a URL, or NAMESPACE/SERVICE[:PORT]."""
    if where.startswith(("http://", "https://")):
        return FromUrl(where)
    found = _SERVICE.fullmatch(where)
    if found is None:
        raise NotAnswered(
            f"--scheduler {where!r}: write a URL, or NAMESPACE/SERVICE[:PORT] in the cluster"
        )
    namespace, service, port = found.groups()
    return FromService(client, namespace, service, port or "http")


def _read(status: int, body: bytes, where: str) -> Report:
    if status != 200:
        raise NotAnswered(
            f"{where} answered {status}: {body[:200].decode(errors='replace')}; "
            "is that a Fairlead of this version?"
        )
    try:
        return _reports.decode(body)
    except msgspec.MsgspecError as error:
        raise NotAnswered(f"{where} is no report of ours: {error}") from error
