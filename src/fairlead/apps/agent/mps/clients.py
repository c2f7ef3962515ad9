"""Finds processes that use more of a GPU than the share of their pod. No I/O and no clock.

MPS limits each process, and not each pod: a pod that starts a second process would have its share
twice. And a process may have any limit up to that of the daemon, which is the largest share.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from fairlead.apps.agent.mps.plans import MpsShare
from fairlead.apps.agent.unassigned_processes import NodePod, PodsByUid, pods_of
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.processes import Owner

#: More than its limit that a process may hold: what the driver counts differently from MPS.
SLACK_MIB = 256


@dataclass(frozen=True, slots=True)
class MpsClient:
    """A process that MPS serves. `started` orders the processes of a machine."""

    pid: int
    owner: Owner
    started: int = 0
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class ExcessClient:
    """A process to be ended, its pod, and the reason."""

    pid: int
    pod: NodePod
    why: str


@dataclass(frozen=True, slots=True)
class ClientRules:
    """`processes`: how many of one pod may use a GPU. `trusted`: namespaces without limits."""

    processes: int = 1
    trusted: frozenset[str] = frozenset()


def excess_clients(
    clients: Iterable[MpsClient],
    shares: Mapping[str, MpsShare],
    pods: PodsByUid,
    rules: ClientRules,
    *,
    unlimited: AbstractSet[int] = frozenset(),
) -> list[ExcessClient]:
    """`unlimited` are those that connected while the limits of the daemon had been changed.

    Processes of no pod and of pods that are gone are reported as unassigned, and not ended.
    """
    found: list[ExcessClient] = []
    counts: dict[str, int] = defaultdict(int)
    for client in sorted(clients, key=lambda client: (client.started, client.pid)):
        pod = _pod(client, pods, rules.trusted)
        if pod is None:
            continue
        counts[pod.uid] += 1
        why = _why(client, shares.get(pod.uid), counts[pod.uid], rules.processes)
        if client.pid in unlimited:
            why = "the limits of MPS had been changed when it started"
        if why:
            found.append(ExcessClient(client.pid, pod, why))
    return found


def without_mps(
    processes: Iterable[MpsClient], shares: Mapping[str, MpsShare], pods: PodsByUid,
    rules: ClientRules,
) -> list[ExcessClient]:  # fmt: skip
    """Of processes that MPS does not serve, those of pods that share the GPU."""
    found = [(each, _pod(each, pods, rules.trusted)) for each in processes]
    return [
        ExcessClient(each.pid, pod, "it used the GPU without MPS")
        for each, pod in found
        if pod is not None and pod.uid in shares
    ]


def _pod(client: MpsClient, pods: PodsByUid, trusted: AbstractSet[str]) -> NodePod | None:
    """Its pod, if the GPUs of that pod are known and limited."""
    claims = [pod for pod in pods_of(client.owner, pods) if not pod.over]
    if any(pod.namespace in trusted or pod.assigned is None for pod in claims):
        return None
    return claims[0] if claims else None


def _why(client: MpsClient, share: MpsShare | None, count: int, processes: int) -> str:
    if share is None:
        return "its pod was not assigned a share of this GPU"
    if count > processes:
        return f"its pod may use the GPU with {processes} process(es) at a time"
    if client.memory_mib > share.memory_mib + SLACK_MIB:
        return f"it uses {client.memory_mib} MiB, and its share is {share.memory_mib} MiB"
    return ""
