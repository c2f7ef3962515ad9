"""A PodResources API that says what a test says, on a Unix socket as a kubelet serves it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def encoded(number: int, content: bytes) -> bytes:
    """One field of Protocol Buffers."""
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + length + content


def devices(resource: str, *ids: str) -> bytes:
    topology = encoded(3, encoded(1, b"\x08\x01"))
    listed = b"".join(encoded(2, one.encode()) for one in ids)
    return encoded(2, encoded(1, resource.encode()) + listed + topology)


def pod(name: str, *containers: bytes, namespace: str = "team") -> bytes:
    inside = b"".join(encoded(3, encoded(1, b"main") + one) for one in containers)
    return encoded(1, encoded(1, name.encode()) + encoded(2, namespace.encode()) + inside)


@dataclass(slots=True)
class Kubelet:
    """What it answers: the GPUs of each pod, by namespace and name."""

    socket: Path
    gpus: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    server: Any = None

    def start(self) -> None:
        import grpc

        self.server = grpc.server(ThreadPoolExecutor(max_workers=4))
        answer = grpc.unary_unary_rpc_method_handler(lambda *_: self.answer())
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": answer}),)
        )
        self.server.add_insecure_port(f"unix://{self.socket}")
        self.server.start()

    def stop(self) -> None:
        if self.server:
            self.server.stop(None).wait()
        self.server = None
        self.socket.unlink(missing_ok=True)

    def answer(self) -> bytes:
        return b"".join(
            pod(name, devices("nvidia.com/gpu", *ids), namespace=namespace)
            for (namespace, name), ids in list(self.gpus.items())
        )


@contextmanager
def kubelet(*, started: bool = True) -> Iterator[Kubelet]:
    # The path of a socket has at most 107 characters: a folder of pytest's can be too deep.
    with TemporaryDirectory(prefix="kubelet-") as folder:
        found = Kubelet(Path(folder) / "kubelet.sock")
        if started:
            found.start()
        try:
            yield found
        finally:
            found.stop()
