"""What those who write need of `kube.http.client.Client`, and no more."""

from collections.abc import Callable, Mapping
from typing import Protocol

from fairlead.kube.http.reply import Reply

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"


class Transport(Protocol):
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
        """A reply of any status. Raises Unreachable or ReplyLost when there is none.

        `before_send` is called just before the request goes out, each time that it does, when
        there is a connection for it. What it raises is raised, and then nothing was sent.
        """
        ...
