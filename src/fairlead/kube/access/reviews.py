"""Who sent a token, and what that user may do: the API server is asked, and remembered briefly.

Each question costs the API server work, so there is a limit to how many are asked: of tokens in
all, and about the rights of each user.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from typing import Generic, TypeVar

import msgspec

from fairlead.kube.errors import ApiError
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.recent import Recent
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

#: A right that is taken away is noticed after this time, one that is given after the other.
YES_S, NO_S = 30.0, 10.0
#: Users, each of them bounded in bytes, and rights by user.
_USERS, _RIGHTS = 512, 16_384
_LARGEST_USER = 64 * 1024
_AT_ONCE = 8
#: Questions that may be asked at once, and then one in each such time.
_BURST, _EACH_S = 200, 0.05
#: The budget that all tokens share.
_ANYBODY = ""
_TIMEOUT_S = 5.0
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
S = TypeVar("S")


class NotReviewed(FairleadError):
    """The API server did not say; the text says why, and what to do."""


class TooMany(NotReviewed):
    """It was not asked, since it has been asked too much lately."""


class User(msgspec.Struct, frozen=True):
    """As the API server names a user; what it does not say is left out when it is asked."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    #: As it came: it goes back unread.
    extra: bytes = b""

    @property
    def digest(self) -> bytes:
        """The same for equal users alone, and short."""
        return hashlib.sha256(msgspec.json.encode(self)).digest()


@dataclass(frozen=True, slots=True)
class Right:
    """Of a resource of the core API group; without a namespace, of all of them."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: msgspec.Raw = msgspec.Raw()


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


@dataclass(slots=True)
class Reviews:
    """Asks as the user of `client`, who needs to create both kinds of review."""

    client: Transport
    clock: Callable[[], float] = time.monotonic
    _users: "_Briefly[bytes, User]" = field(init=False)
    _rights: "_Briefly[tuple[bytes, Right], bool]" = field(init=False)
    _asking: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    #: When the budget of each user is full again.
    _full_s: Recent[str, float] = field(default_factory=lambda: Recent(_USERS))

    def __post_init__(self) -> None:
        self._users = _Briefly(self.clock, _USERS)
        self._rights = _Briefly(self.clock, _RIGHTS)

    async def user(self, token: str) -> User | None:
        """Whose token it is; None if the API server does not accept it. Raises NotReviewed."""
        key = hashlib.sha256(token.encode()).digest()
        known = self._users.get(key)
        if known is None:
            self._spend(_ANYBODY)
            spec = {"token": token}
            status = (await self._ask(_TOKENS, "TokenReview", spec, _TokenReview)).status
            found = _user(status.user) if status.authenticated else None
            if found is not None and len(msgspec.json.encode(found)) > _LARGEST_USER:
                raise NotReviewed("the data of this user is too large")
            known = self._users.put(key, found, YES_S if found else NO_S)
        return known.value

    async def allows(self, user: User, right: Right) -> bool:
        """Whether the user has the right just now. Raises NotReviewed."""
        key = user.digest, right
        known = self._rights.get(key)
        if known is None:
            self._spend(user.username)
            spec = _spec(user, right)
            status = (await self._ask(_ACCESS, "SubjectAccessReview", spec, _AccessReview)).status
            allowed = status.allowed and not status.denied
            known = self._rights.put(key, allowed, YES_S if allowed else NO_S)
        return bool(known.value)

    async def _ask(self, path: str, kind: str, spec: Mapping[str, object], of: type[S]) -> S:
        group = path.removeprefix("/apis/").rpartition("/")[0]
        body = msgspec.json.encode({"apiVersion": group, "kind": kind, "spec": spec})
        try:
            async with self._asking:
                reply = await self.client.request("POST", path, body=body, timeout_s=_TIMEOUT_S)
            if reply.status == 201:
                return msgspec.json.decode(reply.body, type=of)
        except (ApiError, *UNREADABLE) as error:
            raise NotReviewed(
                f"the API server did not answer a {kind}: {error}; try again"
            ) from error
        raise NotReviewed(
            f"the API server refused a {kind}: {reply.message}; the scheduler needs the right to "
            f"create {path.rpartition('/')[2]}"
        )

    def _spend(self, budget: str) -> None:
        now_s = self.clock()
        full_s = max(self._full_s.get(budget) or 0.0, now_s) + _EACH_S
        if full_s - now_s > _BURST * _EACH_S:
            raise TooMany("too many access reviews at once; try again in a few seconds")
        self._full_s.put(budget, full_s)


@dataclass(frozen=True, slots=True)
class _Known(Generic[V]):
    value: V | None
    until_s: float


class _Briefly(Generic[K, V]):
    """What was answered, for a while; so many answers at most."""

    def __init__(self, clock: Callable[[], float], most: int) -> None:
        self._clock = clock
        self._known: Recent[K, _Known[V]] = Recent(most)

    def get(self, key: K) -> _Known[V] | None:
        known = self._known.get(key)
        return known if known is not None and self._clock() < known.until_s else None

    def put(self, key: K, value: V | None, for_s: float) -> _Known[V]:
        known = _Known(value, self._clock() + for_s)
        self._known.put(key, known)
        return known


def _user(info: _UserInfo) -> User:
    return User(info.username, info.uid, tuple(info.groups), bytes(info.extra))


def _spec(user: User, right: Right) -> dict[str, object]:
    asked = {
        "verb": right.verb,
        "version": "v1",
        "resource": right.resource,
        "namespace": right.namespace,
        "name": right.name,
    }
    spec: dict[str, object] = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "resourceAttributes": {key: value for key, value in asked.items() if value},
    }
    return spec | ({"extra": msgspec.Raw(user.extra)} if user.extra else {})
