"""Holds the agent to a real GPU. Needs a machine with a GPU, nvidia-smi, and torch.

    PYTHONPATH=src python tests/hardware/verify_h200.py

Prints each check with what it saw; status 1 if one fails. What it saw goes to $OUT as well.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "src"))

from fairlead.apps.agent.observing import observed_processes  # noqa: E402
from fairlead.apps.agent.unassigned_processes import ProcessMonitor  # noqa: E402
from fairlead.telemetry.nvml.process import Nvml, NvmlUnavailable  # noqa: E402
from fairlead.telemetry.nvml.survey import Surveyor  # noqa: E402
from fairlead.telemetry.processes import owner_of  # noqa: E402

OUT = Path(os.environ.get("OUT") or tempfile.mkdtemp())
ENV = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        filter(None, (str(HERE.parents[1] / "src"), str(HERE), os.environ.get("PYTHONPATH")))
    )
}
AGENT = [sys.executable, "-c", "from fairlead.apps.entry import main; main()", "agent"]
MIB = 1 << 20
failed: list[str] = []


def check(what: str, holds: object, saw: object) -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {what}: {saw}", flush=True)
    if not holds:
        failed.append(what)


def smi(*arguments: str) -> str:
    ran = subprocess.run(
        ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout)


def keep(name: str, text: str) -> str:
    (OUT / name).write_text(text)
    return text


# -- inventory -------------------------------------------------------------------------------------


def inventory() -> dict:
    said = subprocess.run(
        [*AGENT, "--once", "-o", "json"],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    check("fairlead agent --once ends well", said.returncode == 0, said.stderr[-500:] or "no error")
    return json.loads(keep("once.json", said.stdout))


def against_nvidia_smi(found: dict) -> None:
    listed = found["inventory"]
    tree = ET.fromstring(keep("nvidia-smi.xml", smi("-q", "-x")))
    check("driver", listed["driver"] == tree.findtext("driver_version"), listed["driver"])
    check("CUDA", listed["cuda"] == tree.findtext("cuda_version"), listed["cuda"])
    gpus = tree.findall("gpu")
    check("number of GPUs", len(listed["gpus"]) == len(gpus), len(gpus))
    for entry, gpu in zip(listed["gpus"], gpus, strict=False):
        total = int(gpu.findtext("fb_memory_usage/total", "0").split()[0])
        check("uuid", entry["uuid"] == gpu.findtext("uuid"), entry["uuid"])
        check("model", entry["model"] == gpu.findtext("product_name"), entry["model"])
        check("memory in MiB", entry["memoryMib"] == total, total)
        mode = gpu.findtext("mig_mode/current_mig")
        check("MIG", bool(entry.get("slices")) == (mode == "Enabled"), mode)
        check("can be cut", entry.get("mig", False) == (mode != "N/A"), entry.get("mig"))
        check("well", "health" not in entry, entry.get("health", "ok"))
    for sample, gpu in zip(found["readings"], gpus, strict=False):
        used = int(gpu.findtext("fb_memory_usage/used", "0").split()[0])
        mine = (sample["memoryUsedBytes"] or 0) // MIB
        check("memory used in MiB", abs(mine - used) <= 2, f"{mine} and {used}")


def against_topology(found: dict) -> None:
    lines = keep("topo.txt", smi("topo", "-m")).splitlines()
    head = [cell.strip() for cell in lines[0].split("\t")]
    rows = [[c.strip() for c in line.split("\t")] for line in lines if line.startswith("GPU")]
    for gpu, row in zip(found["inventory"]["gpus"], rows, strict=False):
        cells = dict(zip(head, row, strict=False))
        words = [cells[f"GPU{index}"] for index in range(len(rows))]
        check("links", gpu.get("links", ["X"]) == words, words)
        numa = cells.get("NUMA Affinity", "N/A")
        mine = gpu.get("numa", -1)
        check("NUMA node", numa == "N/A" or mine == int(numa), f"{mine} and {numa}")


# -- what a process sees ---------------------------------------------------------------------------


@contextlib.contextmanager
def torch(seconds: float, visible: str) -> Iterator[tuple[subprocess.Popen[str], list[dict]]]:
    command = [sys.executable, str(HERE / "torch_load.py"), str(seconds)]
    env = ENV | {"CUDA_VISIBLE_DEVICES": visible}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(30)


def visible_devices(uuid: str) -> None:
    with torch(0, uuid) as (_, seen):
        names = [device["uuid"] for device in seen]
        check("torch sees the GPU it was given", names == [uuid.removeprefix("GPU-")], names)
    with torch(0, "") as (_, seen):
        check("and none with the empty value", seen == [], seen)


# -- readings --------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def asking(library: str = "pynvml", limit_s: float = 10.0) -> AsyncIterator[Surveyor]:
    nvml = Nvml(library, limit_s=limit_s)
    try:
        surveyor = Surveyor(nvml, time.monotonic)
        await surveyor.survey()
        yield surveyor
    finally:
        await nvml.close()


async def load(uuid: str) -> None:
    async with asking() as surveyor:
        with torch(20, uuid) as (process, _):
            await asyncio.sleep(5)
            samples, troubles = await surveyor.sample()
            check("no trouble", not troubles, troubles)
            sample = samples[uuid]
            keep("sample.txt", repr(sample))
            check("utilisation over 50 %", (sample.utilization or 0) > 0.5, sample.utilization)
            check("power over 150 W", (sample.power_w or 0) > 150, sample.power_w)
            mine = [each for each in sample.processes if each.pid == process.pid]
            apps = smi("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
            check("the process is listed", len(mine) == 1, [p.pid for p in sample.processes])
            told = {int(pid): int(mib) for pid, mib in re.findall(r"(\d+), (\d+)", apps)}
            held = (mine[0].memory_bytes or 0) // MIB if mine else 0
            check("with its memory", abs(held - told.get(process.pid, 0)) < 64, (held, told))
            check("and its utilisation", mine and mine[0].utilization, mine and mine[0].utilization)
            await unassigned(surveyor, uuid, process.pid)


async def unassigned(surveyor: Surveyor, uuid: str, pid: int) -> None:
    survey = await surveyor.survey()
    samples, _ = await surveyor.sample()
    seen = list(observed_processes(survey.gpus, samples, Path("/proc")))
    result = ProcessMonitor(grace_s=0).check(seen, {}, time.monotonic())
    found = [each for each in result.unassigned if each.observed.process.pid == pid]
    check("a process of no pod is unassigned", found, [each.words for each in found])
    check("and its GPU is not free", uuid in result.withheld, result.withheld)
    check("whose command is known", owner_of(pid), owner_of(pid))


def gone_astray(uuid: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HERE / "bad_kernel.py")],
        env=ENV | {"CUDA_VISIBLE_DEVICES": uuid},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def xid(uuid: str) -> None:
    """An error that a program caused is told, and says nothing against the GPU."""
    async with asking() as surveyor:
        await surveyor.xids()
        ran = gone_astray(uuid)
        check("a kernel goes astray", ran.stdout.strip() == "700", ran.stdout or ran.stderr)
        await asyncio.sleep(1)
        seen = await surveyor.xids()
        check("the driver reports it", (uuid, 31) in {(x.uuid, x.number) for x in seen}, seen)
        trouble = (await surveyor.survey()).gpus[0].trouble
        check("and the GPU is healthy", not trouble, trouble or "ok")


async def cost() -> None:
    """How long a look takes; not judged."""
    async with asking() as surveyor:
        took: dict[str, list[float]] = {"survey": [], "sample": [], "xids": []}
        for _ in range(10):
            for name, times in took.items():
                began = time.monotonic()
                await getattr(surveyor, name)()
                times.append(1000 * (time.monotonic() - began))
        for name, times in took.items():
            print(f"     {name}: {min(times):.1f} ms at best, {max(times):.1f} ms at worst")


def as_nobody(found: dict) -> None:
    """Unprivileged, the agent sees the same."""
    if os.geteuid() != 0:
        print("skip the unprivileged user: not run as root")
        return
    with tempfile.TemporaryDirectory() as folder:
        # The checkout may be closed to others.
        os.chmod(folder, 0o755)
        for part in filter(None, ENV["PYTHONPATH"].split(os.pathsep)):
            shutil.copytree(part, folder, dirs_exist_ok=True)
        said = subprocess.run(
            [*AGENT, "--once", "-o", "json"],
            env=ENV | {"PYTHONPATH": folder, "HOME": folder},
            cwd=folder,
            user=65534,
            group=65534,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    check("nobody may ask as well", said.returncode == 0, said.stderr[-500:] or "no error")
    if said.returncode == 0:
        mine = json.loads(said.stdout)["inventory"]
        check("and sees the same", mine == found["inventory"], mine["gpus"][0]["uuid"])


# -- hanging and dying -----------------------------------------------------------------------------


async def hang(folder: Path) -> None:
    switch = folder / "hang"
    ENV["HANGING_NVML"] = os.environ["HANGING_NVML"] = str(switch)
    os.environ["PYTHONPATH"] = ENV["PYTHONPATH"]
    nvml = Nvml("hanging_nvml", limit_s=1.0)
    surveyor = Surveyor(nvml, time.monotonic)
    try:
        survey = await surveyor.survey()
        uuid = survey.gpus[0].uuid
        switch.touch()
        began = time.monotonic()
        _, troubles = await surveyor.sample()
        took = time.monotonic() - began
        check("a call that hangs is given up", uuid in troubles and took < 3, f"{took:.2f} s")
        switch.unlink()
        again = Surveyor(nvml, time.monotonic)
        await again.survey()
        samples, _ = await again.sample()
        check("and the next process answers", samples[uuid].power_w, samples[uuid].power_w)
        check("which is a new one", nvml.starts == 2, nvml.starts)
        assert nvml._process is not None
        nvml._process.kill()
        with contextlib.suppress(NvmlUnavailable):
            await again.survey()
        survey = await again.survey()
        check("a killed one is replaced", survey.gpus[0].uuid == uuid, nvml.starts)
    finally:
        await nvml.close()


# -- the whole program -----------------------------------------------------------------------------


def program(folder: Path, uuid: str) -> None:
    """Against the embedded API server, where what it needs is installed."""
    if importlib.util.find_spec("cryptography") is None:
        print("skip the whole program: the embedded API server needs the package cryptography")
        return
    sys.path.insert(0, str(HERE))
    from lone_cluster import Cluster

    with Cluster.start(folder, ENV) as cluster:
        cluster.create_node("h200")
        with cluster.agent(AGENT, "h200") as agent:
            listed = cluster.eventually(lambda: cluster.inventory("h200"))
            check("the node's annotation lists the GPU", listed["gpus"][0]["uuid"] == uuid, uuid)
            with torch(40, uuid) as (process, _):
                held = cluster.eventually(lambda: cluster.health("h200") != "ok")
                check("a GPU with an unassigned process is withheld", held, cluster.health("h200"))
                told = cluster.eventually(lambda: cluster.events("UnassignedGPUProcess"))
                check("and it is reported", f"process {process.pid}" in told[0]["note"], told[0])
                text = keep("metrics.txt", _get(agent.url + "/metrics"))
                used = re.search(rf'unassigned_memory_used_bytes{{.*pid="{process.pid}".*', text)
                check("and counted", used, used and used[0])
                busy = re.search(r"fairlead_gpu_utilization_ratio\{.*\} (\S+)", text)
                check("load in /metrics", busy and float(busy[1]) > 0.5, busy and busy[0])
            gone = cluster.eventually(lambda: cluster.health("h200") == "ok")
            check("and given back when it is empty", gone, cluster.health("h200"))
            check("ready", _get(agent.url + "/readyz") == "ok", _get(agent.url + "/readyz"))
        keep("agent.log", agent.log.read_text())


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        found = inventory()
        uuid = found["inventory"]["gpus"][0]["uuid"]
        steps = (
            lambda: against_nvidia_smi(found),
            lambda: against_topology(found),
            lambda: visible_devices(uuid),
            lambda: asyncio.run(load(uuid)),
            lambda: asyncio.run(xid(uuid)),
            lambda: asyncio.run(cost()),
            lambda: as_nobody(found),
            lambda: asyncio.run(hang(Path(scratch))),
            lambda: program(Path(scratch), uuid),
        )
        for step in steps:
            try:
                step()
            except Exception:
                failed.append(traceback.format_exc())
                print("FAIL", failed[-1], flush=True)
    print(f"{len(failed)} failed, in {time.monotonic() - began:.0f} s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
