"""Which kinds the API server serves now: CustomResourceDefinitions come and go."""

import asyncio
from collections.abc import Container, Iterable
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec
from msgspec.json import Decoder

from fairlead.kube.errors import ApiError
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport

_TIMEOUT_S = 10.0

T = TypeVar("T")


class ApiKind(Protocol):
    """A kind of object that may be served in one of several versions."""

    @property
    def group(self) -> str: ...
    @property
    def versions(self) -> tuple[str, ...]: ...
    @property
    def plural(self) -> str: ...
    @property
    def full_name(self) -> str:
        """As `kubectl get` takes it."""

    def path(self, version: str) -> str: ...


K = TypeVar("K", bound=ApiKind)


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    name: str = ""
    versions: list[_Version] | None = None


class _Groups(msgspec.Struct):
    groups: list[_Group] | None = None


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


_groups = Decoder(_Groups)
_resources = Decoder(_Resources)


async def served_versions(client: Transport, kinds: Iterable[K]) -> dict[K, str]:
    """The version in which each kind is to be read; "" if it is not served.

    Kinds of which it cannot be said just now are missing. Raises ApiError if it is all of them.
    """
    offered = await _versions_by_group(client)
    kinds = tuple(kinds)
    groups = [
        _Served(client, name, offered.get(name, ())) for name in {each.group: 0 for each in kinds}
    ]
    found: dict[K, str] = {}
    for versions in await asyncio.gather(*(group.versions(kinds) for group in groups)):
        found |= versions
    return {kind: found[kind] for kind in kinds if kind in found}


class _Served:
    """What is served of one group; each version is asked about once."""

    def __init__(self, client: Transport, group: str, offered: Container[str]) -> None:
        self._client, self._group, self._offered = client, group, offered
        self._plurals: dict[str, frozenset[str]] = {}

    async def versions(self, kinds: Iterable[K]) -> dict[K, str]:
        found = {}
        for kind in kinds:
            with suppress(ApiError):
                if kind.group == self._group:
                    found[kind] = await self._version(kind)
        return found

    async def _version(self, kind: ApiKind) -> str:
        for version in kind.versions:
            if version in self._offered and kind.plural in await self._in(version):
                return version
        return ""

    async def _in(self, version: str) -> frozenset[str]:
        if version not in self._plurals:
            self._plurals[version] = await _plurals(self._client, self._group, version)
        return self._plurals[version]


async def _versions_by_group(client: Transport) -> dict[str, frozenset[str]]:
    reply = await client.request("GET", "/apis", timeout_s=_TIMEOUT_S)
    found = _read(_groups, reply, "/apis").groups or ()
    return {group.name: frozenset(each.version for each in group.versions or ()) for group in found}


async def _plurals(client: Transport, group: str, version: str) -> frozenset[str]:
    path = f"/apis/{group}/{version}"
    reply = await client.request("GET", path, timeout_s=_TIMEOUT_S)
    if reply.status == 404:  # it went between the two questions
        return frozenset()
    return frozenset(each.name for each in _read(_resources, reply, path).resources or ())


def _read(decoder: Decoder[T], reply: Reply, path: str) -> T:
    if reply.status != 200:
        raise ApiError(f"cannot read {path}: {reply.message}")
    try:
        return decoder.decode(reply.body)
    except UNREADABLE as error:
        raise ApiError(f"cannot read {path}: {error}") from error
