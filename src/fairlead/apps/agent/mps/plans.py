"""What the control daemon of each GPU is to enforce. No I/O and no clock."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field

from fairlead.model.gpus import WHOLE, GpuUse, Isolation
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import GpuFacts

#: While no pod has a share: less than a CUDA context requires.
CLOSED_PERCENT, CLOSED_MIB = 1.0, 1


@dataclass(frozen=True, slots=True)
class MpsShare:
    """What one pod was assigned of a GPU."""

    percent: float
    memory_mib: int


@dataclass(frozen=True, slots=True)
class MpsPlan:
    """`shares` by the uid of their pod. There is no daemon if `off_because` gives a reason."""

    shares: Mapping[str, MpsShare] = field(default_factory=dict)
    off_because: str = ""

    @property
    def percent(self) -> float:
        """What no process can exceed: the largest share."""
        return max((share.percent for share in self.shares.values()), default=CLOSED_PERCENT)

    @property
    def memory_mib(self) -> int:
        return max((share.memory_mib for share in self.shares.values()), default=CLOSED_MIB)


def mps_plans(pods: Iterable[Pod], gpus: Iterable[GpuFacts], *, plugin: bool) -> dict[str, MpsPlan]:
    """By the uuid of the GPU. `plugin`: a device plugin chooses the GPUs of this node."""
    listed = list(gpus)
    shares: dict[str, dict[str, MpsShare]] = {gpu.uuid: {} for gpu in listed}
    memory = {gpu.uuid: gpu.memory_mib for gpu in listed}
    without: set[str] = set()
    for pod in pods:
        for use in pod.grant.uses if pod.grant and not pod.finished else ():
            if use.uuid not in shares:
                continue
            if _by_mps(pod):
                shares[use.uuid][pod.uid] = _share(use, memory[use.uuid])
            else:
                without.add(use.uuid)
    return {
        gpu.uuid: MpsPlan(shares[gpu.uuid], _off(gpu, without, shares[gpu.uuid], plugin))
        for gpu in listed
    }


def _by_mps(pod: Pod) -> bool:
    return pod.grant is not None and pod.grant.isolation is Isolation.MPS


def _share(use: GpuUse, memory_mib: int) -> MpsShare:
    """A share by memory alone has no limit of compute, and the reverse."""
    return MpsShare((use.milli or WHOLE) * 100 / WHOLE, use.memory_mib or memory_mib)


def _off(
    gpu: GpuFacts, without: AbstractSet[str], shares: Mapping[str, MpsShare], plugin: bool
) -> str:
    """A pod that uses a GPU without MPS does not end the daemon of pods that share it."""
    if gpu.index < 0:
        return "the driver does not see the GPU"
    if gpu.mig_on:
        return "MIG is enabled on the GPU"
    if plugin:
        return "a device plugin chooses the GPUs of this node"
    if gpu.uuid in without and not shares:
        return "a pod uses the GPU without MPS"
    return ""
