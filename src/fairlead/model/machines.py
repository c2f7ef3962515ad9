"""GPU machines as they are sold: what joins their GPUs, and how MIG cuts them.

Used where a node says which machine it is, but not how its GPUs are wired. Figures are for
comparing sets of GPUs on one machine, not for predicting speed.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from fairlead.model.gpus import NVLINK_GBPS, Links, MigProfile
from fairlead.model.sizes import remembered

#: Paths over PCIe, the shortest first, as `nvidia-smi topo -m` writes them. Whatever the bus, they
#: count less than any NVLink (`gpus.NVLINK_GBPS`): a ring over the bus shares it with others.
PCIE_GBPS: Mapping[str, int] = {"PIX": 14, "PXB": 13, "PHB": 12, "NODE": 11, "SYS": 10}
#: One NVLink, one way.
_NVLINK_GBPS = {"P100": 20, "B200": 50, "B300": 50, "GB200": 50, "GB300": 50}
_USUAL_NVLINK_GBPS = 25

#: Boxes with NVSwitch, or a board that joins all GPUs: NVLinks of each GPU.
_SWITCHED = {
    "A100": 12, "A800": 8, "H100": 18, "H800": 8, "H20": 18, "H200": 18, "GH200": 18,
    "B200": 18, "B300": 18, "GB200": 18, "GB300": 18,
}  # fmt: skip
#: The same models as add-in GPUs, which may have bridges or not.
_ADD_IN = frozenset({"PCIE", "NVL"})
#: Models that have no NVLink at all.
_PCIE_ONLY = frozenset(
    {"T4", "T4G", "L4", "L20", "L40", "L40S", "A2", "A10", "A10G", "A16", "P4", "P40", "M60", "K80"}
)

# DGX-1V: two fully linked quads, joined GPU by GPU; the double links make a ring.
_CUBE_MESH: Mapping[tuple[int, int], int] = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
    (0, 4): 2, (1, 5): 2, (2, 6): 1, (3, 7): 1,
}  # fmt: skip

#: How strong a GPU is beside others, in tenths: by generation and size, for comparing only.
_TENTHS: Mapping[str, float] = {
    "K80": 1, "M60": 1, "P4": 1, "A2": 2, "A16": 2, "P40": 2, "P100": 2, "TITAN": 2,
    "T4": 3, "T4G": 3, "V100": 4, "A10": 4, "A10G": 4, "L4": 4,
    "A30": 5, "A40": 5, "A6000": 5, "H20": 5, "L20": 5, "L40": 5,
    "A100": 6, "A800": 6, "L40S": 6, "H100": 8, "H800": 8, "H200": 8.5, "GH200": 8.5,
    "B200": 10, "B300": 10, "GB200": 10, "GB300": 10,
}  # fmt: skip
_MIDDLING_TENTHS = 5

#: Machines of clouds, with two sockets and half of the GPUs on each, and what is in them.
_SOLD: Mapping[str, str] = {
    "p3.16xlarge": "Tesla V100-SXM2-16GB",
    "p3dn.24xlarge": "Tesla V100-SXM2-32GB",
    "Standard_ND40rs_v2": "Tesla V100-SXM2-32GB",
    "p4d.24xlarge": "NVIDIA A100-SXM4-40GB",
    "p4de.24xlarge": "NVIDIA A100-SXM4-80GB",
    "Standard_ND96asr_v4": "NVIDIA A100-SXM4-40GB",
    "Standard_ND96amsr_A100_v4": "NVIDIA A100-SXM4-80GB",
    "a2-ultragpu-8g": "NVIDIA A100-SXM4-80GB",
    "p5.48xlarge": "NVIDIA H100 80GB HBM3",
    "a3-highgpu-8g": "NVIDIA H100 80GB HBM3",
    "a3-megagpu-8g": "NVIDIA H100 80GB HBM3",
    "Standard_ND96isr_H100_v5": "NVIDIA H100 80GB HBM3",
    "p5e.48xlarge": "NVIDIA H200",
    "p5en.48xlarge": "NVIDIA H200",
    "a3-ultragpu-8g": "NVIDIA H200",
    "Standard_ND96isr_H200_v5": "NVIDIA H200",
    "p6-b200.48xlarge": "NVIDIA B200",
    "a4-highgpu-8g": "NVIDIA B200",
    "g5.48xlarge": "NVIDIA A10G",
    "g6.48xlarge": "NVIDIA L4",
    "g6e.48xlarge": "NVIDIA L40S",
}


# -- names -----------------------------------------------------------------------------------------


def words_of(product: str) -> tuple[str, ...]:
    """`NVIDIA-H100-80GB-HBM3` and `NVIDIA H100 80GB HBM3` are the same words."""
    return _known_words(product) if len(product) <= _LONGEST_NAME else _words(product)


def _words(product: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[\s_-]+", product.upper()) if word)


#: No name of a product is longer; of longer ones nothing is kept.
_LONGEST_NAME = 128
_known_words = lru_cache(maxsize=4096)(_words)


def is_model(product: str, wanted: str) -> bool:
    """Whether a GPU of this product is the requested model: every word of the request is there.

    An H100 is `H100`, `h100 80GB` and `NVIDIA-H100-80GB-HBM3`, but no GH200. A slice that stands
    for a GPU (`…-MIG-1g.5gb`) is only what asks for such a slice.
    """
    short = len(product) <= _LONGEST_NAME and len(wanted) <= _LONGEST_NAME
    return (_known_to_be if short else _is_model)(product, wanted)


def _is_model(product: str, wanted: str) -> bool:
    words, wish = words_of(product), words_of(wanted)
    if "MIG" in words and "MIG" not in wish:
        return False
    return bool(wish) and set(wish) <= set(words)


_known_to_be = lru_cache(maxsize=4096)(_is_model)


def is_any_of(product: str, wanted: frozenset[str]) -> bool:
    """Whether a GPU of this product matches a request for any of these."""
    words = words_of(product)
    known, is_slice = set(words), "MIG" in words
    wishes = _by_first_word(wanted)
    return any(
        wish <= known and (not is_slice or "MIG" in wish)
        for word in words
        for wish in wishes.get(word, ())
    )


@remembered(2 << 20)
def _by_first_word(wanted: frozenset[str]) -> Mapping[str, tuple[frozenset[str], ...]]:
    """Products have few words, so that few of many alternatives need to be compared."""
    found: dict[str, tuple[frozenset[str], ...]] = {}
    for wish in wanted:
        if words := words_of(wish):
            found[words[0]] = (*found.get(words[0], ()), frozenset(words))
    return found


def strength_of(product: str) -> float:
    """How strong such a GPU is, 0 to 1; one that we do not know is in the middle."""
    found = (_TENTHS[word] for word in words_of(product) if word in _TENTHS)
    return next(found, _MIDDLING_TENTHS) / 10


def product_of(machine: str) -> str:
    """What is in a machine of a cloud, as the driver spells it; empty if we do not know it."""
    return _SOLD.get(machine, "")


# -- links -----------------------------------------------------------------------------------------


def link_gbps(path: str, product: str) -> int:
    """One entry of `nvidia-smi topo -m`: NV18 is eighteen NVLinks; 0 for what is no path."""
    bonded = re.fullmatch(r"NV(\d{1,3})", path)
    if bonded is None:
        return PCIE_GBPS.get(path, 0)
    rates = (_NVLINK_GBPS[word] for word in words_of(product) if word in _NVLINK_GBPS)
    return int(bonded[1]) * next(rates, _USUAL_NVLINK_GBPS)


def links_of(product: str, gpus: int, machine: str = "") -> Links:
    """What joins the GPUs of such a machine; empty where that differs from one to the next."""
    words = words_of(product)
    if "MIG" in words or gpus < 2:
        return ()
    if "V100" in words:
        return _volta(words, gpus)
    nvlinks = next((_SWITCHED[word] for word in words if word in _SWITCHED), 0)
    if nvlinks and _ADD_IN.isdisjoint(words):
        return all_joined(gpus, link_gbps(f"NV{nvlinks}", product))
    if not _PCIE_ONLY.isdisjoint(words):
        half = gpus // 2 if machine in _SOLD else gpus
        return _matrix(gpus, lambda a, b: PCIE_GBPS["NODE" if a // half == b // half else "SYS"])
    return ()


def all_joined(gpus: int, gbps: int = _USUAL_NVLINK_GBPS) -> Links:
    return _matrix(gpus, lambda _a, _b: gbps)


def numa_of(gpus: int, machine: str) -> tuple[int, ...]:
    """The NUMA node of each GPU; -1 if it is not known."""
    if machine not in _SOLD or gpus % 2:
        return (-1,) * gpus
    return tuple(index // (gpus // 2) for index in range(gpus))


def has_nvlink(links: Links) -> bool:
    return any(gbps >= NVLINK_GBPS for row in links for gbps in row)


def _volta(words: tuple[str, ...], gpus: int) -> Links:
    if "SXM3" in words:
        return all_joined(gpus, 6 * _USUAL_NVLINK_GBPS)
    return _matrix(gpus, _cube_mesh_gbps) if "SXM2" in words and gpus in {4, 8} else ()


def _cube_mesh_gbps(a: int, b: int) -> int:
    return _CUBE_MESH.get((min(a, b), max(a, b)), 0) * _USUAL_NVLINK_GBPS or PCIE_GBPS["SYS"]


def _matrix(gpus: int, gbps: Callable[[int, int], int]) -> Links:
    across = range(gpus)
    return tuple(tuple(0 if a == b else gbps(a, b) for b in across) for a in across)


# -- MIG -------------------------------------------------------------------------------------------


#: Compute slices, memory slices and first memory slices, as the driver of an H200 lists them.
_SEVENTHS = (
    (1, 1, (0, 1, 2, 3, 4, 5, 6)),
    (1, 2, (0, 2, 4, 6)),
    (2, 2, (0, 2, 4)),
    (3, 4, (0, 4)),
    (4, 4, (0,)),
    (7, 8, (0,)),
)
_QUARTERS = ((1, 1, (0, 1, 2, 3)), (2, 2, (0, 2)), (4, 4, (0,)))


def geometry_of(product: str, memory_mib: int) -> tuple[MigProfile, ...]:
    """How such a GPU can be cut; empty where it cannot, or it is not known.

    Seven compute and eight memory slices on the large GPUs from the A100 on, four of each on the
    A30. What the driver says (`nvidia-smi mig -lgipp`) is better where it is known. The slice
    with media engines is left out: there is one on a GPU, which its places do not show.
    """
    words = words_of(product)
    if "MIG" in words or memory_mib <= 0:
        return ()
    if "A30" in words:
        return _profiles(_QUARTERS, 4, memory_mib)
    return () if _SWITCHED.keys().isdisjoint(words) else _profiles(_SEVENTHS, 8, memory_mib)


def _profiles(
    cuts: tuple[tuple[int, int, tuple[int, ...]], ...], memory_slices: int, memory_mib: int
) -> tuple[MigProfile, ...]:
    """Named as NVIDIA does: by the memory on the box, halves rounded up."""
    sold_gb = -(-memory_mib // 1024)
    return tuple(
        MigProfile(f"{compute}g.{(2 * sold_gb * size // memory_slices + 1) // 2}gb", size, starts)
        for compute, size, starts in cuts
    )
