"""`fairlead agent`: lists the GPUs of its node, and what they are doing."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

import msgspec
import structlog
from aiohttp import web

from fairlead import __version__
from fairlead.apps.agent.agent import Agent, AgentSettings
from fairlead.apps.agent.gpu_offers import CHOICES, Offers
from fairlead.apps.agent.listing import listing, toolkit_version
from fairlead.apps.agent.mps.clients import ClientRules
from fairlead.apps.agent.mps.control import MPS_CONTROL, MPS_FOLDER
from fairlead.apps.agent.mps.sharing import MpsSettings
from fairlead.apps.agent.partition_state import PartitionStateFile
from fairlead.apps.agent.partitioning import Owned, Partitioner, owned
from fairlead.apps.agent.resource_slices.device_pool import MODES, Mode, pool_parts
from fairlead.apps.agent.resource_slices.device_reader import DeviceReader
from fairlead.apps.agent.unassigned_processes import ProcessMonitor
from fairlead.apps.fast_loop import run_in_fast_loop, until_signalled
from fairlead.apps.serving import connections, http_limits
from fairlead.base import node_inventory
from fairlead.base.durations import seconds
from fairlead.base.nvidia_devices import Object
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.nvml.facts import GpuSample
from fairlead.telemetry.nvml.process import DEFAULT_LIBRARY, Nvml
from fairlead.telemetry.nvml.survey import Surveyor
from fairlead.telemetry.processes import PROC

log = structlog.get_logger(__name__)

_SHORTEST_S, _LONGEST_S = 0.1, 600.0


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the command line said."""

    node: str
    kubeconfig: str | None = None
    context: str | None = None
    address: str = "0.0.0.0"
    port: int = 9402
    interval: str = "5s"
    unassigned: str = "withhold"
    unassigned_after: str = "30s"
    trusted_namespaces: str = "kube-system,gpu-operator"
    #: None: as the node's capacity says.
    device_plugin: bool | None = None
    nvml: str = DEFAULT_LIBRARY
    proc: Path = PROC
    mig: str = "none"
    #: The directory of the partition state.
    state: Path | None = None
    pod_metrics: bool = False
    pod_resources: Path | None = None
    mps: str = "none"
    mps_processes: int = 1
    mps_folder: Path = MPS_FOLDER
    mps_control: str = MPS_CONTROL
    resource_slices: str = "none"
    gpu_resources: str = "none"


def run(options: AgentOptions) -> None:
    """Serves and publishes until SIGINT or SIGTERM."""
    settings, monitor = _settings(options), _monitor(options)
    run_in_fast_loop(lambda: _run(options, settings, monitor))


async def _run(options: AgentOptions, settings: AgentSettings, monitor: ProcessMonitor) -> None:
    nvml = Nvml(options.nvml)
    cutter = Nvml(options.nvml)
    partitioner = _partitioner(options, cutter)
    client = Client(
        load_access(options.kubeconfig, options.context),
        user_agent=f"fairlead-agent/{__version__}",
        max_connections=4,
    )
    settings = replace(settings, toolkit=await asyncio.to_thread(toolkit_version))
    agent = Agent(nvml, client, settings, monitor, partitioner, cutter)
    app = web.Application(client_max_size=1024)
    app.add_routes(http_limits.health(agent.metrics.registry, agent.unready_because))
    try:
        served = await connections.serve(app, options.address, options.port)
        health_at = f"http://{options.address}:{served.number}"
        log.info("started", version=__version__, node=options.node, health=health_at)
        try:
            await until_signalled(agent.run())
            await agent.stop()
        finally:
            await served.cleanup()
    finally:
        await agent.release_gpus()
        await nvml.close()
        await cutter.close()
        await client.close()
    log.info("stopped")


def _settings(options: AgentOptions) -> AgentSettings:
    pause_s = seconds(options.interval)
    if pause_s is None or not _SHORTEST_S <= pause_s <= _LONGEST_S:
        raise ConfigError(
            f"--interval is {options.interval!r}; write seconds or minutes such as 5s, at least "
            f"{_SHORTEST_S:g}s and at most {_LONGEST_S:g}s"
        )
    offers = _offers(options)
    return AgentSettings(
        options.node,
        pause_s,
        options.proc,
        # Where the agent itself offers whole GPUs, no device plugin does.
        plugin=False if offers == "all" else options.device_plugin,
        names_pods=options.pod_metrics,
        pod_resources=options.pod_resources,
        mps=_mps(options),
        resource_slices=_slice_mode(options),
        gpu_resources=offers,
    )


def _offers(options: AgentOptions) -> Offers:
    for choice in CHOICES:
        if options.gpu_resources == choice:
            if choice == "all" and options.device_plugin:
                raise ConfigError(
                    "--gpu-resources is all, and --device-plugin says that a device plugin offers "
                    "whole GPUs; write --gpu-resources parts"
                )
            return choice
    raise ConfigError(
        f"--gpu-resources is {options.gpu_resources[:80]!r}; choose {', '.join(CHOICES)}"
    )


def _slice_mode(options: AgentOptions) -> Mode:
    for mode in MODES:
        if options.resource_slices == mode:
            return mode
    raise ConfigError(
        f"--resource-slices is {options.resource_slices[:80]!r}; choose {', '.join(MODES)}"
    )


def _mps(options: AgentOptions) -> MpsSettings | None:
    """With `--mps none` too if an agent before us ran MPS: its daemons are then ended."""
    mine = owned(options.mps, "--mps")
    if mine == Owned() and not options.mps_folder.exists():
        return None
    if mine.overlaps(owned(options.mig)):
        raise ConfigError(
            f"--mps is {options.mps!r} and --mig is {options.mig!r}; a GPU has one of them"
        )
    rules = ClientRules(options.mps_processes, _trusted(options))
    return MpsSettings(mine, options.mps_folder, options.mps_control, rules, options.proc)


def _trusted(options: AgentOptions) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, options.trusted_namespaces.split(","))))


def _monitor(options: AgentOptions) -> ProcessMonitor:
    grace_s = seconds(options.unassigned_after)
    if grace_s is None or grace_s < 0:
        raise ConfigError(
            f"--unassigned-after is {options.unassigned_after!r}; "
            "write seconds or minutes such as 30s"
        )
    if options.unassigned not in ("report", "withhold"):
        raise ConfigError(
            f"--unassigned is {options.unassigned!r}; choose report, or withhold to also keep "
            "other pods off the GPU"
        )
    return ProcessMonitor(
        grace_s=grace_s, withhold=options.unassigned == "withhold", trusted=_trusted(options)
    )


def _partitioner(options: AgentOptions, nvml: Nvml) -> Partitioner | None:
    """With `--mig none` too if there is a state: what the agent created is then destroyed."""
    mine = owned(options.mig)
    if options.state is None:
        if mine != Owned():
            raise ConfigError(
                f"--mig is {options.mig!r}, which requires a place for the list of slices that "
                "the agent creates; add --state DIR, a directory that outlives the agent"
            )
        return None
    return Partitioner(nvml, mine, PartitionStateFile(options.state))


class AgentSnapshot(msgspec.Struct, rename="camel", omit_defaults=True):
    """Everything that one look at the machine shows."""

    node: str
    inventory: msgspec.Raw
    readings: list[GpuSample]
    #: What each ResourceSlice would have, if they are asked for.
    resource_slices: list[Object] = []


def once(options: AgentOptions) -> AgentSnapshot:
    """What would be published. No cluster is asked, so it says nothing about device plugins."""
    return asyncio.run(_once(options))


async def _once(options: AgentOptions) -> AgentSnapshot:
    mode = _slice_mode(options)
    nvml = Nvml(options.nvml)
    surveyor, reader = Surveyor(nvml, time.monotonic), DeviceReader(nvml)
    try:
        survey = await surveyor.survey()
        samples, _ = await surveyor.sample()
        if mode in ("whole", "mig"):
            await reader.read(survey)
    finally:
        await nvml.close()
    if not survey.gpus:
        raise FairleadError("NVML sees no GPU on this machine; is this a GPU node?")
    found = listing(survey, toolkit=await asyncio.to_thread(toolkit_version))
    text = node_inventory.write(found).encode()
    sick = {gpu.uuid for gpu in survey.gpus if gpu.trouble}
    parts = pool_parts(survey, reader.known, sick, divided=mode == "mig")
    return AgentSnapshot(options.node, msgspec.Raw(text), list(samples.values()), parts)


def show(look: AgentSnapshot, output: str, stream: IO[str]) -> None:
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(look), indent=2).decode(), file=stream)
        return
    found = msgspec.json.decode(look.inventory, type=node_inventory.Listing)
    used = {each.uuid: each for each in look.readings}
    for gpu in found.gpus:
        print(gpu.index, gpu.uuid, gpu.model, f"{gpu.memory_mib} MiB", gpu.health, file=stream)
        sample = used.get(gpu.uuid)
        for process in sample.processes if sample else ():
            mib = (process.memory_bytes or 0) >> 20
            print(f"  process {process.pid}: {mib} MiB", file=stream)
    for part in look.resource_slices:
        names = [
            each["name"] for each in (*part.get("sharedCounters", ()), *part.get("devices", ()))
        ]
        print("ResourceSlice:", *names, file=stream)
