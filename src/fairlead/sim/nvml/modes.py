"""The compute mode of a GPU: how many programs may use it at once."""

from typing import Any

import pynvml

from fairlead.sim.nvml.sessions import Session, call, refuse


@call("nvmlDeviceGetComputeMode")
def compute_mode(session: Session, handle: Any) -> int:
    return session.gpu(handle).compute_mode


@call("nvmlDeviceSetComputeMode")
def set_compute_mode(session: Session, handle: Any, mode: int) -> int:
    """Processes that are already there are not asked about."""
    gpu = session.gpu(handle)
    if not session.machine.root:
        raise refuse(pynvml.NVML_ERROR_NO_PERMISSION)
    gpu.compute_mode = mode
    return 0
