"""What MPS is to enforce on each GPU, and which processes exceed the share of their pod."""

from dataclasses import replace

from builders import a_pod
from fairlead.apps.agent.mps.clients import (
    SLACK_MIB,
    ClientRules,
    MpsClient,
    excess_clients,
    without_mps,
)
from fairlead.apps.agent.mps.plans import CLOSED_MIB, CLOSED_PERCENT, MpsShare, mps_plans
from fairlead.apps.agent.node_pods import pods_by_uid
from fairlead.model.gpus import GpuRequest, GpuUse, Grant, Isolation
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import GpuFacts
from fairlead.telemetry.processes import Owner

A, B = GpuFacts(0, "GPU-a", memory_mib=1000), GpuFacts(1, "GPU-b", memory_mib=1000)


def sharing(
    name: str, milli: int = 250, mib: int = 200, gpu: GpuFacts = A,
    isolation: Isolation = Isolation.MPS, **more: object,
) -> Pod:  # fmt: skip
    use = GpuUse(gpu.uuid, whole=False, milli=milli, memory_mib=mib)
    grant = Grant((use,), isolation=isolation)
    return a_pod(name, node="n", gpu_request=GpuRequest(1, whole=False), grant=grant, **more)


def having(name: str, gpu: GpuFacts = A) -> Pod:
    return a_pod(name, node="n", gpu_request=GpuRequest(1), grant=Grant((GpuUse(gpu.uuid),)))


def plans(*pods: Pod, gpus: tuple[GpuFacts, ...] = (A, B), plugin: bool = False):
    return mps_plans(pods, gpus, plugin=plugin)


# -- plans -----------------------------------------------------------------------------------------


def test_the_largest_share_is_what_no_process_can_exceed() -> None:
    found = plans(sharing("small", 125, 100), sharing("large", 500, 400), sharing("other", gpu=B))
    assert (found["GPU-a"].percent, found["GPU-a"].memory_mib) == (50.0, 400)
    assert (found["GPU-b"].percent, found["GPU-b"].memory_mib) == (25.0, 200)


def test_without_a_share_no_process_gets_anything() -> None:
    found = plans(sharing("ended", finished=True))["GPU-a"]
    assert (found.percent, found.memory_mib) == (CLOSED_PERCENT, CLOSED_MIB)
    assert not found.off_because


def test_a_share_by_memory_alone_has_no_limit_of_compute() -> None:
    pod = sharing("memory", 0, 300)
    assert plans(pod)["GPU-a"].shares == {pod.uid: MpsShare(100.0, 300)}
    pod = sharing("compute", 300, 0)
    assert plans(pod)["GPU-a"].shares == {pod.uid: MpsShare(30.0, 1000)}


def test_a_gpu_that_a_pod_uses_without_mps_has_no_daemon() -> None:
    found = plans(having("whole"))
    assert "without MPS" in found["GPU-a"].off_because
    assert not found["GPU-b"].off_because
    advisory = sharing("advisory", isolation=Isolation.ADVISORY)
    assert "without MPS" in plans(advisory)["GPU-a"].off_because


def test_a_pod_that_claims_a_shared_gpu_whole_does_not_end_its_daemon() -> None:
    assert not plans(having("claims"), sharing("shares"))["GPU-a"].off_because


def test_no_daemon_where_mig_is_enabled_a_plugin_chooses_or_the_gpu_is_lost() -> None:
    cut, lost = GpuFacts(2, "GPU-c", mig_on=True), GpuFacts(-1, "GPU-d")
    found = plans(gpus=(cut, lost))
    assert "MIG" in found["GPU-c"].off_because
    assert "does not see" in found["GPU-d"].off_because
    assert "device plugin" in plans(plugin=True)["GPU-a"].off_because


# -- processes -------------------------------------------------------------------------------------


def client(pid: int, pod: Pod | None, started: int = 0, mib: int = 100) -> MpsClient:
    return MpsClient(pid, Owner("python", (pod.uid,) if pod else ()), started, mib)


def ended(*clients: MpsClient, pods: tuple[Pod, ...], rules: ClientRules | None = None, **more):
    shares = plans(*pods)["GPU-a"].shares
    residents = pods_by_uid(pods, (A, B))
    found = excess_clients(clients, shares, residents, rules or ClientRules(), **more)
    return {each.pid: each.why for each in found}


def test_a_process_within_its_share_goes_on() -> None:
    pod = sharing("p")
    assert ended(client(1, pod, mib=200 + SLACK_MIB), pods=(pod,)) == {}


def test_a_second_process_of_a_pod_is_ended_and_the_first_goes_on() -> None:
    """Otherwise a pod that forks has its share twice."""
    one, two = sharing("one"), sharing("two")
    found = ended(client(9, one, 5), client(3, one, 7), client(4, two, 6), pods=(one, two))
    assert list(found) == [3]
    rules = ClientRules(processes=2)
    assert ended(client(9, one), client(3, one), pods=(one,), rules=rules) == {}


def test_a_process_with_more_memory_than_its_share_is_ended() -> None:
    """The daemon lets it have as much as the largest share."""
    small, large = sharing("small", mib=100), sharing("large", mib=800)
    found = ended(client(1, small, mib=500), client(2, large, mib=500), pods=(small, large))
    assert list(found) == [1]
    assert "500 MiB" in found[1]


def test_a_process_of_a_pod_without_a_share_of_this_gpu_is_ended() -> None:
    elsewhere = sharing("elsewhere", gpu=B)
    assert list(ended(client(1, elsewhere), pods=(elsewhere,))) == [1]


def test_processes_of_no_pod_or_of_a_trusted_namespace_are_not_ended() -> None:
    gone, trusted = sharing("gone"), replace(sharing("t", gpu=B), namespace="kube-system")
    clients = client(1, None), client(2, gone), client(3, trusted)
    rules = ClientRules(trusted=frozenset({"kube-system"}))
    assert ended(*clients, pods=(trusted,), rules=rules) == {}


def test_a_process_that_started_while_the_limits_had_been_changed_is_ended() -> None:
    one, two = sharing("one"), sharing("two")
    found = ended(client(1, one), client(2, two), pods=(one, two), unlimited={2})
    assert list(found) == [2]


def test_of_processes_without_mps_those_of_sharing_pods_are_found() -> None:
    one, whole = sharing("one"), having("whole", B)
    pods = (one, whole)
    found = without_mps(
        [client(1, one), client(2, whole), client(3, None)],
        plans(*pods)["GPU-a"].shares,
        pods_by_uid(pods, (A, B)),
        ClientRules(),
    )
    assert [each.pid for each in found] == [1]
