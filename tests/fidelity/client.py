"""A plain HTTP client that speaks to either server by its kubeconfig."""

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from yaml_texts import yaml_of

IDLE_S = 0.25


class Connection:
    """One server; every answer comes back as (code, body, warnings)."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml_of(kubeconfig)
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self._address = urlsplit(cluster["server"])
        self._context = _trust(cluster, user)
        token = user.get("token")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = self.open()

    def close(self) -> None:
        self._connection.close()

    def open(self, timeout_s: float = 30) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._address.hostname, self._address.port, context=self._context, timeout=timeout_s
        )

    def request(self, method, path, body=None, content_type="application/json", accept=None):
        headers = {**self._headers, "Accept": accept or "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        for attempt in (1, 2):
            try:
                self._connection.request(method, path, _encoded(body), headers)
                answer = self._connection.getresponse()
                break
            except (http.client.HTTPException, ConnectionError):
                self._connection.close()
                if attempt == 2:
                    raise
        text = answer.read()
        return answer.status, _decoded(text), answer.headers.get_all("Warning") or []

    def watch(self, path: str, accept: str | None = None) -> "WatchReader":
        return WatchReader(self, path, {**self._headers, "Accept": accept or "application/json"})


class WatchReader:
    """Collects the events of one watch in the background."""

    def __init__(self, owner: Connection, path: str, headers: dict[str, str]) -> None:
        self.events: list[dict] = []
        self._connection = owner.open()
        self._connection.request("GET", path, headers=headers)
        self.answer = self._connection.getresponse()
        self.code = self.answer.status
        self._last = time.monotonic()
        self.error = _decoded(self.answer.read()) if self.code != 200 else None
        self._thread = threading.Thread(target=self._read, daemon=True)
        if self.code == 200:
            self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while line := self.answer.readline():
                self.events.append(json.loads(line))
                self._last = time.monotonic()

    def finish(self, at_least: int = 0) -> list[dict]:
        """Events so far, once at least so many have come and the stream has gone quiet."""
        deadline = time.monotonic() + 60
        while self.code == 200 and time.monotonic() < deadline:
            quiet = time.monotonic() - self._last > IDLE_S
            if quiet and len(self.events) >= at_least:
                break
            if not self._thread.is_alive():
                break
            time.sleep(0.02)
        events = list(self.events)
        if self._connection.sock:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(2)
        if self.code == 200:
            self._thread.join(2)
        self.answer.close()
        self._connection.close()
        return events


def _encoded(body):
    if body is None or isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _decoded(text: bytes):
    try:
        return json.loads(text)
    except ValueError:
        return text.decode(errors="replace")


def _trust(cluster: dict, user: dict) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"),
        cadata=_inline(cluster, "certificate-authority-data"),
    )
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    elif "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(_inline(user, "client-key-data") + _inline(user, "client-certificate-data"))
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _inline(section: dict, name: str) -> str | None:
    return base64.b64decode(section[name]).decode() if name in section else None
