"""The real NVML, but while the file HANGING_NVML names is there, it hangs when asked for power."""

import os
import time
from pathlib import Path
from typing import Any

import pynvml


def __getattr__(name: str) -> Any:
    if name == "nvmlDeviceGetPowerUsage" and Path(os.environ["HANGING_NVML"]).exists():
        time.sleep(3600)
    return getattr(pynvml, name)
