"""Holds partitioning to a real GPU that nobody else uses. Needs root, nvidia-ml-py, and torch.

    PYTHONPATH=src python tests/hardware/verify_h200_mig.py

Prints each check with what it saw; status 1 if one fails. It ends with MIG off. The imagined NVML
is asked the same as the real one, and must answer the same; $OUT keeps the answers. With
NVML=MODULE it runs on another library, and without torch it leaves out what programs see.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "src"))

import msgspec  # noqa: E402

from fairlead.apps.agent.partition_state import PartitionStateFile  # noqa: E402
from fairlead.apps.agent.partitioning import GpuCut, HeldSlices, Owned, Partitioner  # noqa: E402
from fairlead.model.gpus import instance_id, slice_name  # noqa: E402
from fairlead.sim.nvml import FakeNvml, machine_of  # noqa: E402
from fairlead.telemetry.nvml.facts import Partition  # noqa: E402
from fairlead.telemetry.nvml.partitions import Place, slots_of  # noqa: E402
from fairlead.telemetry.nvml.process import Nvml, NvmlError  # noqa: E402
from fairlead.telemetry.nvml.worker import NvmlHandler, NvmlQuery, load  # noqa: E402

OUT = Path(os.environ.get("OUT") or tempfile.mkdtemp())
LIBRARY = os.environ.get("NVML", "pynvml")
TORCH = importlib.util.find_spec("torch") is not None
ENV = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        filter(None, (str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH")))
    )
}
MIB = 1 << 20
IN_USE = 19
SMALL, MIDDLE, LARGE = Place("1g.18gb", 2, 1), Place("2g.35gb", 0, 2), Place("3g.71gb", 4, 4)
#: Where the agent dies: at the first call of that name, before or after it.
DEATHS = [
    (name, over)
    for name in (
        "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance",
        "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy",
    )
    for over in (False, True)
]  # fmt: skip
failed: list[str] = []


def check(what: str, holds: object, saw: object) -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {what}: {saw}", flush=True)
    if not holds:
        failed.append(what)


# -- pods, as far as the agent is concerned --------------------------------------------------------


class Gpu:
    """The first GPU of the machine, with an agent that owns it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nvml = Nvml(LIBRARY)
        self.handler = NvmlHandler(load(LIBRARY))
        self.handler.answer(NvmlQuery("system"))
        library = self.handler._library
        self.uuid = library.nvmlDeviceGetUUID(library.nvmlDeviceGetHandleByIndex(0))
        self.uuid = self.uuid.decode() if isinstance(self.uuid, bytes) else self.uuid

    async def settle(self, *places: Place, mine: bool = True) -> GpuCut:
        """One look of a new agent, for pods that hold these places."""
        agent = Partitioner(self.nvml, Owned(everything=mine), PartitionStateFile(self.folder))
        held = {self.uuid: HeldSlices({place: f"pod-{place.start}" for place in places})}
        found = await agent.settle([self.uuid], held)
        return found.get(self.uuid, GpuCut())

    def look(self) -> Partition:
        return msgspec.json.decode(self.ask("partition", self.uuid)[0], type=Partition)

    def ask(self, what: str, *args: Any) -> tuple[bytes, int]:
        answer = self.handler.answer(NvmlQuery(what, list(args)))
        return bytes(answer.value), answer.error

    def slices(self) -> list[tuple[int, str, int, int, tuple[int, ...]]]:
        return sorted((i.id, i.profile, i.start, i.size, i.computes) for i in self.look().instances)

    def expected(self, *places: Place) -> list[tuple[int, str, int, int, tuple[int, ...]]]:
        return sorted(
            (instance_id(p.start, p.size, 8), p.profile, p.start, p.size, (0,)) for p in places
        )

    def name(self, place: Place) -> str:
        return slice_name(self.uuid, instance_id(place.start, place.size, 8))


@contextlib.contextmanager
def torch(seconds: float, visible: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    command = [sys.executable, str(HERE / "torch_load.py"), str(seconds)]
    env = ENV | {"CUDA_VISIBLE_DEVICES": visible}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, json.loads(process.stdout.readline() or "[]")
    finally:
        process.terminate()
        process.wait(30)


# -- checks ----------------------------------------------------------------------------------------


async def switching(gpu: Gpu) -> None:
    if TORCH:
        with torch(30, gpu.uuid):
            await asyncio.sleep(3)
            cut = await gpu.settle()
            check("a GPU in use waits", "when the GPU is empty" in cut.health, cut.health)
            check("and MIG stays off", not gpu.look().on, gpu.look().on)
        await asyncio.sleep(1)
    cut = await gpu.settle()
    check("an empty one is switched on", gpu.look().on and not cut.health, cut.health or "on")
    check("and all of it is on offer", cut.cuts == gpu.look().cuts, cut.cuts)
    check("in eight slots", cut.slots == slots_of(cut.cuts) == 8, cut.slots)


async def partition_steps(gpu: Gpu) -> None:
    began = time.monotonic()
    cut = await gpu.settle(SMALL, MIDDLE, LARGE)
    took = time.monotonic() - began
    check(
        "three slices are made",
        gpu.slices() == gpu.expected(SMALL, MIDDLE, LARGE),
        f"{took:.2f} s",
    )
    check("nobody goes without", not cut.blocked, cut.blocked)
    began = time.monotonic()
    await gpu.settle(SMALL, MIDDLE, LARGE)
    check(
        "a second look changes nothing",
        len(gpu.slices()) == 3,
        f"{time.monotonic() - began:.2f} s",
    )
    await gpu.settle(SMALL, LARGE)
    check(
        "one that nobody holds is removed",
        gpu.slices() == gpu.expected(SMALL, LARGE),
        gpu.slices(),
    )


async def seeing(gpu: Gpu) -> None:
    """What torch sees under the name that the pod was told before the slice was there."""
    for place in (SMALL, LARGE):
        with torch(0, gpu.name(place)) as (_, seen):
            names = [device["name"] for device in seen]
            check(
                f"torch sees one {place.profile}",
                names == [f"NVIDIA H200 MIG {place.profile}"],
                names,
            )
            gb = int(place.profile.partition(".")[2].removesuffix("gb"))
            mib = [device["memory"] // MIB for device in seen]
            check("with its memory", mib and 0.85 < mib[0] / (gb * 1000) < 1.05, mib)
    with torch(0, "") as (_, seen):
        check("who was given nothing sees nothing", seen == [], seen)
    with torch(0, gpu.name(Place("1g.18gb", 0, 1))) as (_, seen):
        check("a slice that is not there is not seen", seen == [], seen)
    with torch(0, gpu.uuid) as (_, seen):
        print("info the GPU's own uuid shows", [device["name"] for device in seen])


async def using(gpu: Gpu) -> None:
    with torch(60, gpu.name(LARGE)) as (pid, _):
        await asyncio.sleep(3)
        (large,) = [one for one in gpu.look().instances if one.start == LARGE.start]
        check("its process is seen in the slice", pid in large.pids, large.pids)
        cut = await gpu.settle(SMALL)
        check("a slice in use is kept, its pod gone or not", len(gpu.slices()) == 2, gpu.slices())
        places = {one.name: one.starts for one in cut.cuts}
        check("and its place is not offered", 4 not in places.get("3g.71gb", ()), places)
        _, error = gpu.ask("drop", gpu.uuid, large.id, large.start, large.size)
        check("dropping it is refused", error == IN_USE, error)
        raw_destroy(gpu, large.id)
    await asyncio.sleep(1)
    await gpu.settle(SMALL)
    check("when it is empty it is removed", gpu.slices() == gpu.expected(SMALL), gpu.slices())


def raw_destroy(gpu: Gpu, instance: int) -> None:
    """What NVML itself says, which the agent does not rely on."""
    library = gpu.handler._library
    handle = library.nvmlDeviceGetHandleByUUID(gpu.uuid)
    found = library.nvmlDeviceGetGpuInstanceById(handle, instance)
    compute = library.nvmlGpuInstanceGetComputeInstanceById(found, 0)
    error = 0
    try:
        library.nvmlComputeInstanceDestroy(compute)
    except library.NVMLError as refused:
        error = refused.value
    check(
        "NVML refuses to destroy a compute instance in use, as the imagined one",
        error == IN_USE,
        error,
    )


async def others(gpu: Gpu) -> None:
    await gpu.settle(SMALL)
    theirs = Place("1g.35gb", 6, 2)
    gpu.ask("make", gpu.uuid, theirs.profile, theirs.start, theirs.size)
    wanted = Place("1g.18gb", 6, 1)
    cut = await gpu.settle(SMALL, wanted)
    check("a place that is taken is blocked", list(cut.blocked) == ["pod-6"], cut.blocked)
    starts = {one.name: one.starts for one in cut.cuts}
    check("and not offered", 6 not in starts["1g.18gb"] and "7g.141gb" not in starts, starts)
    await gpu.settle()
    left = [one[:2] for one in gpu.slices()]
    check("somebody else's slice is left alone", left == [(6, "1g.35gb")], left)
    gpu.ask("drop", gpu.uuid, 6, theirs.start, theirs.size)
    cut = await gpu.settle(wanted)
    check(
        "and when it goes the pod gets its own", gpu.slices() == gpu.expected(wanted), cut.blocked
    )


async def dying(gpu: Gpu) -> None:
    """An agent that dies at a call, as if by SIGKILL; the next one goes on."""
    for name, over in DEATHS:
        await gpu.settle(LARGE)
        command = [sys.executable, __file__, "--die", name, str(int(over)), str(gpu.folder)]
        ended = await asyncio.to_thread(subprocess.call, command, env=ENV, timeout=60)
        half = gpu.slices()
        await gpu.settle(SMALL, MIDDLE)
        good = gpu.slices() == gpu.expected(SMALL, MIDDLE)
        moment = "after" if over else "before"
        check(f"died {moment} {name}", good and ended == 9, f"left {[(s[0], s[4]) for s in half]}")


class Mortal:
    """A library that ends the program at one call."""

    def __init__(self, library: Any, name: str, over: bool) -> None:
        self._library, self._name, self._over = library, name, over

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        if name != self._name:
            return found

        def last(*args: Any) -> Any:
            if self._over:
                found(*args)
            os._exit(9)

        return last


class InProcessNvml:
    def __init__(self, handler: NvmlHandler) -> None:
        self._handler = handler

    async def ask(self, kind: type[Any], what: str, *args: Any) -> Any:
        answer = self._handler.answer(NvmlQuery(what, list(args)))
        if answer.error:
            raise NvmlError(answer.error, answer.text)
        return msgspec.json.decode(answer.value, type=kind)


async def die(name: str, over: bool, folder: Path) -> None:
    gpu = Gpu(folder)
    asker = InProcessNvml(NvmlHandler(Mortal(load(LIBRARY), name, over)))
    agent = Partitioner(asker, Owned(everything=True), PartitionStateFile(folder))
    await agent.settle([gpu.uuid], {gpu.uuid: HeldSlices({SMALL: "a", MIDDLE: "b"})})


def replay(gpu: Gpu) -> None:
    """The same questions to the real GPU and to the imagined one."""
    machine = machine_of()
    machine.gpus[0].uuid = gpu.uuid
    machine.gpus[0].mig = machine.gpus[0].mig_pending = True
    imagined = NvmlHandler(FakeNvml(machine))
    chance, kept, wrong = random.Random(8), [], 0
    cuts = gpu.look().cuts
    for _ in range(60):
        query = _question(chance, gpu, cuts)
        real, mine = gpu.handler.answer(query), imagined.answer(query)
        same = (bytes(real.value), real.error) == (bytes(mine.value), mine.error)
        wrong += not same
        kept.append({"ask": [query.what, *query.args[1:]], "error": real.error,
                     "value": json.loads(bytes(real.value)), "same": same})  # fmt: skip
        if not same:
            print("     differs:", query, real, mine)
    (OUT / "mig_replay.json").write_text("\n".join(map(json.dumps, kept)))
    check("the imagined NVML answers the same", not wrong, f"{wrong} of {len(kept)} differ")


def _question(chance: random.Random, gpu: Gpu, cuts: Any) -> NvmlQuery:
    cut = chance.choice(cuts)
    start = chance.choice([*cut.starts, *cut.starts, 3])
    there = gpu.look().instances
    what = chance.choice(["make", "make", "make", "complete", "drop", "partition"])
    if what == "make" or not there:
        return NvmlQuery("make", [gpu.uuid, cut.name, start, cut.size])
    one = chance.choice(there)
    if what == "complete":
        return NvmlQuery("complete", [gpu.uuid, one.id])
    if what == "drop":
        return NvmlQuery("drop", [gpu.uuid, one.id, one.start, one.size])
    return NvmlQuery("partition", [gpu.uuid])


async def put_back(gpu: Gpu) -> None:
    for one in gpu.look().instances:  # of the replay, which made them as somebody else
        gpu.ask("drop", gpu.uuid, one.id, one.start, one.size)
    await gpu.settle(mine=False)
    found = gpu.look()
    check("all is put back, and MIG is off", not (found.on or found.instances), found)
    await gpu.nvml.close()


async def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        gpu = Gpu(Path(folder))
        check("it starts with MIG off and nobody on the GPU", not gpu.look().on, gpu.look())
        steps = [switching, partition_steps, *([seeing, using] if TORCH else []), others, dying]
        for step in steps:
            try:
                await step(gpu)
            except Exception:
                failed.append(traceback.format_exc())
                print("FAIL", failed[-1], flush=True)
        try:
            await gpu.settle()
            replay(gpu)
        finally:
            await put_back(gpu)
    print(f"{len(failed)} failed, in {time.monotonic() - began:.0f} s")
    return bool(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--die"]:
        asyncio.run(die(sys.argv[2], sys.argv[3] == "1", Path(sys.argv[4])))
        sys.exit(0)
    sys.exit(asyncio.run(main()))
