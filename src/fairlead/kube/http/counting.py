"""How many requests of one kind of writers have no reply yet."""

from collections.abc import Callable, Mapping

from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import JSON, Transport


class Counted:
    """A transport that counts: requests that wait for a connection, and those under way."""

    def __init__(self, client: Transport) -> None:
        self._client = client
        self.under_way = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        timeout_s: float = 30.0,
        accept: str | None = None,
        before_send: Callable[[], None] | None = None,
    ) -> Reply:
        self.under_way += 1
        try:
            return await self._client.request(
                method,
                path,
                body=body,
                params=params,
                content_type=content_type,
                timeout_s=timeout_s,
                accept=accept,
                before_send=before_send,
            )
        finally:
            self.under_way -= 1
