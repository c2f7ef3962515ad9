"""The GPUs of a machine: those that are there, and those that should be.

A GPU is known by its uuid. One that was there and is not any more stays listed, with what is wrong
with it. One about which NVML hangs is left alone for a while, so that the others are heard.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TypeVar

from msgspec.structs import replace

from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.nvml import xids
from fairlead.telemetry.nvml.calls import LOST, RESET_REQUIRED
from fairlead.telemetry.nvml.facts import GpuFacts, GpuSample, System, Xid
from fairlead.telemetry.nvml.links import Paths
from fairlead.telemetry.nvml.process import Nvml, NvmlError, NvmlUnavailable

T = TypeVar("T")

#: A GPU about which NVML hung is asked about again after this.
SILENCE_S = 60.0
#: The index of a GPU that has none at the moment.
GONE = -1
_LOST = "lost: the driver no longer sees it; check the machine's kernel log"
_WORDS = {LOST: _LOST, RESET_REQUIRED: "the driver requires a reset of the GPU"}


@dataclass(frozen=True, slots=True)
class GpuSurvey:
    """Every GPU that was ever seen, in the order of their indices, with its trouble."""

    system: System
    gpus: tuple[GpuFacts, ...] = ()
    #: How they meet without NVLink.
    paths: Paths = field(default_factory=dict)


class Surveyor:
    """Asks about each GPU on its own, so that one that is lost or hangs spoils no other."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float]) -> None:
        self._nvml = nvml
        self._clock = clock
        self._known: dict[str, GpuFacts] = {}
        self._paths: Paths = {}
        self._paths_asked: frozenset[str] = frozenset()
        #: Until when a GPU is left alone, by index.
        self._silent: dict[int, float] = {}
        #: What Xids say is wrong, by uuid.
        self._sick: dict[str, str] = {}

    async def survey(self) -> GpuSurvey:
        """Raises NvmlError or NvmlUnavailable if nothing can be read about any GPU."""
        try:
            system = await self._nvml.ask(System, "system")
        except NvmlError:
            self._sick.clear()  # the driver was restarted, and with it every GPU
            raise
        found: dict[str, GpuFacts] = {}
        troubles: dict[int, str] = {}
        for index in range(system.count):
            try:
                gpu = await self._ask_about(index, GpuFacts, "gpu", index)
            except (NvmlError, NvmlUnavailable) as error:
                troubles[index] = _words(error)
            else:
                found[gpu.uuid] = gpu
        await self._note_paths(found)
        return GpuSurvey(system, self._merged(found, troubles), self._paths)

    async def sample(self) -> tuple[dict[str, GpuSample], dict[str, str]]:
        """The GPUs that answer, and what is wrong with the others."""
        samples: dict[str, GpuSample] = {}
        troubles: dict[str, str] = {}
        for gpu in self._present():
            try:
                sample = await self._ask_about(gpu.index, GpuSample, "sample", gpu.uuid)
            except (NvmlError, NvmlUnavailable) as error:
                troubles[gpu.uuid] = _words(error)
            else:
                samples[gpu.uuid] = sample
        return samples, troubles

    async def xids(self) -> list[Xid]:
        """What the driver reported since the last time; sick GPUs are remembered."""
        well = [gpu.uuid for gpu in self._present() if gpu.index not in self._silent]
        seen = await self._nvml.ask(list[Xid], "xids", well)
        for xid in seen:
            if trouble := xids.words(xid.number):
                self._sick[xid.uuid] = trouble
        return seen

    def _present(self) -> list[GpuFacts]:
        return [gpu for gpu in self._known.values() if gpu.index != GONE]

    async def _ask_about(self, index: int, kind: type[T], what: str, argument: int | str) -> T:
        if self._clock() < self._silent.get(index, 0.0):
            raise NvmlUnavailable("NVML does not answer")
        try:
            answer = await self._nvml.ask(kind, what, argument)
        except NvmlUnavailable:
            self._silent[index] = self._clock() + SILENCE_S
            raise
        self._silent.pop(index, None)
        return answer

    async def _note_paths(self, found: Mapping[str, GpuFacts]) -> None:
        """GPUs do not move: asked once for each set of them, whatever comes of it."""
        if frozenset(found) <= self._paths_asked:
            return
        self._paths_asked = frozenset(found)
        told = await self._nvml.ask(Paths, "paths", list(found))
        for uuid, row in told.items():
            self._paths.setdefault(uuid, {}).update(row)

    def _merged(
        self, found: Mapping[str, GpuFacts], troubles: Mapping[int, str]
    ) -> tuple[GpuFacts, ...]:
        for uuid, gpu in found.items():
            self._take_up(gpu, self._known.get(uuid))
        listed = (*self._listed(found), *self._missing(found, troubles))
        return tuple(sorted(listed, key=lambda gpu: (gpu.index == GONE, gpu.index, gpu.uuid)))

    def _take_up(self, gpu: GpuFacts, before: GpuFacts | None) -> None:
        """A GPU that came back was reset; so was one without a requested action."""
        if before is not None and (before.index == GONE or (before.trouble and not gpu.trouble)):
            self._sick.pop(gpu.uuid, None)
        self._known[gpu.uuid] = gpu

    def _listed(self, found: Mapping[str, GpuFacts]) -> Iterator[GpuFacts]:
        for uuid, gpu in found.items():
            yield replace(gpu, trouble=gpu.trouble or self._sick.get(uuid, ""))

    def _missing(
        self, found: Mapping[str, GpuFacts], troubles: Mapping[int, str]
    ) -> Iterator[GpuFacts]:
        """One that answers with an error keeps its index; else another may have it now."""
        for uuid, gpu in self._known.items():
            if uuid not in found:
                index = gpu.index if gpu.index in troubles else GONE
                self._known[uuid] = replace(gpu, index=index)
                yield replace(gpu, index=index, trouble=troubles.get(index, _LOST))


def _words(error: NvmlError | NvmlUnavailable) -> str:
    """What is wrong with one GPU; raised again where it is about all of them."""
    if isinstance(error, NvmlUnavailable):
        return "NVML does not answer for it; check the machine's kernel log"
    if error.of_the_driver:
        raise error
    return _WORDS.get(error.code, str(error))
