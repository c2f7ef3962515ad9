"""NVIDIA's dcgm-exporter, as it is and behind Prometheus' relabelling."""

import re

from fairlead.telemetry.sources import api
from fairlead.telemetry.sources.exposition import Labels, book_of
from fairlead.telemetry.sources.formats import (
    ExporterFormat,
    Meaning,
    SeriesTarget,
    parse_gpu_index,
)

#: A slice has so many sevenths of the engines: the 3 of "3g.40gb".
_SLICE = re.compile(r"(\d{1,3})(?:c\.\d+)?g\.", re.ASCII)
_SEVENTHS = 7
#: The exporter's own, and what a Prometheus calls the machine that it found it on.
_NODE_LABELS = ("Hostname", "exported_node", "node", "kubernetes_node", "nodename", "instance")

SERIES = {
    "DCGM_FI_DEV_GPU_UTIL": Meaning("utilisation", 0.01),
    # Finer, and the only one that slices have: the other says 0 for them.
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": Meaning("utilisation", rank=1, of_slices=True),
    "DCGM_FI_DEV_MEM_COPY_UTIL": Meaning("memory_busy", 0.01),
    "DCGM_FI_PROF_DRAM_ACTIVE": Meaning("memory_busy", rank=1, of_slices=True),
    "DCGM_FI_DEV_FB_USED": Meaning("memory_used_mib", 1.0, api.MOST_MEMORY_MIB, of_slices=True),
    "DCGM_FI_DEV_POWER_USAGE": Meaning("power_w", 1.0, api.MOST_POWER_W),
    "DCGM_FI_DEV_GPU_TEMP": Meaning("temperature_c", 1.0, api.MOST_CELSIUS),
    # Called a counter, and a rate all the same: KiB in a second, divided by a thousand.
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": Meaning(
        "nvlink_bytes_s", 1024_000.0, api.MOST_NVLINK_BYTES_S
    ),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": Meaning(
        "nvlink_bytes_s", 1.0, api.MOST_NVLINK_BYTES_S, rank=1, adds=True
    ),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": Meaning(
        "nvlink_bytes_s", 1.0, api.MOST_NVLINK_BYTES_S, rank=1, adds=True
    ),
}


def whose(labels: Labels) -> SeriesTarget | None:
    """None if they name no GPU."""
    gpu = labels.get("UUID") or labels.get("uuid") or labels.get("gpu", "")
    if not gpu:
        return None
    return SeriesTarget(
        gpu, _node(labels), pod_of(labels), _part(labels), parse_gpu_index(labels.get("gpu", ""))
    )


def pod_of(labels: Labels) -> str:
    """A Prometheus that keeps the labels of its target renames ours: those are the pod's own."""
    prefix = "exported_" if "exported_pod" in labels else ""
    pod, namespace = labels.get(f"{prefix}pod", ""), labels.get(f"{prefix}namespace", "")
    return f"{namespace}/{pod}" if pod and namespace else ""


def _node(labels: Labels) -> str:
    return next((labels[key] for key in _NODE_LABELS if labels.get(key)), "")


def _part(labels: Labels) -> float:
    if not labels.get("GPU_I_ID"):
        return 1.0
    found = _SLICE.match(labels.get("GPU_I_PROFILE", ""))
    return min(int(found[1]), _SEVENTHS) / _SEVENTHS if found else 1 / _SEVENTHS


DCGM = ExporterFormat(SERIES, book_of(whose))
DEFAULT_URL = "http://{address}:9400/metrics"
