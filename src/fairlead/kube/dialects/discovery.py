"""What labels say about a node's GPUs: their model, their number, and the links between them.

    nvidia.com/gpu.product, .count, .memory (MiB), .clique    # NVIDIA's GPU Feature Discovery
    node.kubernetes.io/instance-type                          # the cloud provider
    gpu.nvlink: "true"                                        # the administrator: all are joined

Labels name no single GPU. Such GPUs are counted: a request for a model or NVLink is matched, but
no part of one can be assigned.
"""

from collections.abc import Mapping
from dataclasses import replace

from fairlead.kube.dialects.api import NodeDeclaration
from fairlead.model import machines
from fairlead.model.gpus import Gpu, Inventory, Links
from fairlead.model.limits import MOST_GPUS
from fairlead.model.nodes import GPU
from fairlead.model.sizes import remembered

_PRODUCT, _COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
_MEMORY, _CLIQUE = "nvidia.com/gpu.memory", "nvidia.com/gpu.clique"
_REPLICAS, _STRATEGY = "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy"
_SHARED = "-SHARED"
_MACHINE = "node.kubernetes.io/instance-type"
_NVLINK = "gpu.nvlink"
_MIG = "nvidia.com/mig-"


def counted(declaration: NodeDeclaration) -> Inventory | None:
    """The GPUs as far as labels describe them; None without such labels."""
    labels = declaration.labels
    machine = labels.get(_MACHINE, "")
    product = labels.get(_PRODUCT) or machines.product_of(machine)
    gpus = _number(labels, _COUNT) or declaration.allocatable.get(GPU, 0)
    if not 0 < gpus <= MOST_GPUS or not (product or _all_joined(labels)):
        return None
    return _inventory(
        product, gpus, _number(labels, _MEMORY), machine, labels.get(_CLIQUE, ""),
        _all_joined(labels), _all_cut(declaration),
    )  # fmt: skip


def shared_by_plugin(labels: Mapping[str, str]) -> bool:
    """Whether the device plugin hands out each GPU several times: time-slicing or MPS."""
    if labels.get(_STRATEGY, "none") != "none" or labels.get(_PRODUCT, "").endswith(_SHARED):
        return True
    return _number(labels, _REPLICAS) > 1


def completed(found: Inventory, declaration: NodeDeclaration) -> Inventory:
    """An inventory that lists GPUs, with what it does not say and labels do."""
    clique = found.clique or declaration.labels.get(_CLIQUE, "")
    links = found.links or _links_by_index(found.gpus, declaration.labels)
    if (clique, links) == (found.clique, found.links):
        return found
    return replace(found, clique=clique, links=links)


def _links_by_index(gpus: tuple[Gpu, ...], labels: Mapping[str, str]) -> Links:
    """Machines are described in the order of their indices, which need not be the order here."""
    order = [gpu.index for gpu in gpus]
    models = {gpu.model for gpu in gpus}
    if sorted(order) != list(range(len(gpus))) or len(models) != 1:
        return ()
    links = _links(models.pop(), len(gpus), labels.get(_MACHINE, ""), _all_joined(labels))
    return tuple(tuple(links[a][b] for b in order) for a in order) if links else ()


# Few kinds of machines, and every heartbeat of a node comes by here.
@remembered(4 << 20)
def _inventory(
    product: str, gpus: int, memory_mib: int, machine: str, clique: str, all_joined: bool,
    all_cut: bool,
) -> Inventory:  # fmt: skip
    numa = machines.numa_of(gpus, machine)
    mig = machines.geometry_of(product, memory_mib) if all_cut else ()
    return Inventory(
        tuple(
            Gpu("", index, product, memory_mib, numa=numa[index], mig=mig) for index in range(gpus)
        ),
        _links(product, gpus, machine, all_joined),
        clique,
        named=False,
    )


def _links(product: str, gpus: int, machine: str, all_joined: bool) -> Links:
    known = machines.links_of(product, gpus, machine)
    if all_joined and not (known and machines.has_nvlink(known)):
        return machines.all_joined(gpus)
    return known


def _all_joined(labels: Mapping[str, str]) -> bool:
    return labels.get(_NVLINK) == "true"


def _all_cut(declaration: NodeDeclaration) -> bool:
    """MIG everywhere: the device plugin lists slices and no GPU."""
    offered = declaration.allocatable
    return not offered.get(GPU) and any(offered[name] for name in offered if name.startswith(_MIG))


def _number(labels: Mapping[str, str], key: str) -> int:
    """0 where the label is missing, or no number."""
    text = labels.get(key, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
