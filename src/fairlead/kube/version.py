"""Which version the API server has, and so which kube-scheduler to behave like."""

import asyncio
import random
import re
from typing import NamedTuple

import msgspec
import structlog

from fairlead.kube.errors import ApiError
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.http.transport import Transport
from fairlead.kube.mirror.backoff import Backoff
from fairlead.model.behaviour import Behaviour, behaviour_of

log = structlog.get_logger(__name__)

_TRY_S = 10.0
#: Nothing about the version: being overloaded, starting, or renewing credentials passes.
_PASSING = (408, 429)
#: Credentials may be renewed just now. Wrong ones stay wrong.
_UNAUTHORIZED_TRIES = 4


class Unauthorized(ApiError):
    """The API server does not know who we are."""


class Version(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


#: What an answer that makes no sense counts as: older than any version.
UNREADABLE_VERSION = Version(0, 0)


class _Wire(msgspec.Struct):
    major: str
    minor: str


_wires = msgspec.json.Decoder(_Wire)


def parse_version(body: bytes) -> Version:
    """The version in an answer to GET /version; vendors' marks, such as in `36+`, are ignored.

    >>> parse_version(b'{"major": "1", "minor": "36+"}')
    Version(major=1, minor=36)
    """
    try:
        wire = _wires.decode(body)
    except UNREADABLE:
        return UNREADABLE_VERSION
    found = [re.match(r"[0-9]{1,6}", text) for text in (wire.major, wire.minor)]
    numbers = [int(match[0]) for match in found if match]
    return Version(*numbers) if len(numbers) == 2 else UNREADABLE_VERSION


async def ask_version(client: Transport) -> Version:
    """The API server's version. Raises ApiError when it cannot be asked just now."""
    reply = await client.request("GET", "/version", timeout_s=_TRY_S)
    if reply.status == 401:
        raise Unauthorized(
            f"the API server does not accept these credentials: {reply.message}; correct the token "
            "or the certificate in the kubeconfig, or log in again"
        )
    if reply.status in _PASSING or reply.status >= 500:
        raise ApiError(f"cannot read the version of the API server: {reply.message}")
    return parse_version(reply.body) if reply.status == 200 else UNREADABLE_VERSION


async def learn_behaviour(client: Transport, backoff: Backoff | None = None) -> Behaviour:
    """The behaviour that fits the API server; asks until it gets an answer.

    Raises Unauthorized if that is all it gets.
    """
    backoff = backoff or Backoff(random.Random())
    refused = 0
    while True:
        try:
            version = await ask_version(client)
        except ApiError as error:
            refused = refused + 1 if isinstance(error, Unauthorized) else 0
            if refused == _UNAUTHORIZED_TRIES:
                raise
            log.warning("cannot read the server version; retrying", error=str(error))
            await asyncio.sleep(backoff.next_s())
        else:
            return _chosen(version)


def _chosen(version: Version) -> Behaviour:
    behaviour = behaviour_of(*version)
    if version == behaviour.version:
        log.info("behaving like kube-scheduler", version=behaviour.name)
    else:
        server = "unreadable" if version == UNREADABLE_VERSION else str(version)
        log.warning(
            "unknown server version; using the nearest", server=server, version=behaviour.name
        )
    return behaviour
