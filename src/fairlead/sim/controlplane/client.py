"""A small synchronous client for the real API server: one kept-alive, verified connection."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeAlias

from fairlead.sim.controlplane.certificates import KeyPair
from fairlead.sim.controlplane.process import ControlPlaneError

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

Answer: TypeAlias = tuple[int, dict[str, Any]]


def trusting(authority: Path, identity: KeyPair | None = None) -> ssl.SSLContext:
    """TLS that believes only this authority and, if asked, shows a client certificate."""
    context = ssl.create_default_context(cafile=str(authority))
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context


class SyncClient:
    """Requests to one port on the loopback address. Threads may share it; they take turns."""

    def __init__(
        self, port: int, tls: ssl.SSLContext, *, token: str | None = None, timeout_s: float = 30.0
    ) -> None:
        self._proof = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=timeout_s, context=tls
        )
        self._turn = threading.Lock()

    def api(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """The status and the JSON object of the answer; no status is an error here."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        status, text = self._exchange(
            method, path, data, {"Content-Type": content_type, "Accept": accept}
        )
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            message = f"{method} {path} answered {status} with no JSON object: {text[:200]!r}"
            raise ControlPlaneError(f"{message}; read such a path with text().")
        return status, answer

    def text(self, path: str) -> str:
        """The body of a GET such as /metrics; any status but 200 is an error."""
        status, text = self._exchange("GET", path, None, {})
        if status != 200:
            raise ControlPlaneError(f"GET {path} answered {status}: {text[:200]!r}")
        return text.decode()

    def lines(self, path: str) -> Iterator[str]:
        """The lines of a watch, as they come; the connection is closed when the caller stops."""
        with self._turn:
            try:
                self._connection.request("GET", path, headers=self._proof)
                response = self._connection.getresponse()
                if response.status != 200:
                    raise ControlPlaneError(f"GET {path} answered {response.status}")
                for line in response:
                    yield line.decode()
            finally:
                self._connection.close()

    def close(self) -> None:
        with self._turn:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        with self._turn:
            reused = self._connection.sock is not None
            try:
                return self._once(method, path, data, headers)
            except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
                # The server may have closed or restarted since the last request on this connection.
                if not reused:
                    raise
                return self._once(method, path, data, headers)

    def _once(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        try:
            self._connection.request(method, path, body=data, headers={**headers, **self._proof})
            response = self._connection.getresponse()
            return response.status, response.read()
        except BaseException:
            self._connection.close()  # half an answer may be in it
            raise
