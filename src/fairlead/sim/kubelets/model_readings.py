"""The readings of the simulated GPUs, as the model has them."""

from collections.abc import Iterable

from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.sim.kubelets.gpus import SimulatedReading


def node_readings(node: str, gpus: Iterable[SimulatedReading], now_s: float) -> NodeReadings:
    """Without lost GPUs; of a pod the mean utilisation and the sum of memory over its GPUs."""
    by_gpu: dict[str, GpuReading] = {}
    by_pod: dict[str, list[tuple[int, int]]] = {}
    for gpu in gpus:
        if gpu.lost:
            continue
        by_gpu[gpu.uuid or str(gpu.index)] = GpuReading(
            utilisation=gpu.utilisation_percent / 100,
            memory_used_mib=gpu.memory_used_mib,
            power_w=gpu.power_w,
        )
        for pod, work in gpu.pods.items():
            by_pod.setdefault(pod, []).append(work)
    pods = {pod: _together(works) for pod, works in by_pod.items()}
    return NodeReadings(node, now_s, by_gpu, pods, "simulated")


def _together(works: list[tuple[int, int]]) -> GpuReading:
    busy = sum(percent for percent, _ in works) / 100 / len(works)
    return GpuReading(utilisation=busy, memory_used_mib=sum(mib for _, mib in works))
