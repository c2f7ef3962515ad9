"""Nodes, pods and requests for tests; everything that is not given has a default."""

from collections.abc import Mapping
from itertools import count
from typing import Any

from fairlead.model.gpus import WHOLE, Gpu, GpuRequest, Inventory
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Amounts, Pod, PodRequest, Taint
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement

#: The scheduler name of the pods, and the profile of a `TestCluster`.
SCHEDULER = "gpu-scheduler"
#: The dialect of `fairlead.dev/gpu-share` and the other annotations of Fairlead.
DIALECT = "fairlead"
_uids = count()


def a_request(
    gpus: int = 0, cpu: int = 0, *, resources: Mapping[str, int] | None = None, **more: Any
) -> PodRequest:
    """A request for so many GPUs, cpu in thousandths of a core, and other `resources` by name.

    `more` are fields of a `PodRequest`.
    """
    return PodRequest(resources=_amounts({"cpu": cpu, GPU: gpus, **(resources or {})}), **more)


def gpu_share(milli: int = WHOLE // 2, memory_mib: int = 0, **more: Any) -> GpuRequest:
    """A request for a part of one GPU, in thousandths; for `gpu_request` of a pod or request."""
    return GpuRequest(1, whole=False, milli=milli, memory_mib=memory_mib, dialect=DIALECT, **more)


def a_pod(name: str = "p", **more: Any) -> Pod:
    """A pod of the namespace `default`.

    `gpus`, `cpu` and fields of a `PodRequest` go into its request, the rest into the pod.
    """
    request = a_request(**{key: more.pop(key) for key in list(more) if key in _REQUEST_KEYS})
    defaults = {"uid": f"uid-{name}-{next(_uids)}", "scheduler": SCHEDULER}
    usage = more.pop("usage", request.resources)
    return Pod("default", name, **{**defaults, **more}, request=request, usage=usage)


_REQUEST_KEYS = {
    "gpus", "cpu", "resources", "scored", "node_name", "node_selector", "node_terms",
    "tolerations", "host_ports", "required_affinity", "anti_affinity", "spread", "namespace",
    "preferred", "soft_spread", "preferred_affinity", "features", "volumes", "gpu_request",
    "claims",
}  # fmt: skip


def a_node(
    name: str = "n1", gpus: int = 8, *, resources: Mapping[str, int] | None = None, **more: Any
) -> Node:
    """A node with so many GPUs, 64 cores, 1 TiB of memory and room for 110 pods.

    `more` are fields of a `Node`. Its GPUs are only counted unless `inventory` lists them.
    """
    amounts = {"cpu": 64_000, "memory": 1 << 40, "pods": 110, GPU: gpus, **(resources or {})}
    return Node(name, **{"allocatable": _amounts(amounts), **more})


def a_gpu_node(
    name: str = "n1", gpus: int = 8, *, model: str = "H100", memory_mib: int = 81_559, **more: Any
) -> Node:
    """A node that lists its GPUs individually: `GPU-<name>-0` and so on."""
    listed = tuple(Gpu(f"GPU-{name}-{n}", n, model, memory_mib) for n in range(gpus))
    return a_node(name, gpus, inventory=Inventory(listed, dialects=frozenset({DIALECT})), **more)


def a_taint(key: str = "dedicated", value: str = "", effect: str = "NoSchedule") -> Taint:
    """A taint that no pod tolerates by default."""
    return Taint(key, value, effect)


def pod_term(topology_key: str, namespace: str = "default", **labels: str) -> PodTerm:
    """An affinity term: pods with these labels, in one domain of the topology key."""
    return PodTerm(topology_key, selects(**labels), (namespace,))


def selects(**labels: str) -> LabelSelector:
    """A selector of pods with these labels."""
    return LabelSelector(tuple(Requirement(k, "In", (v,)) for k, v in sorted(labels.items())))


def _amounts(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
