"""What joins GPUs with each other, with memory and with the fabric."""

from typing import Any

import pynvml

from fairlead.sim.nvml.machine import SWITCH, FakeGpu
from fairlead.sim.nvml.readings import pci
from fairlead.sim.nvml.sessions import Session, call, refer, refuse

_ANCESTORS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
_SWITCH_SLOT = 0x1F
_COMPLETED = 3


@call("nvmlDeviceGetTopologyCommonAncestor")
def ancestor(session: Session, handle: Any, other: Any) -> int:
    gpu, second = session.gpu(handle), session.gpu(other)
    if gpu is second:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return _ANCESTORS[session.machine.path(gpu, second)]


@call("nvmlDeviceGetMemoryAffinity")
def memory_affinity(session: Session, handle: Any, words: int, _scope: int) -> Any:
    return _bits(words, 1 << session.gpu(handle).numa)


@call("nvmlDeviceGetCpuAffinity")
def cpu_affinity(session: Session, handle: Any, words: int) -> Any:
    return _bits(words, 0xFFFF << 16 * session.gpu(handle).numa)


def _bits(words: int, bits: int) -> Any:
    answer = (pynvml.c_ulonglong * words)()
    for word in range(words):
        answer[word] = bits >> 64 * word & (1 << 64) - 1
    return answer


@call("nvmlDeviceGetNumaNodeId")
def numa(session: Session, handle: Any) -> int:
    session.gpu(handle)
    raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)


# -- NVLink ----------------------------------------------------------------------------------------


@call("nvmlDeviceGetNvLinkState")
def link_state(session: Session, handle: Any, link: int) -> int:
    return int(bool(_peer(session.gpu(handle), link)))


@call("nvmlDeviceGetNvLinkRemotePciInfo")
def remote(session: Session, handle: Any, link: int) -> Any:
    peer = _peer(session.gpu(handle), link)
    if not peer:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return pci(FakeGpu("", slot=_SWITCH_SLOT) if peer == SWITCH else session.machine.gpu(peer))


@call("nvmlDeviceGetNvLinkRemoteDeviceType")
def remote_type(session: Session, handle: Any, link: int) -> int:
    peer = _peer(session.gpu(handle), link)
    if not peer:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    switch, gpu = pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
    return int(switch if peer == SWITCH else gpu)


def _peer(gpu: FakeGpu, link: int) -> str:
    if not gpu.links:
        raise refuse(pynvml.NVML_ERROR_NOT_SUPPORTED)
    if not 0 <= link < len(gpu.links):
        raise refuse(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return gpu.links[link]


# -- fabric ----------------------------------------------------------------------------------------


@call("nvmlDeviceGetGpuFabricInfoV")
def fabric(session: Session, handle: Any, reference: Any) -> int:
    session.gpu(handle)
    answer, machine = refer(reference), session.machine
    if machine.cluster_uuid:
        answer.state, answer.cliqueId = _COMPLETED, machine.clique
        answer.clusterUuid[:] = bytes.fromhex(machine.cluster_uuid.replace("-", ""))
    return 0
