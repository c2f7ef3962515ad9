"""What would have been enough for a pod, by what was measured.

Utilisation says that something ran, not how much of the GPU it filled: what is advised here is
what would have been enough, and less may do. Nothing is advised on a short look, or on a guess.
"""

import msgspec

from fairlead.model.gpus import WHOLE, MigProfile
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.usage import IDLE, Use

#: No advice before a pod was watched for so long.
ENOUGH_S = 1800.0
#: So much of the time has to be served in full, and this much is added on top.
_OF_THE_TIME = 0.95
_COMPUTE_MARGIN, _MEMORY_MARGIN = 1.2, 1.2
_STEPS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75)
_GIB = 1024


@dataclass(frozen=True, slots=True)
class PodAllocation:
    """What a pod has of each of its GPUs, and how those GPUs could be cut."""

    gpus: int
    whole: bool = True
    milli: int = WHOLE
    memory_mib: int = 0
    profile: str = ""
    gpu_memory_mib: int = 0
    mig: tuple[MigProfile, ...] = ()


class SizeAdvice(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A sentence for people, and the same as values for programs."""

    text: str
    #: unmeasured, too-early, guessed, idle, fewer-GPUs, smaller or right.
    kind: str
    gpus: int = 0
    share: float = 0.0
    memory_mib: int = 0
    profile: str = ""


def advise(use: Use, having: PodAllocation, enough_s: float = ENOUGH_S) -> SizeAdvice:
    """What would have been enough; or why nothing can be said."""
    if not use.watched_s:
        return SizeAdvice("no readings", "unmeasured")
    if use.watched_s < enough_s:
        seen, enough = span(use.watched_s), span(enough_s)
        return SizeAdvice(f"measured for {seen}; advice after {enough}", "too-early")
    if use.ever_guessed:
        return SizeAdvice("shares a GPU; per-pod usage is not available", "guessed")
    if use.idle_s >= use.measured_s * (1 - IDLE):
        return SizeAdvice(f"idle for {span(use.watched_s)}: delete it, or scale it down", "idle")
    at_work = use.busy_gpus.bit_count()
    if 0 < at_work < having.gpus:
        text = f"{at_work} of its {having.gpus} GPUs would have been enough"
        return SizeAdvice(text, "fewer-gpus", gpus=at_work)
    return _smaller(use, having) or SizeAdvice("has what it needs", "right")


def _smaller(use: Use, having: PodAllocation) -> SizeAdvice | None:
    """A part of the GPU, where that is less than it has. Several GPUs work as one."""
    high, gpu_mib = use.level_for(_OF_THE_TIME), having.gpu_memory_mib
    if having.gpus > 1 or high is None or use.memory_peak_mib is None or not gpu_mib:
        return None
    had = _share_had(having)
    compute = _step_up(min(1.0, high * had * _COMPUTE_MARGIN))
    memory = min(gpu_mib, _gib_up(use.memory_peak_mib * _MEMORY_MARGIN))
    cut = _slice_for(compute, memory, having)
    had_mib = gpu_mib if having.whole else having.memory_mib
    if having.profile:
        return _other_slice(cut, having)
    if compute >= had and memory > had_mib - 2 * _GIB:
        return None
    compute = min(compute, had)
    if having.whole and (compute == 1 or memory > 0.9 * gpu_mib):
        return None
    text = f"{compute:g} of a GPU with {memory // _GIB} GiB would have been enough"
    told = f"{text}, or a MIG {cut.name}" if cut and having.whole else text
    name = cut.name if cut and having.whole else ""
    return SizeAdvice(told, "smaller", share=compute, memory_mib=memory, profile=name)


def _other_slice(cut: MigProfile | None, having: PodAllocation) -> SizeAdvice | None:
    sizes = {kind.name: (kind.slices, kind.compute) for kind in having.mig}
    if cut is None or (cut.slices, cut.compute) >= sizes.get(having.profile, (0, 0)):
        return None
    return SizeAdvice(f"a MIG {cut.name} would have been enough", "smaller", profile=cut.name)


def _share_had(having: PodAllocation) -> float:
    if having.profile:
        kinds = {kind.name: kind.compute for kind in having.mig}
        most = max(kinds.values(), default=0)
        return kinds.get(having.profile, most) / most if most else 1.0
    return 1.0 if having.whole or not having.milli else having.milli / WHOLE


def _slice_for(share: float, memory_mib: float, having: PodAllocation) -> MigProfile | None:
    """The smallest slice with that much of both; None if only the whole GPU would do."""
    most = max((kind.compute for kind in having.mig), default=0)
    length = max((kind.slices for kind in having.mig), default=0)
    enough = [
        kind
        for kind in having.mig
        if kind.compute < most
        and kind.compute / most >= share
        and kind.slices / length * having.gpu_memory_mib >= memory_mib
    ]
    return min(enough, key=lambda kind: (kind.slices, kind.compute), default=None)


def _step_up(share: float) -> float:
    return next((step for step in _STEPS if step >= share - 1e-9), 1.0)


def _gib_up(mib: float) -> int:
    return max(1, -(-int(mib) // _GIB)) * _GIB


def span(seconds: float) -> str:
    """For people: 45 s, 12 min, 30 h, 5 d."""
    for unit, length, least in (("d", 86400.0, 2.0), ("h", 3600.0, 2.0), ("min", 60.0, 1.0)):
        if seconds >= least * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
