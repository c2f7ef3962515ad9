"""The agent's list of what it made: a file, so that after a crash it knows its own again.

An entry is written before the instance is made and taken out after it is destroyed. So an instance
that we made is always in the list, and one that is not in it is somebody else's.
"""

import os
from pathlib import Path
from typing import Protocol

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.telemetry.nvml.partitions import Made

FILE = "partitions.json"


class CardState(msgspec.Struct, frozen=True, omit_defaults=True):
    made: frozenset[Made] = frozenset()
    #: We switched MIG on.
    switched: bool = False


#: By the card's uuid.
State = dict[str, CardState]
_decode = msgspec.json.Decoder(State).decode


class Store(Protocol):
    def read(self) -> State: ...

    def write(self, state: State) -> None:
        """It is there for good when this returns, and never half."""
        ...


class StateFile:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def read(self) -> State:
        """Nothing where there is no file yet."""
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as error:
            raise FairleadError(
                f"{self._path} cannot be read: {error}; it lists the MIG slices that the agent "
                "created. Repair it, or delete it: the agent then no longer manages these slices"
            ) from error

    def write(self, state: State) -> None:
        kept = {uuid: card for uuid, card in sorted(state.items()) if card != CardState()}
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
    """A new name lasts only when its folder does."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
