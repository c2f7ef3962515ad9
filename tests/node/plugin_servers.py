"""Device plugins as a kubelet knows them: gRPC servers that register themselves.

What a plugin answers is its own matter: `Answer` gets the ids that the kubelet has picked for one
container, and returns the variables of that container.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import grpc

from fairleads import eventually
from protobuf import mapping, message, read, texts

FOLDER = Path("/var/lib/kubelet/device-plugins")
_SERVICE = "v1beta1.DevicePlugin"

Answer = Callable[[Sequence[str]], Mapping[str, str]]


class DevicePlugin:
    """Serves one resource while the block lasts; registers again where a kubelet starts anew."""

    def __init__(self, resource: str, devices: Sequence[str], answer: Answer) -> None:
        self.resource, self.devices = resource, list(devices)
        self.healthy = dict.fromkeys(devices, True)
        self._answer = answer
        self._socket = FOLDER / f"{resource.replace('/', '-')}.sock"
        self._changes: list[queue.SimpleQueue[None]] = []
        self._ended = threading.Event()
        self._registered = 0
        self._watcher = threading.Thread(target=self._stay_registered, daemon=True)
        #: The pods' containers that were answered with an error, by its words.
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        # Each stream to a kubelet occupies one.
        self._server = grpc.server(ThreadPoolExecutor(max_workers=16))
        self._server.add_generic_rpc_handlers((_handlers(self),))
        self._watcher.start()
        eventually(lambda: self._registered, what=f"{self.resource} is registered")
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._tell()
        self._server.stop(None).wait()
        self._watcher.join()
        self._socket.unlink(missing_ok=True)

    @property
    def watched(self) -> int:
        """How often a kubelet has asked for its devices: once after each start."""
        return len(self._changes)

    def set_health(self, device: str, healthy: bool) -> None:
        self.healthy[device] = healthy
        self._tell()

    # What a kubelet calls

    def options(self, _request: bytes, _context: grpc.ServicerContext) -> bytes:
        return b""

    def list_and_watch(self, _request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
        changes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._changes.append(changes)
        while not self._ended.is_set():
            yield message(*((1, self._device(one)) for one in self.devices))
            changes.get()

    def allocate(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        answers = []
        for each in read(request).get(1, []):
            assert isinstance(each, bytes)
            try:
                variables = self._answer(texts(read(each).get(1, [])))
            except Exception as error:
                self.errors.append(repr(error))
                context.abort(grpc.StatusCode.INTERNAL, repr(error))
            answers.append((1, message(*mapping(1, dict(variables)))))
        return message(*answers)

    def _device(self, name: str) -> bytes:
        return message((1, name), (2, "Healthy" if self.healthy[name] else "Unhealthy"))

    # Registering

    def _stay_registered(self) -> None:
        """A kubelet that starts removes all sockets here: then a plugin begins anew."""
        while not self._ended.is_set():
            if not self._socket.exists():
                with contextlib.suppress(grpc.RpcError, RuntimeError):
                    self._serve()
                    self._register()
            self._ended.wait(0.2)

    def _serve(self) -> None:
        self._server.stop(None).wait()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=16))
        self._server.add_generic_rpc_handlers((_handlers(self),))
        self._server.add_insecure_port(f"unix://{self._socket}")
        self._server.start()

    def _register(self) -> None:
        with grpc.insecure_channel(f"unix://{FOLDER / 'kubelet.sock'}") as channel:
            register = channel.unary_unary("/v1beta1.Registration/Register")
            request = message((1, "v1beta1"), (2, self._socket.name), (3, self.resource))
            try:
                register(request, timeout=5, wait_for_ready=True)
            except grpc.RpcError:
                self._socket.unlink(missing_ok=True)
                raise
        self._registered += 1

    def _tell(self) -> None:
        for changes in self._changes:
            changes.put(None)


def _handlers(plugin: DevicePlugin) -> Any:
    unary = grpc.unary_unary_rpc_method_handler
    return grpc.method_handlers_generic_handler(
        _SERVICE,
        {
            "GetDevicePluginOptions": unary(plugin.options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(plugin.list_and_watch),
            "Allocate": unary(plugin.allocate),
            "PreStartContainer": unary(plugin.options),
        },
    )
