"""A trace whose GPUs are published by a DRA driver, and whose jobs ask for them by claims."""

from collections.abc import Iterator
from dataclasses import field, replace
from typing import get_args

import msgspec

from fairlead.kube.claims.classes import decode_device_class
from fairlead.kube.claims.slices import decode_slice
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import (
    MOST_DEVICES,
    DeviceConstraint,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.device_gpus import NVIDIA
from fairlead.model.devices import DeviceClass, ResourceSlice
from fairlead.model.errors import ConfigError
from fairlead.model.gpus import WHOLE, Gpu, GpuRequest
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.sim.dra import shapes
from fairlead.sim.dra.mig_layout import H100_LAYOUT
from fairlead.sim.machines import H100, GpuDriver, Machine, MachineType, inventory
from fairlead.sim.traces.trace import SimTrace
from fairlead.sim.virtual.jobs import NAMESPACE, SimJob

#: What `--dra` takes: the drivers that the simulated machines know.
DRIVERS = tuple(name for name in get_args(GpuDriver) if name != "plugin")
_CLASSES = {"whole": NVIDIA, "mig": NVIDIA, "example": shapes.EXAMPLE}
_MIG_CLASS = "mig.nvidia.com"
#: With DynamicMIG NVIDIA's driver publishes a counter set for each GPU, all of them in one slice.
_MOST_DIVIDED = 8
_ENTRY = "gpus"
#: The model of GPUs of traces that name none.
_ANY_MODEL = "GPU"
_SEVENTHS = 7


@dataclass(frozen=True, slots=True)
class ClaimedTrace:
    """What a simulation needs beside nodes and jobs."""

    trace: SimTrace
    classes: tuple[DeviceClass, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    #: By "namespace/name".
    templates: dict[str, ResourceClaim] = field(default_factory=dict)
    #: GPUs that drivers publish, by node.
    published: dict[str, int] = field(default_factory=dict)
    #: Drivers whose devices are GPUs although nothing of them says so.
    gpu_drivers: frozenset[str] = frozenset()


def by_claims(trace: SimTrace, driver: str) -> ClaimedTrace:
    """The trace on the same nodes, with a driver in place of the device plugin."""
    if driver not in DRIVERS:
        raise ConfigError(f"--dra is {driver!r}; choose {', '.join(DRIVERS)}")
    machines = [_machine(node, driver, number) for number, node in enumerate(trace.nodes)]
    templates = _Templates(driver)
    jobs = tuple(templates.job(job) for job in trace.jobs)
    nodes = tuple(map(_with_driver, trace.nodes, machines))
    return ClaimedTrace(
        SimTrace(trace.name, nodes, jobs),
        tuple(decode_device_class(_json(each)) for each in shapes.classes()),
        tuple(part for machine in machines if machine for part in _published(machine)),
        templates.made,
        {machine.name: machine.shape.gpus for machine in machines if machine},
        frozenset({shapes.EXAMPLE}) if driver == "example" else frozenset(),
    )


# -- nodes -----------------------------------------------------------------------------------------


def _machine(node: Node, driver: str, number: int) -> Machine | None:
    """None: a node without GPUs."""
    gpus = node.inventory.gpus if node.inventory else ()
    if not gpus:
        return None
    if driver == "mig" and len(gpus) > _MOST_DIVIDED:
        raise ConfigError(
            f"node {node.name} has {len(gpus)} GPUs; with --dra mig a node has at most "
            f"{_MOST_DIVIDED}, as NVIDIA's driver cannot publish more"
        )
    model = gpus[0].model
    gpu = H100 if model == _ANY_MODEL or driver == "mig" else replace(H100, model=model)
    links = tuple(tuple("X" if a == b else "SYS" for b in gpus) for a in gpus)
    shape = MachineType("sim", "sim", gpu, 0, 0, (0,) * len(gpus), links, "pcie")
    (kind,) = (each for each in get_args(GpuDriver) if each == driver)
    return Machine(node.name, shape, "", number, kind)


def _with_driver(node: Node, machine: Machine | None) -> Node:
    """An agent lists the GPUs that NVIDIA's driver publishes, as `fairlead up --dra` has it."""
    if machine is None or node.inventory is None:
        return node
    if machine.driver == "example":
        return replace(node, inventory=None)
    listed = tuple(
        Gpu(entry.uuid, entry.index, gpu.model)
        for entry, gpu in zip(inventory(machine).gpus, node.inventory.gpus, strict=True)
    )
    return replace(node, inventory=replace(node.inventory, gpus=listed))


def _published(machine: Machine) -> Iterator[ResourceSlice]:
    for part in shapes.slices(machine, machine.name):
        yield decode_slice(_json(part))


def _json(found: shapes.Object) -> bytes:
    return msgspec.json.encode(found)


# -- jobs ------------------------------------------------------------------------------------------


class _Templates:
    """Templates for what pods ask for: one for all that ask for the same."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self.made: dict[str, ResourceClaim] = {}
        self._names: dict[tuple[DeviceNeed, int], str] = {}

    def job(self, job: SimJob) -> SimJob:
        return replace(job, pods=tuple(self._pod(job, pod) for pod in job.pods))

    def _pod(self, job: SimJob, pod: Pod) -> Pod:
        asked = pod.request.gpu_request
        if asked is None:
            return pod
        try:
            template = self._named(asked)
        except ConfigError as error:
            raise ConfigError(f"job {job.name}: {error}") from None
        use = ClaimUse(_ENTRY, "", template=template)
        return replace(pod, request=replace(pod.request, gpu_request=None, claims=(use,)))

    def _named(self, asked: GpuRequest) -> str:
        if asked.gpus > MOST_DEVICES:
            raise ConfigError(f"a claim has at most {MOST_DEVICES} devices, not {asked.gpus}")
        known = _CLASSES[self._driver] if asked.whole else _MIG_CLASS
        need = DeviceNeed(known, selectors=tuple(self._selectors(asked)))
        name = self._names.get((need, asked.gpus))
        if name is None:
            name = self._names[need, asked.gpus] = f"devices-{len(self._names) + 1}"
            claim = _claim(name, need, asked)
            self.made[claim.key] = claim
        return name

    def _selectors(self, asked: GpuRequest) -> Iterator[str]:
        if asked.models and self._driver != "whole":
            raise ConfigError("it asks for a model of GPU; only --dra whole publishes models")
        if not asked.whole and self._driver != "mig":
            raise ConfigError("it asks for a part of a GPU; only --dra mig has parts")
        if asked.models:
            names = ", ".join(f"'{name}'" for name in sorted(asked.models))
            yield f"device.attributes['{NVIDIA}'].productName in [{names}]"
        if not asked.whole:
            yield f"device.attributes['{NVIDIA}'].profile == '{_profile(asked.milli)}'"


def _claim(name: str, need: DeviceNeed, asked: GpuRequest) -> ResourceClaim:
    """Parts are parts of different GPUs."""
    if asked.whole:
        request = DeviceRequest(_ENTRY, replace(need, count=asked.gpus))
        return ResourceClaim(NAMESPACE, name, requests=(request,))
    requests = tuple(DeviceRequest(f"{_ENTRY}-{number}", need) for number in range(asked.gpus))
    apart = DeviceConstraint(distinct_attribute=f"{NVIDIA}/parentUUID")
    constraints = (apart,) if asked.gpus > 1 else ()
    return ResourceClaim(NAMESPACE, name, requests=requests, constraints=constraints)


def _profile(milli: int) -> str:
    """The smallest slice that has so much of the compute of a GPU, which has seven parts."""
    plain = (layout.profile for layout in H100_LAYOUT if "+" not in layout.profile)
    fitting = (each for each in plain if int(each[0]) * WHOLE >= milli * _SEVENTHS)
    return next(fitting)
