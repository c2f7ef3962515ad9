"""Lists in pages: the fallback where a server does not stream its lists, and the cross-check."""

from collections.abc import AsyncIterator, Mapping

from fairlead.kube.errors import ReplyLost
from fairlead.kube.http.client import LONGEST_BODY, Client
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.mirror.wire import ObjectIdentity, Page, StatusError, read_identity, read_page

#: Metadata is all a cross-check needs; a server that cannot cut it out sends whole objects.
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_TIMEOUT_S = 60.0
#: For the list in one piece, which is asked for only when pages expire faster than they come.
_LONGEST_WHOLE = 2**30


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

    Raises Refusal, also 410 when the rest of a list has expired: start over then, without what
    came so far. `page_size` 0 asks for all in one piece, which cannot expire.
    """
    params = dict(selectors)
    if since:
        params |= {"resourceVersion": since, "resourceVersionMatch": "NotOlderThan"}
    if page_size:
        params["limit"] = str(page_size)
    while True:
        page = await _page(client, path, params, accept, whole=not page_size)
        yield page
        if not page.metadata.continue_:
            return
        # A continued list is at the revision of its first page, so it must name no other.
        params = {
            **selectors,
            "limit": str(page_size),
            "continue": page.metadata.continue_,
        }


async def identities(
    client: Client, path: str, selectors: Mapping[str, str], *, page_size: int = 500
) -> tuple[str, dict[str, ObjectIdentity]]:
    """The newest revision, and which objects there are in it."""
    version, found = "", dict[str, ObjectIdentity]()
    async for page in pages(client, path, selectors, page_size=page_size, accept=_METADATA_ONLY):
        version = page.metadata.resource_version
        try:
            named = (read_identity(raw) for raw in page.items or ())
            found |= {identity.key: identity for identity in named}
        except UNREADABLE as error:
            raise ReplyLost(f"a list of {path} has an item without a name: {error}") from error
    return version, found


async def newest_version(client: Client, path: str, selectors: Mapping[str, str]) -> str:
    """The revision that the server is at, for the price of one object."""
    params = {**selectors, "limit": "1"}
    page = await _page(client, path, params, _METADATA_ONLY, whole=False)
    return page.metadata.resource_version


async def _page(
    client: Client, path: str, params: Mapping[str, str], accept: str | None, *, whole: bool
) -> Page:
    reply = await client.request(
        "GET",
        path,
        params=params,
        accept=accept,
        timeout_s=_TIMEOUT_S,
        max_body=_LONGEST_WHOLE if whole else LONGEST_BODY,
    )
    if reply.status != 200:
        raise StatusError.of(reply)
    try:
        return read_page(reply.body)
    except UNREADABLE as error:
        raise ReplyLost(f"the reply to a list of {path} is not a list: {error}") from error
