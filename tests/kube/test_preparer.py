"""The steps before a bind, carried out in order: what is begun, what is reported, what is left."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from builders import a_pod
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.engine.events import Prepared, PrepareFailed
from fairlead.engine.instructions import Prepare
from fairlead.kube.failures import Failures
from fairlead.kube.writes.preparer import PrepareOutcome, Preparer, StepFailed
from fairlead.model.pods import Pod
from fairlead.model.storage import VolumePlan
from fairlead.plugins.volume_step import VolumeStep


@dataclass(frozen=True, slots=True)
class LicenceStep:
    plugin: ClassVar[str] = "Licences"
    doing: ClassVar[str] = "taking licences"
    done: ClassVar[str] = "licences were taken"

    def assume(self, cluster: Cluster, node: str) -> None: ...

    def settle(self, cluster: Cluster) -> None: ...

    def problem(self, node: Nodes, name: str) -> str:
        return ""


@dataclass
class Writer:
    """Notes what it is given, and ends when it is allowed to."""

    begun: list[tuple[str, str]] = field(default_factory=list)
    error: Exception | None = None
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def carry_out(self, pod: Pod, node: str, step: object) -> None:
        self.begun.append((pod.uid, node))
        await self.may_end.wait()
        if self.error:
            raise self.error


class Bench:
    def __init__(self) -> None:
        self.volumes, self.licences = Writer(), Writer()
        self.failures = Failures()
        self.outcomes: asyncio.Queue[PrepareOutcome] = asyncio.Queue()
        writers = {VolumeStep: self.volumes, LicenceStep: self.licences}
        self.preparer = Preparer(self.outcomes.put_nowait, writers, failures=self.failures)

    def submit(self, uid: str = "u") -> None:
        steps = (VolumeStep(VolumePlan()), LicenceStep())
        self.preparer.submit(Prepare(a_pod("user", uid=uid), "n1", steps))

    async def outcome(self) -> PrepareOutcome:
        async with asyncio.timeout(60):
            return await self.outcomes.get()

    async def begun(self, writer: Writer) -> None:
        async with asyncio.timeout(60):
            while not writer.begun:
                await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.preparer.stop()


async def test_a_step_begins_when_the_one_before_it_is_done(bench: Bench) -> None:
    bench.submit()
    await bench.begun(bench.volumes)
    assert not bench.licences.begun

    bench.volumes.may_end.set()
    await bench.begun(bench.licences)
    assert bench.licences.begun == [("u", "n1")]
    assert bench.outcomes.empty()

    bench.licences.may_end.set()
    assert await bench.outcome() == Prepared("u")


async def test_the_first_failure_ends_it_and_names_its_step(bench: Bench) -> None:
    bench.volumes.may_end.set()
    bench.volumes.error = StepFailed("binding volumes: no")
    bench.submit()

    failed = 'running PreBind plugin "VolumeBinding": binding volumes: no'
    assert await bench.outcome() == PrepareFailed("u", failed)
    assert not bench.licences.begun


async def test_a_later_step_fails_in_its_own_name(bench: Bench) -> None:
    for writer in (bench.volumes, bench.licences):
        writer.may_end.set()
    bench.licences.error = StepFailed("none is left")
    bench.submit()

    failed = 'running PreBind plugin "Licences": none is left'
    assert await bench.outcome() == PrepareFailed("u", failed)


async def test_a_defect_fails_one_pod_and_is_counted_by_what_was_done(bench: Bench) -> None:
    for writer in (bench.volumes, bench.licences):
        writer.may_end.set()
    bench.licences.error = KeyError("licence")
    bench.submit()

    outcome = await bench.outcome()
    assert isinstance(outcome, PrepareFailed)
    assert "internal error while taking licences: KeyError('licence')" in outcome.message
    assert bench.failures.counts == {"taking licences": 1}


async def test_a_pod_that_is_gone_ends_the_step_under_way_and_is_reported(bench: Bench) -> None:
    bench.volumes.may_end.set()
    bench.submit("gone")
    await bench.begun(bench.licences)
    bench.submit("stays")

    bench.preparer.abandon("gone")
    assert await bench.outcome() == PrepareFailed("gone", "pod no longer exists")

    bench.licences.may_end.set()
    assert await bench.outcome() == Prepared("stays")


async def test_a_pod_that_is_gone_before_its_first_step_is_reported_as_well(bench: Bench) -> None:
    bench.submit()
    bench.preparer.abandon("u")
    assert await bench.outcome() == PrepareFailed("u", "pod no longer exists")


async def test_nothing_is_reported_after_the_stop(bench: Bench) -> None:
    bench.submit()
    await bench.begun(bench.volumes)
    await bench.preparer.stop()
    assert bench.outcomes.empty()
