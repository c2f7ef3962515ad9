"""The cards of a machine: those that are there, and those that should be.

A card is known by its uuid. One that was there and is not any more stays listed, with what is wrong
with it. One about which NVML hangs is left alone for a while, so that the others are heard.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from fairlead.telemetry.nvml import xids
from fairlead.telemetry.nvml.calls import LOST, RESET_REQUIRED
from fairlead.telemetry.nvml.facts import CardFacts, CardSample, System, Xid
from fairlead.telemetry.nvml.links import Paths
from fairlead.telemetry.nvml.process import Nvml, NvmlError, NvmlUnavailable

T = TypeVar("T")

#: A card about which NVML hung is asked about again after this.
SILENCE_S = 60.0
#: The index of a card that has none at the moment.
GONE = -1
_LOST = "lost: the driver no longer sees it; check the machine's kernel log"
_WORDS = {LOST: _LOST, RESET_REQUIRED: "the driver requires a reset of the GPU"}


@dataclass(frozen=True, slots=True)
class GpuSurvey:
    """Every card that was ever seen, in the order of their indices, with its trouble."""

    system: System
    cards: tuple[CardFacts, ...] = ()
    #: How they meet without NVLink.
    paths: Paths = field(default_factory=dict)


class Surveyor:
    """Asks about each card on its own, so that one that is lost or hangs spoils no other."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float]) -> None:
        self._nvml = nvml
        self._clock = clock
        self._known: dict[str, CardFacts] = {}
        self._paths: Paths = {}
        self._paths_asked: frozenset[str] = frozenset()
        #: Until when a card is left alone, by index.
        self._silent: dict[int, float] = {}
        #: What Xids say is wrong, by uuid.
        self._sick: dict[str, str] = {}

    async def survey(self) -> GpuSurvey:
        """Raises NvmlError or NvmlUnavailable if nothing can be read about any GPU."""
        try:
            system = await self._nvml.ask(System, "system")
        except NvmlError:
            self._sick.clear()  # the driver was restarted, and with it every card
            raise
        found: dict[str, CardFacts] = {}
        troubles: dict[int, str] = {}
        for index in range(system.count):
            try:
                card = await self._ask_about(index, CardFacts, "card", index)
            except (NvmlError, NvmlUnavailable) as error:
                troubles[index] = _words(error)
            else:
                found[card.uuid] = card
        await self._note_paths(found)
        return GpuSurvey(system, self._merged(found, troubles), self._paths)

    async def sample(self) -> tuple[dict[str, CardSample], dict[str, str]]:
        """The cards that answer, and what is wrong with the others."""
        samples: dict[str, CardSample] = {}
        troubles: dict[str, str] = {}
        for card in self._present():
            try:
                sample = await self._ask_about(card.index, CardSample, "sample", card.uuid)
            except (NvmlError, NvmlUnavailable) as error:
                troubles[card.uuid] = _words(error)
            else:
                samples[card.uuid] = sample
        return samples, troubles

    async def xids(self) -> list[Xid]:
        """What the driver reported since the last time; sick cards are remembered."""
        well = [card.uuid for card in self._present() if card.index not in self._silent]
        seen = await self._nvml.ask(list[Xid], "xids", well)
        for xid in seen:
            if trouble := xids.words(xid.number):
                self._sick[xid.uuid] = trouble
        return seen

    def _present(self) -> list[CardFacts]:
        return [card for card in self._known.values() if card.index != GONE]

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

    async def _note_paths(self, found: Mapping[str, CardFacts]) -> None:
        """Cards do not move: asked once for each set of them, whatever comes of it."""
        if frozenset(found) <= self._paths_asked:
            return
        self._paths_asked = frozenset(found)
        told = await self._nvml.ask(Paths, "paths", list(found))
        for uuid, row in told.items():
            self._paths.setdefault(uuid, {}).update(row)

    def _merged(
        self, found: Mapping[str, CardFacts], troubles: Mapping[int, str]
    ) -> tuple[CardFacts, ...]:
        for uuid, card in found.items():
            self._take_up(card, self._known.get(uuid))
        listed = (*self._listed(found), *self._missing(found, troubles))
        return tuple(sorted(listed, key=lambda card: (card.index == GONE, card.index, card.uuid)))

    def _take_up(self, card: CardFacts, before: CardFacts | None) -> None:
        """A card that came back was reset; so was one of which the driver wants nothing more."""
        if before is not None and (before.index == GONE or (before.trouble and not card.trouble)):
            self._sick.pop(card.uuid, None)
        self._known[card.uuid] = card

    def _listed(self, found: Mapping[str, CardFacts]) -> Iterator[CardFacts]:
        for uuid, card in found.items():
            yield replace(card, trouble=card.trouble or self._sick.get(uuid, ""))

    def _missing(
        self, found: Mapping[str, CardFacts], troubles: Mapping[int, str]
    ) -> Iterator[CardFacts]:
        """One that answers with an error keeps its index; else another may have it now."""
        for uuid, card in self._known.items():
            if uuid not in found:
                index = card.index if card.index in troubles else GONE
                self._known[uuid] = replace(card, index=index)
                yield replace(card, index=index, trouble=troubles.get(index, _LOST))


def _words(error: NvmlError | NvmlUnavailable) -> str:
    """What is wrong with one card; raised again where it is about all of them."""
    if isinstance(error, NvmlUnavailable):
        return "NVML does not answer for it; check the machine's kernel log"
    if error.of_the_driver:
        raise error
    return _WORDS.get(error.code, str(error))
