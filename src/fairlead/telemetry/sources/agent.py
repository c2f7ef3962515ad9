"""Fairlead's own agent on each node."""

import math

from fairlead.telemetry.sources import api
from fairlead.telemetry.sources.exposition import Labels, book_of
from fairlead.telemetry.sources.formats import (
    AGE,
    ExporterFormat,
    Meaning,
    SeriesTarget,
    parse_gpu_index,
)

_MIB = 2.0**-20
_LONGEST_S = 1e9

SERIES = {
    "fairlead_gpu_utilization_ratio": Meaning("utilisation"),
    "fairlead_gpu_memory_busy_ratio": Meaning("memory_busy"),
    "fairlead_gpu_memory_used_bytes": Meaning("memory_used_mib", _MIB, api.MOST_MEMORY_MIB),
    "fairlead_gpu_power_watts": Meaning("power_w", 1.0, api.MOST_POWER_W),
    "fairlead_gpu_temperature_celsius": Meaning("temperature_c", 1.0, api.MOST_CELSIUS),
    "fairlead_gpu_pod_utilization_ratio": Meaning("utilisation", of_pod=True),
    "fairlead_gpu_pod_memory_used_bytes": Meaning(
        "memory_used_mib", _MIB, api.MOST_MEMORY_MIB, of_pod=True
    ),
    "fairlead_agent_reading_age_seconds": Meaning(AGE, 1.0, _LONGEST_S),
    "fairlead_gpu_nvlink_bytes_total": Meaning(
        "nvlink_bytes_s", 1.0, math.inf, adds=True, grows=True
    ),
}


def whose(labels: Labels) -> SeriesTarget | None:
    """Slices have uuids of their own, and the agent reports their GPU, too."""
    gpu = labels.get("uuid") or labels.get("gpu", "")
    gpu = "" if gpu.startswith("MIG-") else gpu
    pod, namespace = labels.get("pod", ""), labels.get("namespace", "")
    owner = f"{namespace}/{pod}" if pod else labels.get("pod_uid", "")
    return SeriesTarget(
        gpu, labels.get("node", ""), owner, index=parse_gpu_index(labels.get("gpu", ""))
    )


AGENT = ExporterFormat(SERIES, book_of(whose))
DEFAULT_URL = "http://{address}:9402/metrics"
