"""One HTTP extender, as kube-scheduler's extender protocol has it.

Fields of requests have the names of Go's types. Answers are read as Go reads them, whatever the
case of their fields.
"""

import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, TypeVar

import aiohttp
import msgspec

from fairlead.apps.config.extender_terms import ExtenderPlan
from fairlead.apps.run.extender_connections import ExtenderConnector
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

#: An answer may be so much longer than twice the question.
_MOST_BYTES = 1 << 20
#: How often nodes of the question may be listed.
_MOST_TIMES = 4
#: Of a message about a node, which users see.
_LONGEST = 256
#: Of a message about a failed call.
_LONGEST_ERROR = 1024
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
_Fields = dict[str, msgspec.Raw]
_Score = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Part = TypeVar("_Part")
_fields = msgspec.json.Decoder(_Fields | None)


class ExtenderFault(FairleadError):
    """The extender gave no answer, or one that cannot be used; in kube-scheduler's words."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod, and nodes that fit it otherwise."""

    pod: bytes
    names: Sequence[str]
    #: The objects, for extenders that do not know the nodes.
    nodes: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Filtered:
    names: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: set[str] = field(default_factory=set)


class _Metadata(msgspec.Struct):
    name: str = ""


class _Node(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _NodeList(msgspec.Struct):
    items: list[_Node] | None = None


class ExtenderClient:
    def __init__(self, plan: ExtenderPlan) -> None:
        self.plan = plan
        self._session: aiohttp.ClientSession | None = None
        self._options: dict[str, Any] = {"headers": _HEADERS, "allow_redirects": False}
        if plan.tls and plan.tls.server_name:
            self._options["server_hostname"] = plan.tls.server_name

    async def filter(self, asked: Asked) -> Filtered:
        """Raises ExtenderFault."""
        found = _fields_of(await self._send(self.plan.filter_verb, asked))
        if error := _part(found, "error", str):
            raise ExtenderFault(error[:_LONGEST])
        names = self._names(found, asked)
        unresolvable = _part(found, "failedandunresolvablenodes", dict[str, str]) or {}
        failed = (_part(found, "failednodes", dict[str, str]) or {}) | unresolvable
        refused = set(asked.names) - set(names)
        said = refused & failed.keys()
        return Filtered(
            names,
            {node: failed[node][:_LONGEST] for node in asked.names if node in said},
            unresolvable.keys() & refused,
        )

    def _names(self, found: _Fields, asked: Asked) -> list[str]:
        names = _part(found, "nodenames", list[str]) if self.plan.by_name else None
        if names is None:
            nodes = _part(found, "nodes", _NodeList)
            names = [node.metadata.name for node in nodes.items or ()] if nodes else []
        known = set(asked.names)
        _check_length(names, asked)
        for name in names:
            if name not in known:
                url = self.plan.terms.name
                raise ExtenderFault(
                    f'extender "{url}" claims a filtered node "{name[:_LONGEST]}" which is not '
                    "found in the input node list"
                )
        return list(dict.fromkeys(names))

    async def prioritize(self, asked: Asked) -> dict[str, float]:
        """Points by node. Raises ExtenderFault."""
        text = await self._send(self.plan.prioritize_verb, asked)
        try:
            listed = msgspec.json.decode(text, type=list[_Fields] | None) or []
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ExtenderFault(f"the answer to prioritize cannot be read: {error}") from None
        _check_length(listed, asked)
        points: Counter[str] = Counter()
        for each in listed:
            row = {key.lower(): value for key, value in each.items()}
            points[_part(row, "host", str) or ""] += _part(row, "score", _Score) or 0
        return {node: float(score) for node, score in points.items()}

    async def _send(self, verb: str, asked: Asked) -> bytes:
        url, body = f"{self.plan.terms.name.rstrip('/')}/{verb}", self._body(asked)
        try:
            async with self._open().post(url, data=body, **self._options) as reply:
                if reply.status != 200:
                    raise ExtenderFault(
                        f"failed {verb} with extender at URL {url}, code {reply.status}"
                    )
                return await _read(reply, _MOST_BYTES + 2 * len(body))
        except TimeoutError:
            late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderFault(f'Post "{url}": {late}') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ExtenderFault(f'Post "{url}": {_words(error)}'[:_LONGEST_ERROR]) from None

    def _body(self, asked: Asked) -> bytes:
        nodes = names = None
        if self.plan.by_name:
            names = list(asked.names)
        else:
            items = [msgspec.Raw(asked.nodes[name]) for name in asked.names]
            nodes = {"metadata": {}, "items": items}
        said = {"Pod": msgspec.Raw(asked.pod), "Nodes": nodes, "NodeNames": names}
        return msgspec.json.encode(said)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = ExtenderConnector(ssl=_tls(self.plan), limit=32)
            timeout = aiohttp.ClientTimeout(total=self.plan.timeout_s)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _check_length(listed: Sequence[object], asked: Asked) -> None:
    """Nodes may be listed several times, but not so often that reading them takes long."""
    if len(listed) > _MOST_TIMES * len(asked.names) + _MOST_TIMES:
        raise ExtenderFault(
            f"the answer lists {len(listed)} nodes, and the question {len(asked.names)}"
        )


async def _read(reply: aiohttp.ClientResponse, most: int) -> bytes:
    found = bytearray()
    async for chunk in reply.content.iter_any():
        found += chunk
        if len(found) > most:
            raise ValueError(f"the answer is longer than {most} bytes")
    return bytes(found)


def _words(error: Exception) -> str:
    """As Go has them, where kube-scheduler's users look for them."""
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"dial tcp {error.host}:{error.port}: connect: connection refused"
        return f"dial tcp {error.host}:{error.port}: {error.os_error}"
    return str(error) or type(error).__name__


def _tls(plan: ExtenderPlan) -> ssl.SSLContext | bool:
    """With `enableHTTPS` and without a CA, the certificate is not checked, as in kube-scheduler."""
    tls = plan.tls
    if tls is None:
        by_url = plan.terms.name.startswith("https:")
        return ssl.create_default_context() if by_url and not plan.https else not plan.https
    context = ssl.create_default_context(cafile=tls.ca_file or None)
    if tls.insecure or (plan.https and not tls.ca_file):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls.cert_file:
        context.load_cert_chain(tls.cert_file, tls.key_file or None)
    return context


def _fields_of(text: bytes) -> _Fields:
    try:
        return {key.lower(): value for key, value in (_fields.decode(text) or {}).items()}
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ExtenderFault(f"the answer to filter cannot be read: {error}") from None


def _part(found: _Fields, key: str, kind: type[_Part]) -> _Part | None:
    raw = found.get(key)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=kind | None)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ExtenderFault(f"{key} of the answer cannot be read: {error}") from None
