"""Who may see what on our port: callers show a token, and see what they may list themselves.

AllowAll      a port on this machine alone, where callers are not checked
TokenAuth     the API server says who the caller is (TokenReview) and what the user may list and get
              (SubjectAccessReview)
DenyAll       an open port where callers are not checked: nothing that names a pod
"""

import asyncio
import ipaddress
from collections.abc import Collection
from typing import Protocol

from aiohttp import web

from fairlead.apps.serving.http_limits import HttpRefusal
from fairlead.kube.access.reviews import NotReviewed, Reviews, Right, TooMany, User

#: Namespaces that one question is answered for; who may list pods everywhere sees all.
MOST_NAMESPACES = 100

HOW = (
    "run `kubectl -n fairlead-system port-forward deploy/fairlead 8080`, and use "
    "http://127.0.0.1:8080"
)


class CallerRights(Protocol):
    """What one caller may see. Each raises Refusal if that cannot be found out."""

    @property
    def caller(self) -> str:
        """Who it is; empty where that is not asked."""

    async def namespaces(self, names: Collection[str]) -> frozenset[str]:
        """Those whose pods the caller may list; of many, not all may be looked at."""

    async def pod(self, namespace: str, name: str) -> bool: ...
    async def pods_everywhere(self) -> bool: ...
    async def nodes(self) -> bool: ...


class Authorizer(Protocol):
    async def rights(self, request: web.Request) -> CallerRights:
        """Raises Refusal if the caller may see nothing."""


class AllowAll:
    """For every program of this machine. It is its own `CallerRights`."""

    caller = ""

    async def rights(self, request: web.Request) -> CallerRights:
        """Not for a web page whose own name was made to lead here."""
        if not is_loopback(request.url.host or ""):
            raise HttpRefusal(403, "open", "use 127.0.0.1 or localhost")
        return self

    async def namespaces(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(names)

    async def pod(self, _namespace: str, _name: str) -> bool:
        return True

    async def pods_everywhere(self) -> bool:
        return True

    async def nodes(self) -> bool:
        return True


class DenyAll:
    async def rights(self, _: web.Request) -> CallerRights:
        raise HttpRefusal(
            403, "closed",
            "this port is open to others and callers are not checked, so it names no pods; "
            "start the scheduler without --no-authenticate",
        )  # fmt: skip


class TokenAuth:
    """Takes a bearer token, over TLS or from this machine: elsewhere it would be read by others."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    async def rights(self, request: web.Request) -> CallerRights:
        if not (_is_secure(request) or is_loopback(request.remote or "")):
            raise HttpRefusal(403, "open", f"a token must not be sent in clear text; {HOW}")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise HttpRefusal(401, "anonymous", "send a bearer token of a user of this cluster")
        try:
            user = await self._reviews.user(token.strip())
        except NotReviewed as error:
            raise _unchecked(error) from error
        if user is None:
            raise HttpRefusal(
                401, "unknown", "the API server does not accept this token; log in again"
            )
        return _UserRights(self._reviews, user)


class _UserRights:
    """What one user may see."""

    def __init__(self, reviews: Reviews, user: User) -> None:
        self._reviews = reviews
        self._user = user
        self.caller = user.username

    async def namespaces(self, names: Collection[str]) -> frozenset[str]:
        if await self.pods_everywhere():
            return frozenset(names)
        asked = sorted(names)[:MOST_NAMESPACES]
        rights = (self._may(Right("list", "pods", namespace)) for namespace in asked)
        may = await asyncio.gather(*rights)
        return frozenset(name for name, allowed in zip(asked, may, strict=True) if allowed)

    async def pod(self, namespace: str, name: str) -> bool:
        return await self._may(Right("get", "pods", namespace, name))

    async def pods_everywhere(self) -> bool:
        return await self._may(Right("list", "pods"))

    async def nodes(self) -> bool:
        return await self._may(Right("list", "nodes"))

    async def _may(self, right: Right) -> bool:
        try:
            return await self._reviews.allows(self._user, right)
        except NotReviewed as error:
            raise _unchecked(error) from error


def access(address: str, authenticate: bool | None, reviews: Reviews) -> Authorizer:
    """Callers are checked where the port is open to others, unless the user says otherwise."""
    alone = is_loopback(address)
    if authenticate is None:
        authenticate = not alone
    if authenticate:
        return TokenAuth(reviews)
    return AllowAll() if alone else DenyAll()


def is_loopback(address: str) -> bool:
    """Whether only programs of this machine are there.

    >>> [is_loopback(address) for address in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "")]
    [True, True, True, False, False]
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address == "localhost"
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def _is_secure(request: web.Request) -> bool:
    return request.transport is not None and bool(request.transport.get_extra_info("sslcontext"))


def _unchecked(error: NotReviewed) -> HttpRefusal:
    return HttpRefusal(429 if isinstance(error, TooMany) else 503, "unchecked", str(error))
