"""Whose the processes on the cards are, and how much each pod uses."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fairlead.apps.agent.strangers import Sighting, Stranger, Tenants, claims_to
from fairlead.telemetry.agent import PodUse, StrangerUse
from fairlead.telemetry.nvml.facts import CardFacts, CardSample
from fairlead.telemetry.processes import Owner, owner_of


def sightings(
    cards: Sequence[CardFacts], samples: Mapping[str, CardSample], proc: Path
) -> Iterator[Sighting]:
    """Processes that cannot be seen from here are nobody's."""
    owners: dict[int, Owner | None] = {}
    for card in cards:
        sample = samples.get(card.uuid)
        for process in sample.processes if sample else ():
            if process.pid not in owners:
                owners[process.pid] = owner_of(process.pid, proc)
            owner = owners[process.pid]
            if owner is not None:
                yield Sighting(card.uuid, str(card.index), process, owner)


def uses(
    seen: Sequence[Sighting], residents: Tenants, samples: Mapping[str, CardSample]
) -> Iterator[PodUse]:
    """By pod and card, or by the slice that the process is in."""
    grouped: dict[tuple[str, str, str, str, str], list[Sighting]] = defaultdict(list)
    for each in seen:
        for tenant in claims_to(each.owner, residents):
            device = _device(each, samples[each.card])
            names = tenant.uid, tenant.namespace, tenant.name
            grouped[device, each.gpu, *names].append(each)
    for whose, group in grouped.items():
        busy = [p.utilization for each in group if (p := each.process).utilization is not None]
        held = [p.memory_bytes for each in group if (p := each.process).memory_bytes is not None]
        yield PodUse(*whose, min(sum(busy), 1.0) if busy else None, sum(held) if held else None)


def _device(seen: Sighting, sample: CardSample) -> str:
    instance = seen.process.instance
    return next((part.uuid for part in sample.slices if part.instance == instance), seen.card)


def stranger_uses(strangers: Sequence[Stranger]) -> Iterator[StrangerUse]:
    for stranger in strangers:
        seen = stranger.sighting
        yield StrangerUse(seen.card, seen.gpu, seen.process.pid, seen.process.memory_bytes)
