"""What HAMi and Volcano vGPU have in common: their device plugins are brothers.

GPUs are written as `UUID,NVIDIA,MiB,percent:`, one after another, and containers are kept apart
with `;`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fairlead.kube.dialects.api import (
    MOST_ALTERNATIVES,
    MOST_NAMED,
    UUID,
    Assignment,
    Bound,
    GpuSpec,
    Part,
    alternatives,
    asked_mib,
    gpu_positions,
    most_at_once,
    number,
    unless_single,
)
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import WHOLE, GpuRequest, GpuUse, Grant, GrantSource
from fairlead.model.lazy_dataclass import dataclass

USE_TYPE, NO_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
_KIND = "NVIDIA"
_PERCENT = WHOLE // 100

#: What each container gets of each of its GPUs: thousandths, MiB, thousandths of the memory.
Each = tuple[int, int, int]
Section = tuple[GpuUse, ...]


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """Resources of one dialect."""

    count: str
    memory: str
    percentage: str
    cores: str

    @property
    def amounts(self) -> tuple[str, ...]:
        return self.memory, self.percentage, self.cores


def read_ask(gpu_spec: GpuSpec, names: ResourceNames, dialect: str) -> GpuRequest | None:
    """What the containers ask for; None if none of them asks for a GPU."""
    asked = [part for part in gpu_spec.parts if any(part.amounts.get(w) for w in names.amounts)]
    for part in asked:
        if not part.amounts.get(names.count):
            named = next(word for word in names.amounts if part.amounts.get(word))
            raise FairleadError(
                f"container {part.name!r} requests {named} without {names.count}; "
                f"add {names.count}: 1, because its device plugin is not called otherwise"
            )
    each = {_each(part, names) for part in gpu_spec.parts if part.amounts.get(names.count)}
    if not each:
        return None
    if len(each) > 1:
        raise FairleadError(
            f"its containers request different amounts of a GPU; give all that request "
            f"{names.count} the same amounts"
        )
    (milli, memory_mib, memory_milli) = each.pop()
    return GpuRequest(
        gpus=most_at_once(gpu_spec, names.count),
        # All of the compute means no other pod on the GPU.
        whole=milli == WHOLE,
        milli=milli,
        memory_mib=memory_mib,
        memory_milli=memory_milli,
        dialect=dialect,
        containers=unless_single(gpu_positions(gpu_spec, names.count)),
    )


def _each(part: Part, names: ResourceNames) -> Each:
    percent, cores = (
        _percent(part, word) for word in (names.percentage, names.cores)
    )  # fmt: skip
    memory_mib = asked_mib(part.amounts.get(names.memory, 0))
    if memory_mib and percent:
        raise FairleadError(
            f"container {part.name!r} requests {names.memory} and {names.percentage}; "
            "request one of them"
        )
    all_of_it = not memory_mib and not percent
    return cores * _PERCENT, memory_mib, WHOLE if all_of_it else percent * _PERCENT


def _percent(part: Part, word: str) -> int:
    percent = part.amounts.get(word, 0)
    if percent > 100:
        raise FairleadError(
            f"container {part.name!r} requests {percent} {word}; a GPU has 100. To request "
            "more GPUs, raise their number"
        )
    return percent


def with_kinds(ask: GpuRequest, said: Mapping[str, str]) -> GpuRequest:
    """Only, or never, GPUs with such a name."""
    return replace(ask, like=_listed(said, USE_TYPE), unlike=_listed(said, NO_TYPE))


def with_gpus(ask: GpuRequest, said: Mapping[str, str], only: str, never: str) -> GpuRequest:
    """Only, or never, the GPUs that these annotations name."""
    listed = [frozenset(_listed(said, key, MOST_NAMED)) for key in (only, never)]
    return replace(ask, only=listed[0], never=listed[1])


def _listed(said: Mapping[str, str], key: str, most: int = MOST_ALTERNATIVES) -> tuple[str, ...]:
    return alternatives(key, said.get(key, ""), ",", most)


# -- what the device plugin reads --------------------------------------------------------------


def sections(assignment: Assignment) -> list[str]:
    """The GPUs of each container, in the pod's order."""
    grant = assignment.grant
    containers = grant.containers or (tuple(range(len(grant.uses))),)
    return [
        "".join(_device_text(grant.uses[position]) for position in positions)
        for positions in containers
    ]


def _device_text(use: GpuUse) -> str:
    return f"{use.uuid},{_KIND},{use.memory_mib},{use.milli // _PERCENT}:"


def read_sections(text: str, bound: Bound, dialect: str) -> Grant | None:
    """The grant in the text; None if it cannot be read."""
    found: list[Section] = []
    for section in text.removesuffix(";").split(";"):
        uses = _section(section)
        if uses is None:
            return None
        found.append(uses)
    return _by_position(found, bound.ask, dialect) if any(found) else None


def _section(text: str) -> Section | None:
    uses = []
    for gpu in text.split(":"):
        if not gpu:
            continue
        uuid, _, rest = gpu.partition(",")
        kind, _, amounts = rest.partition(",")
        memory, _, cores = amounts.partition(",")
        mib, percent = number(memory), number(cores)
        if kind != _KIND or mib is None or percent is None or not 0 <= percent <= 100:
            return None
        if not UUID.fullmatch(uuid):
            return None
        uses.append(GpuUse(uuid, percent == 100, percent * _PERCENT, mib))
    return tuple(uses)


def _by_position(found: list[Section], ask: GpuRequest | None, dialect: str) -> Grant:
    """GPUs of init containers are those of later containers, if the pod was placed by us."""
    containers = (ask.containers or (tuple(range(ask.gpus)),)) if ask else ()
    if [len(section) for section in found] != [len(positions) for positions in containers]:
        uses = tuple(use for section in found for use in section)
        return Grant(uses, dialect, source=GrantSource.ASSIGNED)
    by_position: dict[int, GpuUse] = {}
    for section, positions in zip(found, containers, strict=True):
        by_position |= dict(zip(positions, section, strict=True))
    uses = tuple(use for _, use in sorted(by_position.items()))
    return Grant(uses, dialect, containers, source=GrantSource.ASSIGNED)


def joined(parts: Iterable[str], *, closed: bool) -> str:
    """Containers kept apart; HAMi also ends the last one."""
    text = ";".join(parts)
    return text + ";" if closed else text
