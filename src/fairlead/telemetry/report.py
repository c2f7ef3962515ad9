"""What `fairlead top` shows, as plain values: GPUs, pods, and sums over them."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from fairlead.telemetry.rightsizing import SizeAdvice

HOUR_S = 3600.0


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Holder(_Row, frozen=True):
    """A pod on a GPU, and what it has of it: `whole`, `0.5`, `16 GiB`, `1g.18gb`."""

    pod: str
    part: str
    #: What keeps it apart from others there: advisory, mps or mig; empty for a whole GPU, and
    #: where the device plugin of another system sees to it.
    isolation: str = ""


class GpuRow(_Row, frozen=True):
    """One GPU. None where it is not measured now."""

    node: str
    index: int
    uuid: str
    model: str
    #: free, whole, shared, sliced or lost.
    state: str
    #: Share of it that pods have, and of that what is at work.
    booked: float
    utilisation: float | None
    memory_mib: int
    memory_booked_mib: int
    memory_used_mib: float | None
    power_w: float | None
    reading_age_s: float | None
    holders: list[Holder]
    #: What it offers to shares: advisory, mps or mig; empty where its agent does not list it.
    isolation: str = ""


class PodRow(_Row, frozen=True):
    """One pod with GPUs. Hours are of GPUs: two GPUs for an hour are two."""

    namespace: str
    name: str
    owner: str
    scheduler: str
    node: str
    #: What it asked for in words, how many GPUs that is in all, and how much memory of each.
    asked: str
    held: float
    memory_mib: int
    #: Of what it holds: on the whole, for 19/20 of the time at most, and now.
    mean: float | None
    high: float | None
    utilisation: float | None
    memory_used_mib: float | None
    memory_peak_mib: float | None
    #: Told from a GPU that it shares with others.
    guessed: bool
    watched_s: float
    idle_for_s: float | None
    held_hours: float
    used_hours: float
    idle_hours: float
    wasted_hours: float
    advice: SizeAdvice
    #: Of its share, as for a holder.
    isolation: str = ""


class SumRow(_Row, frozen=True):
    """Several pods, or the GPUs of a node, as one."""

    name: str
    pods: int
    #: GPUs there are, where that can be said; held, measured, and at work now.
    gpus: int | None
    held: float
    measured: float
    used: float
    held_hours: float
    used_hours: float
    idle_hours: float
    wasted_hours: float

    @property
    def utilisation(self) -> float | None:
        return self.used / self.measured if self.measured else None


class HeldRow(_Row, frozen=True):
    """GPU time of one namespace since the counting began, of pods that have ended, too."""

    namespace: str
    held_hours: float
    used_hours: float
    idle_hours: float
    wasted_hours: float


class UsageReport(_Row, frozen=True):
    """All of it at one time. `since_s`: for how long it was added up."""

    since_s: float
    gpus: list[GpuRow]
    pods: list[PodRow]
    #: What could not be had, in words.
    notes: list[str] = []
    #: Empty where only the pods shown are counted.
    held: list[HeldRow] = []


def by_namespace(pods: Iterable[PodRow], held: Iterable[HeldRow] = ()) -> list[SumRow]:
    """With `held`, GPU time of pods that have ended counts, and namespaces that have none now."""
    found = {row.name: row for row in _summed(pods, lambda pod: pod.namespace)}
    for each in held:
        found[each.namespace] = _over(found.get(each.namespace, _sum(each.namespace, [])), [each])
    return list(found.values())


def by_owner(pods: Iterable[PodRow]) -> list[SumRow]:
    return _summed(pods, lambda pod: f"{pod.namespace}/{pod.owner or pod.name}")


def by_node(pods: Iterable[PodRow], gpus: Iterable[GpuRow]) -> list[SumRow]:
    """Every node that has GPUs, with or without pods."""
    counts: dict[str, int] = {}
    for gpu in gpus:
        counts[gpu.node] = counts.get(gpu.node, 0) + 1
    found = {row.name: row for row in _summed(pods, lambda pod: pod.node)}
    nobody = {name: _sum(name, []) for name in counts.keys() - found.keys()}
    rows = (found | nobody).items()
    return [msgspec.structs.replace(row, gpus=counts.get(name)) for name, row in rows]


def total(pods: list[PodRow], held: Sequence[HeldRow] = ()) -> SumRow:
    return _over(_sum("", pods), held) if held else _sum("", pods)


def _over(row: SumRow, held: Sequence[HeldRow]) -> SumRow:
    """The row, with this GPU time in place of that of its pods."""
    return msgspec.structs.replace(
        row,
        held_hours=sum(each.held_hours for each in held),
        used_hours=sum(each.used_hours for each in held),
        idle_hours=sum(each.idle_hours for each in held),
        wasted_hours=sum(each.wasted_hours for each in held),
    )


def _summed(pods: Iterable[PodRow], name_of: Callable[[PodRow], str]) -> list[SumRow]:
    groups: dict[str, list[PodRow]] = {}
    for pod in pods:
        groups.setdefault(name_of(pod), []).append(pod)
    return [_sum(name, group) for name, group in groups.items()]


def _sum(name: str, pods: list[PodRow]) -> SumRow:
    measured = [pod for pod in pods if pod.utilisation is not None]
    return SumRow(
        name=name,
        pods=len(pods),
        gpus=None,
        held=sum(pod.held for pod in pods),
        measured=sum(pod.held for pod in measured),
        used=sum(pod.held * (pod.utilisation or 0.0) for pod in measured),
        held_hours=sum(pod.held_hours for pod in pods),
        used_hours=sum(pod.used_hours for pod in pods),
        idle_hours=sum(pod.idle_hours for pod in pods),
        wasted_hours=sum(pod.wasted_hours for pod in pods),
    )
