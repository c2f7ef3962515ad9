"""Whole cards and MIG slices as the NVIDIA device plugin counts them: `nvidia.com/gpu`."""

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
from fairlead.model.limits import MOST_CARDS
from fairlead.model.nodes import GPU

_MIG = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb(?:\.me)?)")


class Nvidia(DialectDefaults):
    """Counts and labels name no single card: the device plugin picks, and is told nothing.

    A node may claim to have any number, and NodeResourcesFit counts them all. Cards are told apart
    up to what a machine can have.
    """

    name: ClassVar[str] = PLAIN

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        slices = {name for part in gpu_spec.parts for name in part.amounts if _MIG.fullmatch(name)}
        cards = most_at_once(gpu_spec, GPU)
        if cards and slices:
            raise FairleadError("it requests whole GPUs and MIG slices; request one kind")
        if cards:
            return GpuRequest(
                min(cards, MOST_CARDS), containers=unless_single(gpu_positions(gpu_spec, GPU))
            )
        if len(slices) > 1:
            raise FairleadError("it requests MIG slices of several kinds; request one kind")
        for name in slices:
            found = _MIG.fullmatch(name)
            count = min(most_at_once(gpu_spec, name), MOST_CARDS)
            if found and count:
                return GpuRequest(count, whole=False, milli=0, profile=found["profile"])
        return None
