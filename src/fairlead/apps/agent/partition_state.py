"""The GPU instances that the agent created, in a file that survives a crash of the agent.

An entry is written before the instance is created and removed after it is destroyed. An instance
that is not in the file was therefore not created by the agent.
"""

import os
from pathlib import Path
from typing import Protocol

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.telemetry.nvml.partitions import CreatedInstance

FILE = "partitions.json"


class GpuState(msgspec.Struct, frozen=True, omit_defaults=True):
    #: The file calls it `made`, as earlier versions did.
    created: frozenset[CreatedInstance] = msgspec.field(default=frozenset(), name="made")
    #: The agent enabled MIG.
    switched: bool = False


#: By the GPU's uuid.
PartitionState = dict[str, GpuState]
_decode = msgspec.json.Decoder(PartitionState).decode


class PartitionStore(Protocol):
    def read(self) -> PartitionState: ...

    def write(self, state: PartitionState) -> None:
        """Returns when the state is on disk. A crash leaves the old state or the new one."""
        ...


class PartitionStateFile:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def read(self) -> PartitionState:
        """Empty if there is no file yet."""
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            raise FairleadError(
                f"{self._path} cannot be read: {error}; it lists the MIG slices that the agent "
                "created. Repair it, or delete it: the agent then no longer manages these slices"
            ) from error

    def write(self, state: PartitionState) -> None:
        kept = {uuid: gpu for uuid, gpu in sorted(state.items()) if gpu != GpuState()}
        beside = self._path.with_suffix(".new")
        try:
            with beside.open("wb") as file:
                file.write(msgspec.json.encode(kept))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            _sync(self._path.parent)
        except OSError as error:
            raise FairleadError(
                f"{self._path} cannot be written: {error}; give the agent a "
                "persistent directory (--state)"
            ) from error


def _sync(folder: Path) -> None:
    """A rename survives a crash only after its folder is synced."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
