"""Finds processes on GPUs that were not assigned to their pods. No I/O and no clock.

A process may use a GPU if its pod was assigned that GPU, or if the GPUs of the pod are unknown. The
others are *unassigned processes*: of a pod that was assigned other GPUs, of a pod that is gone, or
of no pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum

from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.nvml.facts import GpuProcess
from fairlead.telemetry.processes import Owner

#: An unassigned process that stays is reported again after this.
REPEAT_S = 3600.0
#: How the health of a withheld GPU begins.
NOT_EMPTY = "not empty"
#: MPS serves the pods of a GPU with one process that belongs to none of them.
_SERVERS = frozenset({"nvidia-cuda-mps"})

#: The GPU instances that a pod was assigned, by the uuid of the GPU; None: the whole GPU.
AssignedGpus = Mapping[str, frozenset[int] | None]


class UnassignedKind(Enum):
    """Why a process counts as unassigned."""

    UNASSIGNED = "of a pod that was not assigned this GPU"
    LEFT_BEHIND = "of a pod that is gone"
    OF_NO_POD = "of no pod"


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod of this node. `assigned` is None if its GPUs are unknown."""

    namespace: str
    name: str
    uid: str
    version: str = ""
    assigned: AssignedGpus | None = None
    #: It has ended, so its GPUs are free.
    over: bool = False

    def may_use(self, gpu_uuid: str, instance: int | None) -> bool:
        if self.assigned is None:
            return True
        if gpu_uuid not in self.assigned:
            return False
        instances = self.assigned[gpu_uuid]
        return instances is None or instance is None or instance in instances


#: The pods of a node by each uid that the cgroups of their processes may have. Several may claim to
#: be the mirror of one static pod; a process must then be allowed for each of them.
PodsByUid = Mapping[str, tuple[NodePod, ...]]


@dataclass(frozen=True, slots=True)
class ObservedProcess:
    """One process on one GPU, and its owner."""

    gpu_uuid: str
    gpu_index: str
    process: GpuProcess
    owner: Owner


@dataclass(frozen=True, slots=True)
class UnassignedProcess:
    """A process that has used an unassigned GPU for longer than the grace period."""

    observed: ObservedProcess
    kind: UnassignedKind
    #: Its pod, if that still exists, or all pods that claim to be its pod.
    pods: tuple[NodePod, ...] = ()

    @property
    def words(self) -> str:
        owner, process = self.observed.owner, self.observed.process
        return f"process {process.pid} ({owner.command}) {self.kind.value}"

    @property
    def advice(self) -> str:
        if self.kind is UnassignedKind.UNASSIGNED:
            return "make it use the GPUs in CUDA_VISIBLE_DEVICES, or request more GPUs"
        return "stop it to make the GPU available to other pods"


@dataclass(frozen=True, slots=True)
class ProcessCheck:
    unassigned: tuple[UnassignedProcess, ...] = ()
    #: Those to be reported now: new, or not reported for long.
    to_report: tuple[UnassignedProcess, ...] = ()
    #: Why a GPU must not be assigned, by its uuid.
    withheld: Mapping[str, str] = field(default_factory=dict)


class ProcessMonitor:
    """Remembers since when each unassigned process has been seen."""

    def __init__(
        self, *, grace_s: float, withhold: bool = True, trusted: frozenset[str] = frozenset()
    ) -> None:
        """`trusted`: namespaces whose pods may use any GPU."""
        self._grace_s = grace_s
        self.withholds = withhold
        self._trusted = trusted
        #: None before the first check.
        self._since: dict[tuple[int, str], float] | None = None
        self._reported: dict[tuple[int, str], float] = {}

    def check(
        self, observed: Iterable[ObservedProcess], pods: PodsByUid, now_s: float
    ) -> ProcessCheck:
        """`pods`: all pods of the node."""
        found = [
            UnassignedProcess(seen, kind, claims)
            for seen in observed
            for claims in (pods_of(seen.owner, pods),)
            if (kind := self._kind(seen, claims)) is not None
        ]
        # Processes found by the first check have no grace period: a restart frees no GPU.
        start = float("-inf") if self._since is None else now_s
        before = self._since or {}
        since = self._since = {_key(each): before.get(_key(each), start) for each in found}
        late = [each for each in found if now_s - since[_key(each)] >= self._grace_s]
        to_report = tuple(self._to_report(late, now_s))
        return ProcessCheck(tuple(late), to_report, self._held(found, late))

    def _kind(self, seen: ObservedProcess, claims: tuple[NodePod, ...]) -> UnassignedKind | None:
        owner = seen.owner
        if not owner.pod_uids:
            belongs = owner.command in _SERVERS or seen.process.draws
            return None if belongs else UnassignedKind.OF_NO_POD
        living = [pod for pod in claims if not pod.over]
        if not living:
            return UnassignedKind.LEFT_BEHIND
        allowed = all(
            pod.namespace in self._trusted or pod.may_use(seen.gpu_uuid, seen.process.instance)
            for pod in living
        )
        return None if allowed else UnassignedKind.UNASSIGNED

    def _to_report(self, late: list[UnassignedProcess], now_s: float) -> list[UnassignedProcess]:
        """A process that ends and returns within `REPEAT_S` is not reported again."""
        recent = {key: at for key, at in self._reported.items() if now_s - at < REPEAT_S}
        to_report = [each for each in late if _key(each) not in recent]
        self._reported = recent | {_key(each): now_s for each in to_report}
        return to_report

    def _held(
        self, found: list[UnassignedProcess], late: list[UnassignedProcess]
    ) -> dict[str, str]:
        """A GPU is withheld while a process without a pod holds memory there.

        A process that a pod left behind counts at once, since its GPU is free at once. A process of
        an existing pod does not count: it must not keep the GPU from the pods it is assigned to.
        """
        held: dict[str, str] = {}
        # Sorted, so that the same process is named each time and the annotation does not change.
        for each in sorted(found, key=_key) if self.withholds else ():
            late_enough = each.kind is UnassignedKind.OF_NO_POD and each in late
            if late_enough or each.kind is UnassignedKind.LEFT_BEHIND:
                held.setdefault(each.observed.gpu_uuid, f"{NOT_EMPTY}: {each.words}")
        return held


def pods_of(owner: Owner, pods: PodsByUid) -> tuple[NodePod, ...]:
    """The pods that may own the process: those with the outermost known uid of its cgroup."""
    return next((pods[uid] for uid in owner.pod_uids if uid in pods), ())


def _key(process: UnassignedProcess) -> tuple[int, str]:
    return (process.observed.process.pid, process.observed.gpu_uuid)
