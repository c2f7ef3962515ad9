"""Parts of the cluster are killed in the middle: running pods stay, and waiting pods start."""

from collections.abc import Callable

import pytest

from clusters import RealCluster
from fairleads import eventually
from manifests import NAMESPACE
from vendors import GPUS, nvidia
from webhooks import injects
from workloads import Workloads, container, frozen

pytestmark = pytest.mark.usefixtures("installed")

HALF = {"fairlead.dev/gpu-share": "0.5"}
WHOLE = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


def restart_kubelet(cluster: RealCluster, meanwhile: Callable[[], None]) -> None:
    cluster.kubelet.process.kill()
    meanwhile()
    cluster.kubelet.start()


def restart_runtime(cluster: RealCluster, meanwhile: Callable[[], None]) -> None:
    cluster.runtime.process.kill()
    meanwhile()
    cluster.runtime.start()


def restart_schedulers(cluster: RealCluster, meanwhile: Callable[[], None]) -> None:
    kill_pods(cluster, "scheduler")
    meanwhile()


@pytest.mark.parametrize("restart", [restart_kubelet, restart_runtime, restart_schedulers])
def test_pods_stay_and_new_ones_come_when_a_part_is_killed(
    cluster: RealCluster,
    work: Workloads,
    two_gpus: list[str],
    restart: Callable[[RealCluster, Callable[[], None]], None],
) -> None:
    work.run("before", HALF)
    work.wait_running("before")
    started = containers_of(work, "before")

    restart(cluster, lambda: work.run("meanwhile", HALF))
    work.wait_running("meanwhile")
    work.run("after", HALF)
    work.wait_running("after")

    assert containers_of(work, "before") == started
    assert [work.gpus(name)[0] for name in ("before", "meanwhile", "after")] == [
        "GPU-a0", "GPU-a0", "GPU-a1",
    ]  # fmt: skip
    eventually(lambda: cluster.available("fairlead"), what="the schedulers are back")


def test_gpus_of_a_plugin_are_not_assigned_twice_over_a_restart_of_the_kubelet(
    cluster: RealCluster, work: Workloads
) -> None:
    """Until the plugin has registered again, the kubelet says that it has none."""
    with cluster.serving(nvidia(*GPUS)) as plugin:
        work.run("before", containers=[container(**WHOLE)])
        work.wait_running("before")
        cluster.kubelet.process.kill()
        work.run("meanwhile", containers=[container(**WHOLE)])
        cluster.kubelet.start()
        work.wait_running("meanwhile")
        work.run("too-many", containers=[container(**WHOLE)])
        work.wait_refused("too-many")

        seen = {work.gpus(name)[1] for name in ("before", "meanwhile")}
        assert seen == set(GPUS)
        assert plugin.errors == []
        work.delete_all()


def test_pods_are_created_again_when_the_webhook_is_back(
    cluster: RealCluster, work: Workloads, two_gpus: list[str]
) -> None:
    kill_pods(cluster, "webhook")
    eventually(lambda: injects(cluster.plane, work.namespace), what="the webhook is asked")
    work.run("after", HALF)
    work.wait_running("after")

    assert work.gpus("after") == ("GPU-a0", "GPU-a0")
    eventually(lambda: cluster.available("fairlead-webhook"), what="the webhooks are back")


def test_a_webhook_that_hangs_is_not_called_until_it_answers_again(
    cluster: RealCluster, work: Workloads
) -> None:
    programs = Workloads(cluster.plane, NAMESPACE)
    hanging, *others = [name for name in programs.nodes() if "-webhook-" in name]
    with frozen(programs, hanging, "webhook"):
        eventually(lambda: not programs.ready(hanging), what="the kubelet sees that it hangs")
        eventually(lambda: injects(cluster.plane, work.namespace), what="the other one is asked")
        assert all(injects(cluster.plane, work.namespace) for _ in range(20))
    eventually(lambda: programs.ready(hanging), what="it is asked again")
    assert [programs.restarts(name) for name in (hanging, *others)] == [0, 0]


def kill_pods(cluster: RealCluster, component: str) -> None:
    """All at once and without a moment to end, as when their node fails."""
    selector = f"app.kubernetes.io/component={component}"
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={selector}&gracePeriodSeconds=0"
    status, answer = cluster.plane.api("DELETE", path)
    assert status == 200, answer


def containers_of(work: Workloads, name: str) -> list[str]:
    statuses = work.get(name)["status"]["containerStatuses"]
    return [f"{one['containerID']} {one['restartCount']}" for one in statuses]
