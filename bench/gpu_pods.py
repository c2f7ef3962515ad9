"""Pods and nodes for bench/engine.py whose GPUs are told apart, and prices to go with them."""

from itertools import cycle, islice

from fairlead.cluster.demand import shape_of
from fairlead.model.gpus import WHOLE, Gpu, GpuRequest, Inventory
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.prices import Basis, Prices
from fairlead.placement.prices import compute

_GIB = 1 << 30
#: Milli-cores, GPUs, thousandths of each and how many in a thousand: the shapes of the openb
#: trace (Alibaba, 2023) that make up 95 % of its pods.
_OPENB = (
    (3152, 1, 810, 135), (11300, 1, 1000, 113), (11400, 1, 1000, 77), (3152, 1, 1000, 61),
    (11908, 1, 470, 50), (12500, 0, 0, 47), (8000, 1, 470, 46), (12000, 1, 1000, 42),
    (32000, 0, 0, 37), (18708, 1, 1000, 33), (11908, 1, 650, 31), (4000, 1, 320, 30),
    (9810, 1, 1000, 25), (8000, 0, 0, 24), (8000, 1, 1000, 21), (4000, 1, 1000, 20),
    (15700, 1, 1000, 20), (11908, 1, 1000, 20), (16000, 1, 1000, 19), (4000, 1, 230, 16),
    (15400, 0, 0, 15), (6000, 1, 460, 15), (16500, 0, 0, 12), (14200, 1, 1000, 12),
    (24200, 1, 1000, 11), (3152, 1, 590, 10), (8000, 1, 320, 9), (4152, 1, 550, 9),
    (11900, 1, 1000, 7), (4000, 1, 160, 7), (4152, 1, 370, 6), (4000, 1, 220, 6),
    (8200, 1, 1000, 5), (15200, 1, 1000, 5), (4152, 1, 810, 4),
)  # fmt: skip


def eight_gpus(node: str) -> Inventory:
    gpus = tuple(Gpu(f"GPU-{node}-{index}", index, "G2", 32_768) for index in range(8))
    return Inventory(gpus, dialects=frozenset({"fairlead"}))


def one_gpu_pods(pods: int, scheduler: str) -> list[Pod]:
    request = _request(4000, 1, WHOLE)
    return [_pod(number, request, scheduler) for number in range(pods)]


def openb_pods(pods: int, scheduler: str) -> list[Pod]:
    """Mixed as evenly as can be: every shape as often as it comes in the trace."""
    requests = [_request(*shape[:3]) for shape in _OPENB]
    turns = sorted(
        ((turn + 0.5) / shape[3], at) for at, shape in enumerate(_OPENB) for turn in range(shape[3])
    )
    which = islice(cycle(at for _, at in turns), pods)
    return [_pod(number, requests[at], scheduler) for number, at in enumerate(which)]


def openb_prices(gpus: int) -> Prices | None:
    pods = ((shape_of(_request(*shape[:3])), shape[3]) for shape in _OPENB)
    found = tuple((shape, count) for shape, count in pods if shape)
    return compute(Basis(found, (("G2", gpus),)))


def _request(cpu: int, gpus: int, milli: int) -> PodRequest:
    ask = GpuRequest(gpus, milli == WHOLE, milli, dialect="fairlead") if gpus else None
    resources = (("cpu", cpu), ("memory", 16 * _GIB))
    return PodRequest(resources=resources, scored=(cpu, 16 * _GIB), gpu_request=ask)


def _pod(number: int, request: PodRequest, scheduler: str) -> Pod:
    return Pod("bench", f"p{number}", f"uid-{number}", scheduler=scheduler, request=request)
