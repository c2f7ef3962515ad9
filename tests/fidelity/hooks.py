"""A webhook on loopback, for both servers."""

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from fairlead.sim.apiserver.certificates import make_certificate

HOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"


class Hook(HTTPServer):
    """A webhook on loopback that answers what a test tells it to."""

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), _Handler)
        certificate = make_certificate()
        self.authority = base64.b64encode(certificate.authority).decode()
        context: ssl.SSLContext = certificate.context()
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.requests: list[dict] = []
        self.answer = lambda request: {"allowed": True}
        self.code = 200

    @property
    def url(self):
        return f"https://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(review)
        response = {"uid": review["request"]["uid"], **self.server.answer(review["request"])}
        body = json.dumps({**review, "response": response}).encode()
        self.send_response(self.server.code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[Hook]:
    server = Hook(folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def configure(server, hook, kind="mutating", name="hook", **more):
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
    }
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": hook.url, "caBundle": hook.authority},
        "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"], **more,
    }  # fmt: skip
    body = {"metadata": {"name": name}, "webhooks": [webhook]}
    code, answer, warnings = server.request("POST", HOOKS.format(kind), body)
    assert code == 201, answer
    return warnings
