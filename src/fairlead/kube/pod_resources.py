"""The kubelet's PodResources API: which devices of a device plugin each pod of the node has.

A device plugin chooses GPUs itself, and no object of the API server names them. The kubelet does,
on a Unix socket of its node. grpcio comes with `fairlead[agent]`, so it is imported where it is
used. Of Protocol Buffers only what this answer needs is read here.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from fairlead.model.errors import FairleadError

_LIST = "/v1.PodResourcesLister/List"
_TIMEOUT_S = 5.0
#: Of NVIDIA's plugin: whole GPUs, and slices under their own names.
_VENDOR = b"nvidia.com/"
#: Plugins that share GPUs by time name them like `GPU-1a2b::3`.
_REPLICA = "::"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}

#: The device ids by namespace and name of the pod.
PickedDevices = Mapping[tuple[str, str], frozenset[str]]


class PodResourcesError(FairleadError):
    """The kubelet did not answer; the message says why."""


async def picked_devices(socket: Path) -> PickedDevices:
    """The GPUs that device plugins chose, of all pods of the node that have any."""
    import grpc

    async with grpc.aio.insecure_channel(f"unix://{socket}") as channel:
        try:
            answer: bytes = await channel.unary_unary(_LIST)(b"", timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            raise PodResourcesError(f"{socket}: {error.code().name}: {error.details()}") from error
    return read_devices(answer)


def read_devices(answer: bytes) -> PickedDevices:
    """A ListPodResourcesResponse.

    A pod that ends and its successor may have the same name. Which of them has the devices is not
    said, so neither is named.
    """
    found: dict[tuple[str, str], list[frozenset[str]]] = defaultdict(list)
    try:
        for pod in _messages(answer, 1):
            devices = (device for container in _messages(pod, 3) for device in _gpus(container))
            found[_text(pod, 2), _text(pod, 1)].append(frozenset(devices))
    except (IndexError, ValueError) as error:
        raise PodResourcesError(f"the kubelet's answer cannot be read: {error}") from error
    return {pod: said[0] for pod, said in found.items() if len(said) == 1 and said[0]}


def _gpus(container: bytes) -> Iterator[str]:
    for devices in _messages(container, 2):
        if any(name.startswith(_VENDOR) for name in _messages(devices, 1)):
            for device in _messages(devices, 2):
                yield device.decode().partition(_REPLICA)[0]


def _text(message: bytes, number: int) -> str:
    return b"".join(_messages(message, number)).decode()


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    """The texts and messages of one field."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
            continue
        size = _SIZES.get(kind)
        if size is None:
            if kind != _BYTES:
                raise ValueError(f"a field of kind {kind}")
            size, at = _varint(message, at)
        if at + size > len(message):
            raise ValueError("it ends too soon")
        if kind == _BYTES and tag >> 3 == wanted:
            yield message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")
