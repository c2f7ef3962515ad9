"""A workload: the schema of a workload file, and the load generator that follows it.

The generator does no I/O and reads no clock. It gets the state of the cluster, and returns what to
create and what to delete. The same states with the same seed give the same actions.
"""

from collections.abc import Mapping
from itertools import count
from random import Random
from typing import Annotated, Literal

import msgspec

from fairlead.base.durations import length_s
from fairlead.model.lazy_dataclass import dataclass

#: On every object and every pod of the workload: the name of the one that it belongs to.
SAMPLE = "fairlead.dev/sample"

#: For so long after its creation, work may have no pods yet.
_ON_ITS_WAY_S = 5.0
#: The fraction of the missing load that one step creates: the start is a ramp.
_RAMP = 0.25

#: The label by which a pod names its queue.
QUEUE_LABEL = "fairlead.dev/queue"

Kind = Literal["Pod", "StatefulSet", "Job"]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$")]


class Stream(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """One sort of work that keeps coming."""

    name: Name
    kind: Kind = "Pod"
    #: GPUs of each pod, or a part of one GPU in their place; and pods of each piece of work.
    gpus: Annotated[int, msgspec.Meta(ge=0, le=64)] = 1
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    replicas: Annotated[int, msgspec.Meta(ge=1, le=512)] = 1
    #: The pods of each piece of work are a gang: all of them run, or none.
    gang: bool = False
    #: A fixed pace. Without one, work comes as the load needs it, as often as `weight` says.
    every: str | None = None
    weight: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 1.0
    #: How long a pod runs: "30s", or drawn from a range, "10s-1m".
    run_for: str = "30s"
    #: Work without a placed pod is deleted after this.
    patience: str = "1m"
    priority: Annotated[int, msgspec.Meta(ge=-1_000_000_000, le=1_000_000_000)] = 0
    scheduler_name: Annotated[str, msgspec.Meta(min_length=1, max_length=253)] = "gpu-scheduler"
    cpu: str = "1"
    memory: str = "1Gi"
    labels: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    #: The queue of its pods, by name.
    queue: Name | None = None
    #: Each pod has a claim for so many devices of this class instead of GPUs: `gpus` of them, or
    #: one, which is `share` of a GPU; and a CEL expression about the devices.
    device_class: Annotated[str, msgspec.Meta(min_length=1, max_length=253)] | None = None
    device_selector: str = ""

    def __post_init__(self) -> None:
        for name in ("every", "patience"):
            value = getattr(self, name)
            if value is not None and length_s(value) <= 0:
                raise ValueError(f"{name} must be longer than nothing")
        low, high = self.run_range_s
        if not 0 < low <= high:
            raise ValueError("runFor must be longer than nothing, and a range goes upwards")

    @property
    def run_range_s(self) -> tuple[float, float]:
        low, _, high = self.run_for.partition("-")
        return length_s(low), length_s(high or low)

    @property
    def total_gpus(self) -> float:
        """Of one piece of work, all its pods together."""
        return (self.share or self.gpus) * self.replicas


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class TeamQueue(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A queue that the workload makes. Amounts are shares of all GPUs of the cluster."""

    name: Name
    parent: Name | None = None
    guaranteed: Share = 0.0
    limit: Share | None = None
    weight: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 1.0


class Workload(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The whole file."""

    streams: list[Stream]
    api_version: Literal["fairlead.dev/v1alpha1"] = "fairlead.dev/v1alpha1"
    kind: Literal["Workload"] = "Workload"
    seed: int = 1
    #: How much of all GPUs the work should keep busy.
    load: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.8
    queues: list[TeamQueue] = []

    def __post_init__(self) -> None:
        if not self.streams:
            raise ValueError("streams is empty; name at least one")
        _refuse_twice("streams", [stream.name for stream in self.streams])
        _refuse_twice("queues", [queue.name for queue in self.queues])
        known = {queue.name for queue in self.queues}
        named = [*(queue.parent for queue in self.queues), *(each.queue for each in self.streams)]
        missing = sorted({name for name in named if name and name not in known})
        if missing:
            raise ValueError(f"there is no queue {missing[0]!r}; add it to queues")


def _refuse_twice(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two {what} are called {twice[0]!r}; rename one")


@dataclass(frozen=True, slots=True)
class Create:
    stream: Stream
    name: str
    run_for_s: float


@dataclass(frozen=True, slots=True)
class Delete:
    kind: Kind
    name: str


Action = Create | Delete


@dataclass(frozen=True, slots=True)
class WorkloadPods:
    """The pods of one piece of work that have not ended: how many have a node, how many wait."""

    bound: int = 0
    waiting: int = 0


_NOTHING = WorkloadPods()


@dataclass(slots=True)
class _Piece:
    stream: Stream
    created_s: float
    run_for_s: float
    bound_s: float | None = None


class LoadGenerator:
    """Keeps the cluster as busy as the workload says, and deletes its work afterwards."""

    def __init__(self, workload: Workload, speed: float = 1.0) -> None:
        self.workload, self.speed = workload, speed
        self.pieces: dict[str, _Piece] = {}
        self.pods_created = 0
        self._random = Random(workload.seed)
        self._numbers = {stream.name: count(1) for stream in workload.streams}
        self._due: dict[str, float] = {}

    def adopt(self, name: str, now: float) -> bool:
        """Continues a piece from an earlier run; False if no stream has its name."""
        stream_name, _, number = name.rpartition("-")
        stream = next((s for s in self.workload.streams if s.name == stream_name), None)
        if stream is None or not number.isdecimal():
            return False
        following = max(int(number) + 1, next(self._numbers[stream_name]))
        self._numbers[stream_name] = count(following)
        self.pieces[name] = _Piece(stream, now, stream.run_range_s[0] / self.speed)
        return True

    def step(self, now: float, gpus: int, seen: Mapping[str, WorkloadPods]) -> list[Action]:
        """What to do next, given the cluster's GPUs and the pods of each piece of work."""
        actions: list[Action] = list(self._tidy_up(now, seen))
        actions += self._keep_pace(now)
        actions += self._fill(now, gpus, seen)
        return actions

    # -- endings -----------------------------------------------------------------------------

    def _tidy_up(self, now: float, seen: Mapping[str, WorkloadPods]) -> list[Delete]:
        ended = [
            (name, piece)
            for name, piece in self.pieces.items()
            if self._is_over(piece, seen.get(name, _NOTHING), now)
        ]
        for name, _ in ended:
            del self.pieces[name]
        return [Delete(piece.stream.kind, name) for name, piece in ended]

    def _is_over(self, piece: _Piece, seen: WorkloadPods, now: float) -> bool:
        if seen.bound:
            piece.bound_s = now if piece.bound_s is None else piece.bound_s
            # Pods of the other kinds end by themselves; a StatefulSet would restart them.
            return piece.stream.kind == "StatefulSet" and now - piece.bound_s > piece.run_for_s
        if seen.waiting:
            patience_s = length_s(piece.stream.patience) / self.speed
            return piece.bound_s is None and now - piece.created_s > patience_s
        return piece.bound_s is not None or now - piece.created_s > 2 * _ON_ITS_WAY_S

    # -- beginnings --------------------------------------------------------------------------

    def _keep_pace(self, now: float) -> list[Create]:
        created: list[Create] = []
        for stream in self.workload.streams:
            if stream.every is None:
                continue
            pace_s = length_s(stream.every) / self.speed
            # The first comes soon but not at once, so that the view begins with placements.
            due = self._due.setdefault(stream.name, now + min(3.0, pace_s / 4))
            if now >= due:
                self._due[stream.name] = due + pace_s
                created.append(self._create(stream, now))
        return created

    def _fill(self, now: float, gpus: int, seen: Mapping[str, WorkloadPods]) -> list[Create]:
        filling = (s for s in self.workload.streams if s.every is None)
        streams = [s for s in filling if s.total_gpus and s.weight]
        missing = self.workload.load * gpus - self._requested(now, seen)
        budget = max(1.0, missing * _RAMP)
        created: list[Create] = []
        while streams and missing > 0 and budget > 0:
            [stream] = self._random.choices(streams, [s.weight for s in streams])
            created.append(self._create(stream, now))
            missing -= stream.total_gpus
            budget -= stream.total_gpus
        return created

    def _requested(self, now: float, seen: Mapping[str, WorkloadPods]) -> float:
        """GPUs that work holds or waits for. Work that comes at a fixed pace may wait in vain."""
        total = 0.0
        for name, piece in self.pieces.items():
            found, each = seen.get(name, _NOTHING), piece.stream.total_gpus / piece.stream.replicas
            if piece.stream.every is not None:
                total += found.bound * each
            elif now - piece.created_s < _ON_ITS_WAY_S:
                total += piece.stream.total_gpus
            else:
                total += (found.bound + found.waiting) * each
        return total

    def _create(self, stream: Stream, now: float) -> Create:
        name = f"{stream.name}-{next(self._numbers[stream.name]):04d}"
        run_for_s = round(self._random.uniform(*stream.run_range_s), 1)
        self.pieces[name] = _Piece(stream, now, run_for_s / self.speed)
        self.pods_created += stream.replicas
        return Create(stream, name, run_for_s)
