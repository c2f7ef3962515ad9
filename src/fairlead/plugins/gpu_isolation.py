"""What keeps a share of a GPU from being isolated as requested, in words."""

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE, GpuRequest, Isolation

_NOT_INJECTED = (
    "the pod has no MPS variables: admission was not active when it was created; create it again"
)
_DIVIDED = "its GPUs are divided into MIG slices; request fairlead.dev/gpu-isolation: mig"
_NO_MPS = "no GPU has a healthy MPS daemon; the Fairlead agent runs them"
_ONLY_MPS = "its GPUs serve shares with MPS only; request fairlead.dev/gpu-isolation: mps"


def missing_isolation(ask: GpuRequest, node: Nodes, wanted: NodeMask) -> str:
    """About a single node and these of its GPUs; empty if isolation is not what is missing."""
    gpus, mps = node.gpus, ask.isolation is Isolation.MPS
    if mps and not ask.mps_injected:
        return _NOT_INJECTED
    wanted = wanted & gpus.undivided()[0]
    if not wanted.any():
        return _DIVIDED
    wanted = wanted & gpus.offer(ask)[0]
    if not wanted.any():
        return _NO_MPS if mps else _ONLY_MPS
    shared = wanted & (gpus.wholes()[0] == 0)
    unmixed = shared & gpus.unmixed(ask)[0]
    if shared.any() and not unmixed.any():
        return f"all {int(shared.sum())} shared GPUs have {_others(ask)}"
    if unmixed.any() and not (unmixed & gpus.clients_left(ask)[0]).any():
        return f"all MPS clients of {int(unmixed.sum())} GPUs are in use"
    return ""


def missing_on(ask: GpuRequest, node: Nodes, slot: int) -> str:
    """The same about one GPU of the node."""
    gpus = node.gpus
    if not gpus.offer(ask)[0, slot]:
        mps = ask.isolation is Isolation.MPS
        return "no healthy MPS daemon" if mps else "serves shares with MPS only"
    if not gpus.unmixed(ask)[0, slot]:
        return f"has {_others(ask)}"
    if not gpus.clients_left(ask)[0, slot]:
        return f"{int(gpus.users()[0, slot])} MPS clients, the maximum" if ask.mps_injected else ""
    return ""


def slice_of(ask: GpuRequest) -> str:
    """Which MIG slice it asks for: a profile, or one that covers a share."""
    if ask.profile:
        return ask.profile
    amounts = [f"{ask.milli / WHOLE:g} of a GPU"] if ask.milli else []
    amounts += [f"{ask.memory_mib} MiB"] if ask.memory_mib else []
    return f"slice for {' and '.join(amounts)}"


def _others(ask: GpuRequest) -> str:
    kind = "without MPS" if ask.isolation is Isolation.MPS else "with MPS"
    return f"shares {kind}, which are not mixed"
