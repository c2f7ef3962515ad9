"""Whole GPUs and MIG slices as the NVIDIA device plugin counts them: `nvidia.com/gpu`."""

import re
from typing import ClassVar

from fairlead.kube.dialects.api import (
    DialectDefaults,
    GpuSpec,
    gpu_positions,
    most_at_once,
    unless_single,
)
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import PLAIN, GpuRequest
from fairlead.model.limits import MOST_GPUS
from fairlead.model.nodes import GPU

_MIG = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb(?:\.me)?)")


class Nvidia(DialectDefaults):
    """Counts and labels name no single GPU: the device plugin picks, and gets nothing.

    A node may claim to have any number, and NodeResourcesFit counts them all. GPUs are told apart
    up to what a machine can have.
    """

    name: ClassVar[str] = PLAIN

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        slices = {name for part in gpu_spec.parts for name in part.amounts if _MIG.fullmatch(name)}
        gpus = most_at_once(gpu_spec, GPU)
        if gpus and slices:
            raise FairleadError("it requests whole GPUs and MIG slices; request one kind")
        if gpus:
            return GpuRequest(
                min(gpus, MOST_GPUS), containers=unless_single(gpu_positions(gpu_spec, GPU))
            )
        if len(slices) > 1:
            raise FairleadError("it requests MIG slices of several kinds; request one kind")
        for name in slices:
            found = _MIG.fullmatch(name)
            count = min(most_at_once(gpu_spec, name), MOST_GPUS)
            if found and count:
                return GpuRequest(count, whole=False, milli=0, profile=found["profile"])
        return None
