"""Writes that only a leader may send."""

from collections.abc import Callable, Mapping

import structlog

from fairlead.kube.errors import Unreachable
from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import Transport

log = structlog.get_logger(__name__)

#: The annotation of a Binding that says in which epoch it was decided (the policy fairlead-epoch).
EPOCH = "fairlead.dev/epoch"
#: What the refusals of that policy have in their text.
_POLICY = b"'fairlead-epoch'"


class Fenced:
    """A transport that sends a write only if we still lead at the moment of sending.

    A request may wait for a connection or a login for seconds, so it is not enough to ask first.
    What was sent just before may still arrive late: that is for the epoch to stop.
    """

    def __init__(self, client: Transport, leads: Callable[[], bool]) -> None:
        self._client = client
        self._leads = leads
        self._has_complained = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_s: float = 30.0,
        accept: str | None = None,
        before_send: Callable[[], None] | None = None,
    ) -> Reply:
        if method != "GET":
            before_send = self._check
            self._check()  # those that would wait need not
        reply = await self._client.request(
            method,
            path,
            body=body,
            params=params,
            content_type=content_type,
            timeout_s=timeout_s,
            accept=accept,
            before_send=before_send,
        )
        if reply.status in (403, 422) and _POLICY in reply.body:
            self._complain(reply)
        return reply

    def _check(self) -> None:
        if not self._leads():
            raise Unreachable("not sent: this process is no longer the leader")

    def _complain(self, reply: Reply) -> None:
        """Once: the events of the pods show the rest."""
        if self._leads() and not self._has_complained:
            self._has_complained = True
            log.error("bind refused by the epoch policy", reason=reply.message)
