"""Cuts the GPUs that are the agent's own into what pods were given, and puts back the rest.

A GPU is its own when the operator says so (`--mig`). Everything is computed again from what NVML
finds, what pods hold and what the agent created before, so it may be killed at any moment: the next
run continues from there.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import Any, Protocol, TypeVar

import structlog
from msgspec.structs import replace

from fairlead.apps.agent.partition_state import GpuState, PartitionStore
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import Cut, GpuFacts, Partition
from fairlead.telemetry.nvml.partition_steps import IN_USE
from fairlead.telemetry.nvml.partitions import (
    CreatedInstance,
    PartitionPlan,
    Place,
    assignable_cuts,
    plan_partitions,
    slots_of,
    still_present,
)
from fairlead.telemetry.nvml.process import NvmlError

log = structlog.get_logger(__name__)

T = TypeVar("T")
_NO_PERMISSION = 4
_NOT_OURS = "not all of it can be assigned: it has MIG slices that the agent did not create"
_FULL = "the agent did not create its MIG slices; remove them, or exclude the GPU from --mig"


class NvmlClient(Protocol):
    async def ask(self, kind: type[T], what: str, *args: Any) -> T:
        """Raises NvmlError or NvmlUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class Owned:
    """Which GPUs are the agent's own to change."""

    everything: bool = False
    uuids: frozenset[str] = frozenset()

    def has(self, uuid: str) -> bool:
        return self.everything or uuid in self.uuids

    def overlaps(self, other: "Owned") -> bool:
        """Whether some GPU may be in both."""
        if self.everything or other.everything:
            return Owned() not in (self, other)
        return bool(self.uuids & other.uuids)


def owned(text: str, option: str = "--mig") -> Owned:
    """`all`, `none`, or uuids with commas."""
    if text in ("all", "none"):
        return Owned(everything=text == "all")
    named = frozenset(filter(None, map(str.strip, text.split(","))))
    if not named or not all(uuid.startswith("GPU-") for uuid in named):
        raise ConfigError(f"{option} is {text[:80]!r}; write all, none, or uuids such as GPU-6a0c…")
    return Owned(uuids=named)


@dataclass(frozen=True, slots=True)
class HeldSlices:
    """What pods hold of a GPU: slices at their places, or something else."""

    places: Mapping[Place, str] = field(default_factory=dict)
    #: Some pod has it whole, or a share of it.
    uncut: bool = False


@dataclass(frozen=True, slots=True)
class GpuCut:
    """What the inventory says about a GPU of ours."""

    cuts: tuple[Cut, ...] = ()
    slots: int = 0
    #: Why nothing can be had of it; empty if something can.
    health: str = ""
    #: What else its operator should know.
    note: str = ""
    #: Why a pod does not get what it was given, by pod.
    blocked: Mapping[str, str] = field(default_factory=dict)


class Partitioner:
    """One machine. Call `settle` whenever pods or GPUs may have changed."""

    def __init__(self, nvml: NvmlClient, mine: Owned, store: PartitionStore) -> None:
        self._nvml = nvml
        self._mine = mine
        self._store = store
        self._state = store.read()
        #: Places that the driver numbers differently than their names say.
        self._odd: dict[str, set[Place]] = {}

    async def settle(
        self, uuids: Sequence[str], held: Mapping[str, HeldSlices]
    ) -> dict[str, GpuCut]:  # fmt: skip
        """Brings every GPU of ours to what pods hold of it, and says what is left to be had.

        Raises NvmlError or NvmlUnavailable if the driver does not answer; finished steps stay.
        """
        found = {}
        for uuid in uuids:
            if self._mine.has(uuid) or uuid in self._state:
                cut = await self._settled(uuid, held.get(uuid, HeldSlices()))
                if self._mine.has(uuid):
                    found[uuid] = cut
        return found

    async def _settled(self, uuid: str, held: HeldSlices) -> GpuCut:
        """One GPU that is lost keeps no other from being cut."""
        try:
            return await self._settle(uuid, held)
        except NvmlError as error:
            if error.of_the_driver:
                raise
            return GpuCut(health=str(error))

    async def _settle(self, uuid: str, held: HeldSlices) -> GpuCut:
        gpu = await self._look(uuid)
        if not gpu.on and self._mine.has(uuid):
            problem = await self._switch_on(gpu, held)
            if problem:
                return GpuCut(health=problem)
            gpu = await self._look(uuid)
        wanted = held.places.keys()
        self._put(uuid, created=still_present(gpu, self._created(uuid)))
        steps = plan_partitions(wanted, gpu, self._created(uuid))
        blocked = steps.blocked | await self._carry_out(uuid, steps)
        if steps.drop or steps.make or steps.complete:
            gpu = await self._look(uuid)
        if not self._mine.has(uuid):
            await self._give_back(gpu, held)
        return self._gpu_cut(
            gpu, wanted, {held.places[place]: why for place, why in blocked.items()}
        )

    async def _look(self, uuid: str) -> Partition:
        return await self._nvml.ask(Partition, "partition", uuid)

    def _gpu_cut(
        self, gpu: Partition, wanted: AbstractSet[Place], blocked: Mapping[str, str]
    ) -> GpuCut:
        odd = self._odd.get(gpu.uuid, set())
        offer = assignable_cuts(gpu, self._created(gpu.uuid), wanted, odd)
        note = _NOT_OURS if offer != gpu.cuts else ""
        return GpuCut(offer, slots_of(gpu.cuts), "" if offer else _FULL, note, blocked)

    # -- the mode ----------------------------------------------------------------------------------

    async def _switch_on(self, gpu: Partition, held: HeldSlices) -> str:
        """Empty if MIG is on now, else why it is not."""
        if gpu.pending:
            return "MIG requires a reset of the GPU: nvidia-smi --gpu-reset"
        if held.uncut or gpu.pids:
            return "in use: MIG is enabled when the GPU is empty"
        self._put(gpu.uuid, switched=True)
        try:
            on = await self._nvml.ask(bool, "switch", gpu.uuid, True)
        except NvmlError as error:
            if error.of_the_driver:
                raise
            self._put(gpu.uuid, switched=False)
            return f"MIG cannot be enabled: {error}{_hint(error)}"
        log.info("MIG switched on", gpu=gpu.uuid)
        return "" if on else "MIG requires a reset of the GPU: nvidia-smi --gpu-reset"

    async def _give_back(self, gpu: Partition, held: HeldSlices) -> None:
        """The GPU is not ours any more: MIG goes off if we switched it on and nothing is left."""
        if not self._state.get(gpu.uuid, GpuState()).switched or held.places or gpu.instances:
            return
        if gpu.on:
            try:
                await self._nvml.ask(bool, "switch", gpu.uuid, False)
            except NvmlError as error:
                log.warning("MIG cannot be switched off", gpu=gpu.uuid, error=str(error))
                return
            log.info("MIG switched off", gpu=gpu.uuid)
        self._put(gpu.uuid, switched=False)

    # -- slices ------------------------------------------------------------------------------------

    async def _carry_out(self, uuid: str, steps: PartitionPlan) -> dict[Place, str]:
        """What could not be had after all."""
        for created in steps.drop:
            await self._drop(uuid, created)
        blocked = {}
        for created in steps.make:
            problem = await self._make(uuid, created) or await self._complete(uuid, created)
            if problem:
                blocked[created.place] = problem
        for created in steps.complete:
            problem = await self._complete(uuid, created)
            if problem:
                blocked[created.place] = problem
        return blocked

    async def _make(self, uuid: str, created: CreatedInstance) -> str:
        place = created.place
        self._put(uuid, created=self._created(uuid) | {created})
        try:
            number = await self._nvml.ask(int, "make", uuid, place.profile, place.start, place.size)
        except NvmlError as error:
            return self._give_up(uuid, created, error)
        if number == created.id:
            log.info("MIG slice created", gpu=uuid, profile=place.profile, at=place.start)
            return ""
        # The pod's assignment names another slice, or none: it must not be used.
        self._odd.setdefault(uuid, set()).add(place)
        wrong = replace(created, id=number)
        self._put(uuid, created=self._created(uuid) - {created} | {wrong})
        await self._drop(uuid, wrong)
        return (
            f"the driver created GPU instance {number}, not {created.id}; Fairlead cannot name "
            "slices at this placement of this GPU; please report it"
        )

    async def _complete(self, uuid: str, created: CreatedInstance) -> str:
        try:
            number = await self._nvml.ask(int, "complete", uuid, created.id)
        except NvmlError as error:
            if error.of_the_driver:
                raise
            return f"the slice cannot be completed: {error}"
        return "" if number == 0 else f"its compute instance is {number} and not 0"

    async def _drop(self, uuid: str, created: CreatedInstance) -> None:
        place = created.place
        try:
            await self._nvml.ask(bool, "drop", uuid, created.id, place.start, place.size)
        except NvmlError as error:
            if error.of_the_driver:
                raise
            if error.code != IN_USE:
                log.warning("MIG slice cannot be destroyed", gpu=uuid, error=str(error))
            return
        self._put(uuid, created=self._created(uuid) - {created})
        log.info("MIG slice destroyed", gpu=uuid, profile=place.profile, at=place.start)

    def _give_up(self, uuid: str, created: CreatedInstance, error: NvmlError) -> str:
        """The driver refused, so it was not created. If the driver is gone, this is unknown."""
        if error.of_the_driver:
            raise error
        self._put(uuid, created=self._created(uuid) - {created})
        return f"the driver did not create the slice: {error}{_hint(error)}"

    # -- what the agent created --------------------------------------------------------------------

    def _created(self, uuid: str) -> frozenset[CreatedInstance]:
        return self._state.get(uuid, GpuState()).created

    def _put(self, uuid: str, **changes: Any) -> None:
        """On disk before anything is done about it."""
        before = self._state.get(uuid, GpuState())
        after = replace(before, **changes)
        if after == before:
            return
        state = {**self._state, uuid: after}
        if after == GpuState():
            del state[uuid]
        self._store.write(state)
        self._state = state


def _hint(error: NvmlError) -> str:
    return "; run the agent as root" if error.code == _NO_PERMISSION else ""


def held_by(pods: Iterable[Pod], gpus: Iterable[GpuFacts]) -> dict[str, HeldSlices]:
    """What pods that have not ended hold of each GPU.

    Where a pod may have any of them, all count as held.
    """
    listed = {name: gpu.uuid for gpu in gpus for name in (str(gpu.index), gpu.uuid)}
    places: dict[str, dict[Place, str]] = {uuid: {} for uuid in listed.values()}
    uncut: set[str] = set()
    for pod in pods:
        if pod.finished:
            continue
        if pod.problem or (pod.grant is None and pod.request.gpu_request is not None):
            uncut |= places.keys()
        for use in pod.grant.uses if pod.grant else ():
            uuid = listed.get(use.uuid)
            if uuid is None:
                uncut |= places.keys() if not use.uuid else set()
            elif use.slices:
                places[uuid][Place(use.profile, use.start, use.slices)] = pod.uid
            else:
                uncut.add(uuid)
    return {uuid: HeldSlices(found, uuid in uncut) for uuid, found in places.items()}
