"""Which kinds the API server serves now: CustomResourceDefinitions come and go."""

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
    groups = await _versions_by_group(client)
    found = {}
    for kind in kinds:
        offered = groups.get(kind.group, frozenset())
        with suppress(ApiError):
            found[kind] = await _served_version(client, kind, offered)
    return found


async def _served_version(client: Transport, kind: ApiKind, offered: Container[str]) -> str:
    for version in kind.versions:
        if version in offered and await _serves(client, kind, version):
            return version
    return ""


async def _versions_by_group(client: Transport) -> dict[str, frozenset[str]]:
    reply = await client.request("GET", "/apis", timeout_s=_TIMEOUT_S)
    found = _read(_groups, reply, "/apis").groups or ()
    return {group.name: frozenset(each.version for each in group.versions or ()) for group in found}


async def _serves(client: Transport, kind: ApiKind, version: str) -> bool:
    path = f"/apis/{kind.group}/{version}"
    reply = await client.request("GET", path, timeout_s=_TIMEOUT_S)
    if reply.status == 404:  # it went between the two questions
        return False
    return any(each.name == kind.plural for each in _read(_resources, reply, path).resources or ())


def _read(decoder: Decoder[T], reply: Reply, path: str) -> T:
    if reply.status != 200:
        raise ApiError(f"cannot read {path}: {reply.message}")
    try:
        return decoder.decode(reply.body)
    except UNREADABLE as error:
        raise ApiError(f"cannot read {path}: {error}") from error
