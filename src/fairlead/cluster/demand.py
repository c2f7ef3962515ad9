"""Which pods come to this cluster: what they ask for, counted."""

from collections import Counter

from fairlead.model.gpus import WHOLE, GpuRequest
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.model.prices import PodShape
from fairlead.model.quantities import CPU, MEMORY

_MOST_PODS = 100_000
_MOST_REQUESTS = 4096
_MOST_BYTES = 16 << 20


class Demand:
    """Pods by request. It forgets: when it is full, every count is halved."""

    def __init__(self) -> None:
        self._counts: Counter[PodRequest] = Counter()
        self._total = 0
        self._bytes = 0
        #: Pods ever seen.
        self.seen = 0

    def add(self, request: PodRequest) -> None:
        count = self._counts[request] = self._counts[request] + 1
        self._total += 1
        self.seen += 1
        if count == 1:
            self._bytes += request.weight_bytes
        if (
            self._total > _MOST_PODS
            or len(self._counts) > _MOST_REQUESTS
            or self._bytes > _MOST_BYTES
        ):
            self._fade()

    def shapes(self, gpu_mib: int) -> tuple[tuple[PodShape, int], ...]:
        """Pods by shape. Who asks for MiB alone gets a share of a GPU with `gpu_mib`."""
        found: Counter[PodShape] = Counter()
        for request, count in self._counts.items():
            shape = shape_of(request, gpu_mib)
            if shape is not None:
                found[shape] += count
        return tuple(found.items())

    def _fade(self) -> None:
        halved = {request: count // 2 for request, count in self._counts.items() if count > 1}
        self._counts = Counter(halved)
        self._total = self._counts.total()
        self._bytes = sum(request.weight_bytes for request in self._counts)


def shape_of(request: PodRequest, gpu_mib: int = 0) -> PodShape | None:
    """None for a pod that asks for MIG slices, which have no price, or whose map has chosen."""
    cpu, memory = request.amount(CPU), request.amount(MEMORY)
    ask = request.gpu_request or _counted(request)
    if ask is None:
        return PodShape(cpu, memory)
    if ask.sliced or ask.map_slot:
        return None
    return PodShape(cpu, memory, ask.gpus, _milli(ask, gpu_mib), ask.models)


def _counted(request: PodRequest) -> GpuRequest | None:
    count = request.amount(GPU)
    return GpuRequest(count) if count else None


def _milli(ask: GpuRequest, gpu_mib: int) -> int:
    if ask.whole:
        return WHOLE
    by_memory = WHOLE * ask.memory_mib // gpu_mib if gpu_mib else 0
    return min(max(ask.milli, ask.memory_milli, by_memory, 1), WHOLE)
