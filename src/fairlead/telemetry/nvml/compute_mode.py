"""Whether several programs may use a GPU at once: each is one question to the NVML process."""

from fairlead.telemetry.nvml.calls import Library

#: Any number of programs; none; one only, which may be an MPS server.
DEFAULT, PROHIBITED, EXCLUSIVE_PROCESS = 0, 2, 3


def compute_mode(library: Library, uuid: str) -> int:
    return int(library.nvmlDeviceGetComputeMode(library.nvmlDeviceGetHandleByUUID(uuid)))


def set_compute_mode(library: Library, uuid: str, mode: int) -> int:
    """The mode afterwards. It holds for programs that start from now on; it requires root."""
    library.nvmlDeviceSetComputeMode(library.nvmlDeviceGetHandleByUUID(uuid), mode)
    return compute_mode(library, uuid)
