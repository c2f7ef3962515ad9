"""`fairlead agent`: lists the cards of its node, and what they are doing."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from fairlead.apps.agent.listing import listing, toolkit_version
from fairlead.kube.dialects.inventory import Listing
from fairlead.model.errors import FairleadError
from fairlead.telemetry.nvml.facts import CardSample
from fairlead.telemetry.nvml.process import DEFAULT_LIBRARY, Nvml
from fairlead.telemetry.nvml.survey import Surveyor
from fairlead.telemetry.processes import PROC


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line said."""

    node: str
    kubeconfig: str | None = None
    context: str | None = None
    address: str = "0.0.0.0"
    port: int = 9402
    nvml: str = DEFAULT_LIBRARY
    proc: Path = PROC


class Look(msgspec.Struct, rename="camel", omit_defaults=True):
    """All that one look at the machine tells."""

    node: str
    inventory: Listing
    readings: list[CardSample]


def once(options: Options) -> Look:
    """What would be published. No cluster is asked, so it says nothing about device plugins."""
    return asyncio.run(_once(options))


async def _once(options: Options) -> Look:
    nvml = Nvml(options.nvml)
    surveyor = Surveyor(nvml, time.monotonic)
    try:
        survey = await surveyor.survey()
        samples, _ = await surveyor.sample()
    finally:
        await nvml.close()
    if not survey.cards:
        raise FairleadError("NVML sees no card on this machine; is this a GPU node?")
    inventory = listing(survey, toolkit=await asyncio.to_thread(toolkit_version))
    return Look(options.node, inventory, list(samples.values()))


def show(look: Look, output: str, stream: IO[str]) -> None:
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(look), indent=2).decode(), file=stream)
        return
    used = {each.uuid: each for each in look.readings}
    for card in look.inventory.cards:
        print(card.index, card.uuid, card.model, f"{card.memory_mib} MiB", card.health, file=stream)
        sample = used.get(card.uuid)
        for process in sample.processes if sample else ():
            print(f"  process {process.pid}, {process.memory_bytes or 0} bytes", file=stream)
