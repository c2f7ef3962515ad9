"""The process that calls NVML: reads a query per line, and writes an answer per line.

    python -m fairlead.telemetry.nvml.worker pynvml
    {"what": "GPU", "args": [0]}
    {"value": {"index": 0, "uuid": "GPU-…", …}}

It may hang or be killed at any moment; `Nvml` then starts another. `pynvml` may be any module
with those function names, or `module:name` of an object with them.
"""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, BinaryIO

import msgspec

from fairlead.telemetry.nvml import compute_mode, device_facts, gpus, links, partition_steps
from fairlead.telemetry.nvml.calls import LIBRARY_NOT_FOUND, Library
from fairlead.telemetry.nvml.facts import GpuFacts, GpuSample, System, Xid
from fairlead.telemetry.nvml.samples import Sampler
from fairlead.telemetry.nvml.xids import XidWatch

#: Reads the settings of a GPU that the agent may change, and changes them.
STEPS = (
    compute_mode.compute_mode,
    compute_mode.set_compute_mode,
    partition_steps.partition,
    partition_steps.switch,
    partition_steps.make,
    partition_steps.complete,
    partition_steps.drop,
)


class NvmlQuery(msgspec.Struct):
    what: str
    args: list[Any] = []


class NvmlAnswer(msgspec.Struct, omit_defaults=True):
    value: msgspec.Raw = msgspec.Raw(b"null")
    #: NVML's number; 0: none.
    error: int = 0
    text: str = ""


class NvmlHandler:
    """Answers with plain values. The first query initialises NVML."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._ready = False
        self._sampler = Sampler(library)
        self._xids: XidWatch | None = None
        self.queries: dict[str, Callable[..., Any]] = {
            "system": self._system,
            "gpu": self._gpu,
            "paths": self._paths,
            "sample": self._sample,
            "xids": self._seen_xids,
            "device": self._device,
            **{step.__name__: partial(step, library) for step in STEPS},
        }

    def answer(self, query: NvmlQuery) -> NvmlAnswer:
        try:
            if not self._ready:
                self._library.nvmlInit()
                self._ready = True
            value = self.queries[query.what](*query.args)
        except self._library.NVMLError as error:
            return NvmlAnswer(error=int(error.value), text=str(error))
        return NvmlAnswer(msgspec.Raw(msgspec.json.encode(value)))

    def _system(self) -> System:
        return gpus.system(self._library)

    def _gpu(self, index: int) -> GpuFacts:
        return gpus.describe(self._library, index)

    def _device(self, uuid: str) -> device_facts.DeviceFacts:
        return device_facts.device(self._library, uuid)

    def _paths(self, uuids: Sequence[str]) -> links.Paths:
        return links.bus_words(self._library, uuids)

    def _sample(self, uuid: str) -> GpuSample:
        return self._sampler.sample(uuid)

    def _seen_xids(self, uuids: Sequence[str]) -> list[Xid]:
        if self._xids is None:
            self._xids = XidWatch(self._library)
        for uuid in uuids:
            self._xids.register(uuid)
        return self._xids.seen()


class Missing:
    """Stands for a library that is not installed, and says so."""

    class NVMLError(Exception):  # noqa: D106
        value = LIBRARY_NOT_FOUND

    def __init__(self, why: ImportError) -> None:
        self._why = why

    def nvmlInit(self) -> None:  # noqa: N802
        raise self.NVMLError(f"{self._why}; install fairlead[agent]")


def load(name: str) -> Library:
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        return Missing(error)
    return getattr(found, attribute) if attribute else found


def serve(handler: NvmlHandler, queries: BinaryIO, answers: BinaryIO) -> None:
    """Until the input ends."""
    decoder, encoder = msgspec.json.Decoder(NvmlQuery), msgspec.json.Encoder()
    for line in queries:
        answers.write(encoder.encode(handler.answer(decoder.decode(line))) + b"\n")
        answers.flush()


def main() -> None:
    # A library that prints something must not answer for us.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        serve(NvmlHandler(load(sys.argv[1])), sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
