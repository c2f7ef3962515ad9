"""An exporter on the loopback address, as nodes have one: what it serves can be changed."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Gpus = Mapping[str, Mapping[int, float]]


class Exporter:
    """Serves `text` with `headers` and `status` to everybody, and remembers who asked for what."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/metrics"
        self.port = port
        self.text = b""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.asked: list[str] = []
        self.authorised: list[str] = []
        #: What a POST of a body gets.
        self.answer: Callable[[bytes], tuple[int, bytes]] = lambda _: (404, b"")
        #: Answers wait for it.
        self.may_answer = threading.Event()
        self.may_answer.set()

    def show(self, gpus: Gpus, age_s: float | None = None) -> None:
        """With an age, the text says when it was measured."""
        stamp = "" if age_s is None else f" {round((time.time() - age_s) * 1000)}"
        self.text = dcgm_text(gpus, stamp)


def dcgm_text(gpus: Gpus, stamp: str = "") -> bytes:
    """`{"gpu-a": {0: 97}}`: on gpu-a, GPU 0 is busy 97 % of the time, as dcgm-exporter says it."""
    lines = [
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).",
        "# TYPE DCGM_FI_DEV_GPU_UTIL gauge",
    ]
    lines += [
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{index}",UUID="GPU-{node}-{index}",device="nvidia{index}",'
        f'modelName="NVIDIA H100 80GB HBM3",Hostname="{node}"}} {busy}{stamp}'
        for node, its in gpus.items()
        for index, busy in its.items()
    ]
    return "\n".join([*lines, ""]).encode()


@contextmanager
def exporting() -> Iterator[Exporter]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.exporter = exporter = Exporter(server.server_address[1])  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield exporter
    finally:
        exporter.may_answer.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        exporter: Exporter = self.server.exporter
        body = self.rfile.read(int(self.headers["Content-Length"]))
        exporter.status, exporter.text = exporter.answer(body)
        self.do_GET()

    def do_GET(self) -> None:
        exporter: Exporter = self.server.exporter
        exporter.asked.append(self.path)
        exporter.authorised.append(self.headers.get("Authorization", ""))
        exporter.may_answer.wait(60)
        try:
            self.send_response(exporter.status)
            self.send_header("Content-Length", str(len(exporter.text)))
            for name, value in exporter.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(exporter.text)
        except OSError:
            return  # who asked has hung up

    def log_message(self, *_: Any) -> None:
        pass
