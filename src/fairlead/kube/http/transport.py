"""What those who write need of `kube.http.client.Client`, and no more."""

from collections.abc import Mapping
from typing import Protocol

from fairlead.kube.http.reply import Reply

STRATEGIC_MERGE = "application/strategic-merge-patch+json"


class Transport(Protocol):
    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_s: float = 30.0,
    ) -> Reply:
        """A reply of any status. Raises Unreachable or ReplyLost when there is none."""
        ...
