"""Lists in pages: the fallback where a server does not stream its lists, and the cross-check.

Every list comes to an end, whatever the server sends: its pages, bytes and seconds are limited.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import NoReturn

from fairlead.kube.errors import ReplyLost, ReplyTooLong
from fairlead.kube.http.client import LONGEST_BODY, Client
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.mirror.breath import Breath
from fairlead.kube.mirror.wire import ObjectIdentity, Page, StatusError, read_identity, read_page

#: Metadata is all a cross-check needs; a server that cannot cut it out sends whole objects.
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_TIMEOUT_S = 60.0
#: All pages together, the list in one piece, or a streamed list: far more than a large cluster has.
LONGEST_LIST = 2**30
LONGEST_LIST_S = 300.0
#: Of 500 objects, or of one where a server has it so.
_MOST_PAGES = 10_000


class EndlessList(ReplyLost):
    """Pages that do not end, or that are not parts of one list."""


async def pages(
    client: Client,
    path: str,
    selectors: Mapping[str, str],
    *,
    since: str = "",
    page_size: int = 500,
    accept: str | None = None,
) -> AsyncIterator[Page]:
    """All objects as of one revision, not older than `since`; `""` asks for the newest.

    Raises StatusError, also 410 when the rest of a list has expired, and EndlessList: start over
    then, without what came so far. `page_size` 0 asks for all in one piece, which cannot expire.
    A page that is too long is asked for again with half as many objects; ReplyTooLong if one object
    is too long.
    """
    params = dict(selectors)
    if since:
        params |= {"resourceVersion": since, "resourceVersionMatch": "NotOlderThan"}
    far, size = _Progress(path), page_size
    while True:
        reply, size = await _get_page(client, path, params, accept, size)
        page = _read(path, reply)
        far.note(page, len(reply.body))
        yield page
        if not page.metadata.continue_:
            return
        # A continued list is at the revision of its first page, so it must name no other.
        params = {**selectors, "continue": page.metadata.continue_}
        if size < page_size and len(reply.body) < LONGEST_BODY // 4:
            size = min(2 * size, page_size)  # large objects are often next to each other


async def identities(
    client: Client, path: str, selectors: Mapping[str, str], *, page_size: int = 500
) -> tuple[str, dict[str, ObjectIdentity]]:
    """The newest revision, and which objects there are in it."""
    version, found, breath = "", dict[str, ObjectIdentity](), Breath()
    async for page in pages(client, path, selectors, page_size=page_size, accept=_METADATA_ONLY):
        version = page.metadata.resource_version
        for raw in page.items or ():
            identity = _identity(path, raw)
            found[identity.key] = identity
            if breath.is_due(len(raw)):
                await asyncio.sleep(0)
    return version, found


def _identity(path: str, raw: bytes) -> ObjectIdentity:
    try:
        return read_identity(raw)
    except UNREADABLE as error:
        raise ReplyLost(f"a list of {path} has an item without a name: {error}") from error


async def newest_version(client: Client, path: str, selectors: Mapping[str, str]) -> str:
    """The revision that the server is at, for the price of one object."""
    reply = await _get(client, path, selectors, _METADATA_ONLY, 1)
    return _read(path, reply).metadata.resource_version


class _Progress:
    """How far a list in pages has come. Raises EndlessList where it comes to no end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._clock = asyncio.get_running_loop().time
        self._until_s = self._clock() + LONGEST_LIST_S
        self._bytes = 0
        self._revision: str | None = None
        self._tokens = set[str]()

    def note(self, page: Page, length: int) -> None:
        listed, count = page.metadata, len(self._tokens) + 1
        self._bytes += length
        if self._revision is None:
            self._revision = listed.resource_version
        if listed.resource_version != self._revision:
            self._give_up(f"revision {listed.resource_version} follows {self._revision}")
        if not listed.continue_:
            return
        if listed.continue_ in self._tokens:
            self._give_up(f"page {count} names a page that came before as the next")
        if count >= _MOST_PAGES or self._bytes > LONGEST_LIST or self._clock() > self._until_s:
            self._give_up(f"there is no end after {count} pages with {self._bytes} bytes")
        self._tokens.add(listed.continue_)

    def _give_up(self, why: str) -> NoReturn:
        raise EndlessList(f"the pages of {self._path} are no list: {why}")


async def _get_page(
    client: Client, path: str, params: Mapping[str, str], accept: str | None, size: int
) -> tuple[Reply, int]:
    """A page of at most `size` objects, 0: of all; and of how many it is in the end."""
    while True:
        try:
            return await _get(client, path, params, accept, size), size
        except ReplyTooLong:
            if size <= 1:
                raise
            size //= 2


async def _get(
    client: Client, path: str, params: Mapping[str, str], accept: str | None, size: int
) -> Reply:
    reply = await client.request(
        "GET",
        path,
        params={**params, "limit": str(size)} if size else params,
        accept=accept,
        timeout_s=_TIMEOUT_S,
        max_body=LONGEST_BODY if size else LONGEST_LIST,
    )
    if reply.status != 200:
        raise StatusError.of(reply)
    return reply


def _read(path: str, reply: Reply) -> Page:
    try:
        return read_page(reply.body)
    except UNREADABLE as error:
        raise ReplyLost(f"the reply to a list of {path} is not a list: {error}") from error
