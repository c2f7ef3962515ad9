"""Whatever happens, in whatever order, slices end up as pods hold them, and others' are untouched.

Pods come and go, programs start and end, an administrator cuts and uncuts, the driver restarts, and
the agent is killed before or after any call. The machine is the imagined NVML; the code is the
agent's own, down to the calls.
"""

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples import examples
from fairlead.apps.agent.partition_state import PartitionState
from fairlead.apps.agent.partitioning import GpuCut, HeldSlices, Owned, Partitioner
from fairlead.model.gpus import instance_id
from fairlead.sim.nvml import FakeNvml, FakeProcess, machine_of
from fairlead.sim.nvml.machine import Compute, FakeInstance
from fairlead.telemetry.nvml.partitions import Place, mask
from fairlead.telemetry.nvml.process import NvmlError
from fairlead.telemetry.nvml.worker import NvmlHandler, NvmlQuery

T = TypeVar("T")
SLOTS = 8
#: Calls that change something, of the driver and of the agent's own list; and any call at all.
STEPS = [
    "nvmlDeviceSetMigMode", "nvmlDeviceCreateGpuInstance", "nvmlGpuInstanceCreateCompute",
    "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy", "write", "nvml",
]  # fmt: skip


class Killed(BaseException):
    """The agent is no more."""


class Direct:
    """Calls the handler of the worker, without its process."""

    def __init__(self, handler: NvmlHandler) -> None:
        self._handler = handler

    async def ask(self, kind: type[T], what: str, *args: Any) -> T:
        answer = self._handler.answer(NvmlQuery(what, list(args)))
        if answer.error:
            raise NvmlError(answer.error, answer.text)
        return msgspec.json.decode(answer.value, type=kind)


class Paper:
    """A file that lasts; to write it may be the last thing the agent does."""

    def __init__(self, witness: Any) -> None:
        self.state: PartitionState = {}
        self._witness = witness

    def read(self) -> PartitionState:
        return dict(self.state)

    def write(self, state: PartitionState) -> None:
        self._witness("write", False)
        self.state = dict(state)
        self._witness("write", True)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Nothing in it ever waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waited")


class Partitions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine = machine_of(2)
        #: When the agent dies: at how many more calls of this name, before or after the call.
        self.death: tuple[int, str, bool] | None = None
        self.paper = Paper(self.witness)
        self.pods: dict[str, tuple[str, Place]] = {}
        self.offers: dict[str, GpuCut] = {}
        self.others: dict[str, list[FakeInstance]] = {gpu.uuid: [] for gpu in self.machine.gpus}
        self.blocked: dict[str, str] = {}
        self.last_pod = 0
        self.born()

    def born(self) -> None:
        self.nvml = FakeNvml(self.machine, self.witness)
        self.agent = Partitioner(Direct(NvmlHandler(self.nvml)), Owned(everything=True), self.paper)

    def witness(self, name: str, over: bool) -> None:
        if self.death is None:
            return
        left, call, after = self.death
        if name.startswith(call) and over == after:
            self.death = (left - 1, call, after)
            if left == 0:
                raise Killed

    # -- the agent ---------------------------------------------------------------------------------

    def held(self) -> dict[str, HeldSlices]:
        held: dict[str, dict[Place, str]] = {gpu.uuid: {} for gpu in self.machine.gpus}
        for uid, (uuid, place) in self.pods.items():
            held[uuid][place] = uid
        return {uuid: HeldSlices(places) for uuid, places in held.items()}

    @rule()
    def settles(self) -> None:
        uuids = [gpu.uuid for gpu in self.machine.gpus]
        try:
            self.offers = finish(self.agent.settle(uuids, self.held()))
        except NvmlError as error:
            if not error.of_the_driver:
                raise
            self.born()  # the driver restarted, so another process asks it
            self.offers = finish(self.agent.settle(uuids, self.held()))
        self.blocked = {u: why for cut in self.offers.values() for u, why in cut.blocked.items()}
        self.as_it_should_be()

    @rule(death=st.tuples(st.sampled_from([0, 0, 1, 2]), st.sampled_from(STEPS), st.booleans()))
    def is_killed(self, death: tuple[int, str, bool]) -> None:
        self.death = death
        with suppress(Killed, NvmlError):
            finish(self.agent.settle([gpu.uuid for gpu in self.machine.gpus], self.held()))
        self.death = None
        self.born()

    # -- pods and programs -------------------------------------------------------------------------

    @precondition(lambda self: self.offers)
    @rule(data=st.data())
    def a_pod_is_bound(self, data: st.DataObject) -> None:
        """Where the inventory offers a place that no other pod holds."""
        free = [
            (uuid, Place(cut.name, start, cut.size))
            for uuid, gpu in self.offers.items()
            for cut in gpu.cuts
            for start in cut.starts
            if not self.taken(uuid) & mask(start, cut.size)
        ]
        if free:
            self.last_pod += 1
            self.pods[f"pod-{self.last_pod}"] = data.draw(st.sampled_from(free))

    def taken(self, uuid: str) -> int:
        used = 0
        for where, place in self.pods.values():
            used |= place.mask if where == uuid else 0
        return used

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), leaves=st.booleans())
    def a_pod_goes(self, data: st.DataObject, leaves: bool) -> None:
        """Mostly with its programs."""
        uuid, place = self.pods.pop(data.draw(st.sampled_from(sorted(self.pods))))
        gpu = self.machine.gpu(uuid)
        id_ = instance_id(place.start, place.size, SLOTS)
        if leaves:
            gpu.processes = [one for one in gpu.processes if one.gpu_instance != id_]

    @precondition(lambda self: any(c.computes for d in self.machine.gpus for c in d.instances))
    @rule(data=st.data())
    def a_program_starts(self, data: st.DataObject) -> None:
        """In any slice that is complete: a pod's, or somebody else's."""
        gpu, instance = data.draw(
            st.sampled_from(
                [(d, c) for d in self.machine.gpus for c in d.instances if c.computes]
            )
        )  # fmt: skip
        pid = 1 + max((one.pid for one in gpu.processes), default=0)
        gpu.processes.append(FakeProcess(pid, 1, instance.id, 0))

    @precondition(lambda self: any(gpu.processes for gpu in self.machine.gpus))
    @rule(data=st.data())
    def a_program_ends(self, data: st.DataObject) -> None:
        gpu = data.draw(st.sampled_from([one for one in self.machine.gpus if one.processes]))
        gpu.processes.remove(data.draw(st.sampled_from(gpu.processes)))

    # -- an administrator, and the driver ----------------------------------------------------------

    @rule(data=st.data())
    def somebody_cuts(self, data: st.DataObject) -> None:
        """Anywhere it is free, but where the agent died before it could cut that very slice."""
        gpu = data.draw(st.sampled_from([one for one in self.machine.gpus if one.mig] or [None]))
        if gpu is None:
            return
        meant = {created.place for created in self.created(gpu.uuid)}
        used = sum({one.mask for one in gpu.instances})
        free = [
            (kind, start)
            for kind in gpu.kind.profiles
            for start in kind.starts
            if not used & mask(start, kind.size) and Place(kind.name, start, kind.size) not in meant
        ]
        if not free:
            return
        kind, start = data.draw(st.sampled_from(free))
        id_ = instance_id(start, kind.size, SLOTS)
        created = FakeInstance(id_, kind.id, start, kind.size, self.machine.serial())
        if data.draw(st.booleans()):
            serial = self.machine.serial()
            created.computes = [Compute(0, 0, 0, kind.size, f"MIG-{serial}", serial)]
        gpu.instances.append(created)
        self.others[gpu.uuid].append(created)

    def created(self, uuid: str) -> Any:
        return self.paper.state[uuid].created if uuid in self.paper.state else ()

    @precondition(lambda self: any(self.others.values()))
    @rule(data=st.data())
    def somebody_uncuts(self, data: st.DataObject) -> None:
        uuid = data.draw(st.sampled_from([one for one, created in self.others.items() if created]))
        gone, gpu = self.others[uuid].pop(), self.machine.gpu(uuid)
        gpu.processes = [one for one in gpu.processes if one.gpu_instance != gone.id]
        gpu.instances.remove(gone)

    @rule()
    def the_driver_restarts(self) -> None:
        self.machine.restart()
        self.others = {uuid: [] for uuid in self.others}

    # -- what must hold ----------------------------------------------------------------------------

    @invariant()
    def others_are_left_alone(self) -> None:
        for uuid, created in self.others.items():
            there = {one.serial for one in self.machine.gpu(uuid).instances}
            assert {one.serial for one in created} <= there

    @invariant()
    def nobody_loses_the_slice_under_him(self) -> None:
        for gpu in self.machine.gpus:
            ids = {one.id for one in gpu.instances if one.computes}
            assert {one.gpu_instance for one in gpu.processes} <= ids

    def as_it_should_be(self) -> None:
        """After a look that nothing disturbed."""
        for gpu in self.machine.gpus:
            theirs = {one.serial for one in self.others[gpu.uuid]}
            ours = [one for one in gpu.instances if one.serial not in theirs]
            busy = {one.gpu_instance for one in gpu.processes}
            there = {
                (one.start, one.size, one.id) for one in ours if one.id in busy or one.computes
            }
            assert len(there) == len(ours), "nothing is left half created"
            wanted = {
                (place.start, place.size, instance_id(place.start, place.size, SLOTS))
                for uid, (uuid, place) in self.pods.items()
                if uuid == gpu.uuid and uid not in self.blocked
            }
            assert wanted <= there
            assert {id_ for _, _, id_ in there - wanted} <= busy, "what nobody holds is gone"
            for cut in self.offers[gpu.uuid].cuts:
                offered = [mask(start, cut.size) for start in cut.starts]
                others = [one.mask for one in self.others[gpu.uuid]]
                assert not any(one & other for one in offered for other in others)
        for uid in self.blocked:
            uuid, place = self.pods[uid]
            others = [one.mask for one in self.machine.gpu(uuid).instances]
            assert any(one & place.mask for one in others), "something lies there"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("nth", range(3))
def test_killed_at_a_step_it_goes_on_from_there(step: str, nth: int, after: bool) -> None:
    """One slice to be dropped, two to be created: killed once, and then not again."""
    scene = Partitions()
    scene.settles()
    first, _ = (gpu.uuid for gpu in scene.machine.gpus)
    scene.pods = {"old": (first, Place("3g.71gb", 0, 4))}
    scene.settles()
    scene.pods = {"a": (first, Place("2g.35gb", 0, 2)), "b": (first, Place("1g.18gb", 3, 1))}
    scene.is_killed((nth, step, after))
    scene.settles()
    assert sorted(one.id for one in scene.machine.gpus[0].instances) == [3, 10]
    assert not scene.blocked


def test_mig_is_disabled_again_on_a_gpu_that_is_no_longer_of_the_agent() -> None:
    scene = Partitions()
    scene.settles()
    assert [gpu.mig for gpu in scene.machine.gpus] == [True, True]

    first, second = (gpu.uuid for gpu in scene.machine.gpus)
    direct = Direct(NvmlHandler(scene.nvml))
    successor = Partitioner(direct, Owned(uuids=frozenset({second})), scene.paper)
    finish(successor.settle([first, second], {}))
    assert [gpu.mig for gpu in scene.machine.gpus] == [False, True]
    assert scene.paper.state.keys() == {second}


TestPartitions = Partitions.TestCase
TestPartitions.settings = examples(
    60, steps=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
