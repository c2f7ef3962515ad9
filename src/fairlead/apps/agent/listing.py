"""From NVML's answers to the node's annotation."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from msgspec.structs import replace

from fairlead.apps.agent.partitioning import GpuCut
from fairlead.base.node_inventory import FREE, WELL, GpuEntry, Listing, Slice
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.nvml.facts import Cut, GpuFacts
from fairlead.telemetry.nvml.links import FAR, SELF, fabric, nvlink_word
from fairlead.telemetry.nvml.survey import GpuSurvey

SYSFS = Path("/sys")
_TOOLKIT = "nvidia-ctk"
_TOOLKIT_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True)
class MpsListing:
    """By uuid: how many processes MPS serves where it is healthy, and why it is not elsewhere."""

    capacity: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def add_to(self, entry: GpuEntry) -> GpuEntry:
        note = entry.note or self.notes.get(entry.uuid, "")
        return replace(entry, mps=self.capacity.get(entry.uuid, 0), note=note)


def listing(
    survey: GpuSurvey,
    *,
    plugin: bool = False,
    toolkit: str = "",
    withheld: Mapping[str, str] | None = None,
    cuts: Mapping[str, GpuCut] | None = None,
    released: Sequence[str] | None = None,
    picked: Mapping[str, list[str]] | None = None,
    mps: MpsListing | None = None,
    sysfs: Path = SYSFS,
) -> Listing:
    """`withheld` says of healthy GPUs why no pod may get them.

    `cuts` are the GPUs that the agent cuts, and what is to be had of them. `released` are pods
    whose processes have ended; None where the agent cannot tell. `picked` are the GPUs that a
    device plugin chose, by the uid of the pod; None where the kubelet does not say.
    """
    reasons, ours, shared = withheld or {}, cuts or {}, mps or MpsListing()
    return Listing(
        gpus=[
            shared.add_to(
                _cut(_entry(gpu, survey, reasons.get(gpu.uuid, ""), sysfs), ours.get(gpu.uuid))
            )
            for gpu in survey.gpus
        ],
        fabric=fabric(survey.gpus),
        clique=next((gpu.clique for gpu in survey.gpus if gpu.clique), ""),
        driver=survey.system.driver,
        cuda=survey.system.cuda,
        toolkit=toolkit,
        plugin=plugin,
        confirms=released is not None,
        released=list(released or ()),
        picked=None if picked is None else dict(picked),
    )


def _entry(gpu: GpuFacts, survey: GpuSurvey, withheld: str, sysfs: Path) -> GpuEntry:
    return GpuEntry(
        index=gpu.index,
        uuid=gpu.uuid,
        model=gpu.model,
        memory_mib=gpu.memory_mib,
        numa=gpu.numa if gpu.numa >= 0 else numa_of(gpu.pci, sysfs),
        links=_links(gpu, survey) if len(survey.gpus) > 1 else [],
        mig=gpu.mig,
        slices=_slices(gpu.cuts),
        health=gpu.trouble or withheld or WELL,
    )


def _cut(entry: GpuEntry, cut: GpuCut | None) -> GpuEntry:
    if cut is None:
        return entry
    return replace(
        entry,
        slices=_slices(cut.cuts),
        cut=FREE if cut.slots else "",
        slots=cut.slots,
        health=cut.health if entry.health == WELL and cut.health else entry.health,
        note=cut.note,
    )


def _slices(cuts: Iterable[Cut]) -> list[Slice]:
    return [Slice(cut.name, cut.size, list(cut.starts), cut.memory_mib) for cut in cuts]


def _links(gpu: GpuFacts, survey: GpuSurvey) -> list[str]:
    paths = survey.paths.get(gpu.uuid, {})
    return [
        SELF if other.uuid == gpu.uuid else nvlink_word(gpu, other) or paths.get(other.uuid, FAR)
        for other in survey.gpus
    ]


def numa_of(pci: str, sysfs: Path = SYSFS) -> int:
    """The kernel's word; -1 where it has none, as on machines with one node."""
    try:
        return int((sysfs / "bus/pci/devices" / pci / "numa_node").read_text())
    except (OSError, ValueError):
        return -1


def toolkit_version() -> str:
    """Of NVIDIA's container toolkit, if it can be seen from here; else empty."""
    command = shutil.which(_TOOLKIT)
    if command is None:
        return ""
    try:
        said = subprocess.run(
            [command, "--version"],
            capture_output=True,
            text=True,
            timeout=_TOOLKIT_LIMIT_S,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"version (\d[\w.+-]{0,30})", said)
    return found[1] if found else ""
