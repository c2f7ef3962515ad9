"""How many requests of some writers have no reply yet."""

from typing import Any

from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import Transport


class Counted:
    """A transport that counts: requests that wait for a connection, and those under way."""

    def __init__(self, client: Transport) -> None:
        self._client = client
        self.under_way = 0

    async def request(self, method: str, path: str, **options: Any) -> Reply:
        self.under_way += 1
        try:
            return await self._client.request(method, path, **options)
        finally:
            self.under_way -= 1
