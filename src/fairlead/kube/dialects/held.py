"""What a bound pod holds, whatever its annotations ask for now.

Annotations stay editable after the bind, so three sources may disagree:

    assignment     written with the bind, and by device plugins: it says what is held
    spec           immutable: no pod holds less than its containers request
    annotations    they ask; they count only where there is no assignment that can be read
"""

from collections.abc import Mapping
from dataclasses import replace

from fairlead.kube.dialects.fairlead import VISIBLE
from fairlead.kube.dialects.scheduling_map import Mapped
from fairlead.model.gpus import WHOLE, GpuRequest, GpuUse, Grant, GrantSource, Isolation
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.map_slots import Member
from fairlead.model.scheduling_map import MAP, MapError, parse


@dataclass(frozen=True, slots=True)
class BoundAsks:
    """What a bound pod asks for: with its annotations as they are now, and by its spec alone."""

    now: GpuRequest | None = None
    spec: GpuRequest | None = None
    #: Why the annotations cannot be read as a request; then `now` is what the spec says.
    problem: str = ""


def unassigned(ask: GpuRequest) -> Grant | None:
    """A part of some GPU: until it is known of which, none may be given away for it."""
    if ask.whole or ask.profile:
        return None  # counted as whole GPUs, or as slices
    uses = (GpuUse("", False, ask.milli, ask.memory_mib),) * ask.gpus
    return Grant(uses, ask.dialect, source=GrantSource.ASKED)


def at_least(said: Grant, spec: GpuRequest | None) -> Grant:
    """The assignment, and no less than the spec: where no policy is installed it can be forged."""
    if spec is None or spec.profile or not said.uses:
        return said
    missing = spec.gpus - len(said.uses)
    if missing <= 0 and all(_covers(use, spec) for use in said.uses):
        return said
    uses = tuple(use if _covers(use, spec) else _raised(use, spec) for use in said.uses)
    return replace(said, uses=uses + (GpuUse(""),) * missing)


def _covers(use: GpuUse, spec: GpuRequest) -> bool:
    return bool(use.slices) or (
        (use.whole or not spec.whole)
        and use.milli >= spec.milli
        and use.memory_mib >= spec.memory_mib
    )


def _raised(use: GpuUse, spec: GpuRequest) -> GpuUse:
    return replace(
        use,
        whole=use.whole or spec.whole,
        milli=max(use.milli, spec.milli),
        memory_mib=max(use.memory_mib, spec.memory_mib),
    )


def difference(grant: Grant, asks: BoundAsks, annotations: Mapping[str, str]) -> str:
    """How the request of a bound pod differs from what it was assigned; empty if it does not."""
    if asks.problem:
        return f"they are now not a valid request: {asks.problem}"
    if grant.dialect == Mapped.name:
        return _difference_of_map(grant.member, annotations)
    if asks.spec is not None:
        return ""  # other annotations do not say how much
    if asks.now is None:
        return "they now request no GPU"
    return "" if _agree(asks.now, grant) else f"they now request {_amounts(asks.now)}"


def _agree(ask: GpuRequest, grant: Grant) -> bool:
    if not grant.uses or (ask.dialect, ask.gpus) != (grant.dialect, len(grant.uses)):
        return False
    if ask.isolation not in (None, grant.isolation):
        return False
    use = grant.uses[0]
    if ask.profile or (use.slices and grant.isolation is not Isolation.MIG):
        return ask.profile == use.profile
    memory = ask.memory_mib in (0, use.memory_mib)
    return memory and (ask.whole, ask.milli) == (use.whole, use.milli)


def _amounts(ask: GpuRequest) -> str:
    if ask.profile:
        return f"{ask.gpus} x {ask.profile}"
    amounts = [f"{ask.milli / WHOLE:g} of the compute"] if ask.milli else []
    amounts += [f"{ask.memory_mib} MiB"] if ask.memory_mib else []
    isolation = f", isolated by {ask.isolation}" if ask.isolation else ""
    return f"{ask.gpus} x a GPU with {' and '.join(amounts) or 'nothing'}{isolation}"


def _difference_of_map(member: Member | None, annotations: Mapping[str, str]) -> str:
    if MAP not in annotations:
        return f"{MAP} was removed"
    if member is None:
        return ""
    try:
        line = parse(annotations[MAP]).line(member.index)
    except MapError as error:
        return str(error)
    if line.value == annotations.get(VISIBLE):
        return ""
    return f"{MAP} now gives index {member.index} other GPUs"
