"""What a client of MPS needs in its containers: limits, and the pipe of the daemon of its GPU.

Limits and GPU are chosen with the bind, so the variables refer to annotations, and the mount to
the variable that names the GPU. Without an assignment that path is absolute, and the kubelet starts
no container: a pod that was not placed as an MPS share runs nothing.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

from fairlead.kube.admission.review import Operation
from fairlead.kube.admission.variables import CUDA, RUNTIME, Variable, from_annotation
from fairlead.kube.dialects.fairlead import MEMORY_LIMIT, THREADS

PREFIX = "CUDA_MPS_"
VOLUME = "fairlead-mps"
#: On the host one directory for each GPU; in the container the pipe of one.
DIRECTORY = "/run/fairlead/mps"

VARIABLES = (
    Variable(PREFIX + "PIPE_DIRECTORY", DIRECTORY),
    Variable(PREFIX + "ACTIVE_THREAD_PERCENTAGE", value_from=from_annotation(THREADS)),
    Variable(PREFIX + "PINNED_DEVICE_MEM_LIMIT", value_from=from_annotation(MEMORY_LIMIT)),
)
#: An ephemeral container cannot mount the pipe, and without it no limit holds: it sees no GPU.
NO_GPU = (Variable(CUDA), Variable(RUNTIME, "void"))


class _HostPath(msgspec.Struct, omit_defaults=True):
    path: str = ""
    type: str = ""


class _Named(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""


class InjectedVolume(_Named, rename="camel", omit_defaults=True):
    host_path: _HostPath | None = None


class Mount(_Named, rename="camel", omit_defaults=True):
    mount_path: str = ""
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


_VOLUME = InjectedVolume(VOLUME, _HostPath(DIRECTORY, "Directory"))
_MOUNT = Mount(VOLUME, DIRECTORY, True, sub_path_expr=f"$({CUDA})/pipe")
_encode = msgspec.json.Encoder().encode


def volume_steps(volumes: Sequence[InjectedVolume]) -> Iterator[Operation]:
    return _steps("/spec/volumes", volumes, _VOLUME)


def mount_steps(container: str, mounts: Sequence[Mount]) -> Iterator[Operation]:
    """For the container at this path. Other mounts of the volume would show other GPUs' pipes."""
    return _steps(f"{container}/volumeMounts", mounts, _MOUNT)


def _steps(
    path: str, found: Sequence[_Named], ours: _Named
) -> Iterator[Operation]:  # fmt: skip
    """The first of the name is replaced unless it is ours, the others are taken out."""
    places = [place for place, each in enumerate(found) if each.name == VOLUME]
    if places and found[places[0]] != ours:
        yield Operation("replace", f"{path}/{places[0]}", Raw(_encode(ours)))
    for place in reversed(places[1:]):
        yield Operation("remove", f"{path}/{place}")
    if not found:
        yield Operation("add", path, Raw(_encode([ours])))
    elif not places:
        yield Operation("add", f"{path}/-", Raw(_encode(ours)))
