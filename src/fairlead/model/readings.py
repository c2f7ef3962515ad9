"""What GPUs are doing, as measured."""

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from fairlead.model.lazy_dataclass import dataclass


class GpuReading(NamedTuple):
    """None where the source does not say. Shares are from 0 to 1.

    A tuple, since thousands are made, sent and read at a time.
    """

    #: Share of the time in which something ran on it.
    utilisation: float | None = None
    #: Share of the time in which its memory was read or written.
    memory_busy: float | None = None
    memory_used_mib: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    nvlink_bytes_s: float | None = None
    #: Whether its load rises and falls in a rhythm, as that of training does.
    cyclic: bool | None = None
    #: Its place among the GPUs of its node, for nodes that do not list theirs.
    place: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReadings:
    """The GPUs of one node at one time."""

    node: str
    #: By the engine's clock.
    taken_s: float
    #: By uuid, or by index as text where the source knows no better.
    gpus: Mapping[str, GpuReading]
    #: What single pods ("namespace/name", or uid) take of their GPUs, all of them together.
    pods: Mapping[str, GpuReading] = field(default_factory=dict)
    source: str = ""
