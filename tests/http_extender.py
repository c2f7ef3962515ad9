"""An HTTP extender on the loopback address, in kube-scheduler's protocol, to be changed."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Asked = dict[str, Any]
Reply = tuple[int, bytes]


def said(answer: Any) -> Reply:
    return 200, json.dumps(answer).encode()


def names_of(asked: Asked) -> list[str]:
    listed = asked.get("NodeNames") or asked.get("nodenames")
    items = (asked.get("Nodes") or asked.get("nodes") or {}).get("items") or []
    return list(listed or [node["metadata"]["name"] for node in items])


def pod_of(asked: Asked) -> Any:
    return asked.get("Pod") or asked["pod"]


class HttpExtender:
    """Accepts every node and gives no points, until it is changed."""

    def __init__(self, port: int, scheme: str = "http") -> None:
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.filter: Callable[[Asked], Reply] = lambda asked: said({"NodeNames": names_of(asked)})
        self.prioritize: Callable[[Asked], Reply] = lambda _: said([])
        self.headers: dict[str, str] = {}
        #: Paths and questions, as they came.
        self.asked: list[tuple[str, Asked]] = []
        #: Answers wait for it.
        self.may_answer = threading.Event()
        self.may_answer.set()

    def refuse(self, reasons: dict[str, str], *, key: str = "FailedNodes") -> None:
        """Refuses these nodes for these reasons, and accepts the others."""

        def answer(asked: Asked) -> Reply:
            names = names_of(asked)
            left = [name for name in names if name not in reasons]
            failed = {name: text for name, text in reasons.items() if name in names}
            return said({"NodeNames": left, key: failed})

        self.filter = answer


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        extender: HttpExtender = self.server.extender  # type: ignore[attr-defined]
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        extender.asked.append((self.path, asked))
        extender.may_answer.wait()
        answer = extender.filter if self.path.endswith("/filter") else extender.prioritize
        status, body = answer(asked)
        self.send_response(status)
        for name, value in {**extender.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the caller did not wait
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def extending(tls: ssl.SSLContext | None = None) -> Iterator[HttpExtender]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes
    scheme = "https" if tls else "http"
    server.extender = extender = HttpExtender(server.server_address[1], scheme)  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield extender
    finally:
        extender.may_answer.set()
        server.shutdown()
        thread.join()
        server.server_close()
