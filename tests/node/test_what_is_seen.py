"""The variables of each process: in every kind of container, for every way to request GPUs."""

import json

import pytest

from clusters import NODE, RealCluster
from vendors import GPUS, VENDORS, nvidia, served
from workloads import ENDS, EVERY_KIND, Workloads, container, cuda_finds, inventory

pytestmark = pytest.mark.usefixtures("installed")

WHOLE = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


@pytest.mark.parametrize(
    ("annotations", "seen"),
    [
        pytest.param({"fairlead.dev/gpu-share": "0.5"}, "GPU-a0", id="share"),
        pytest.param({"fairlead.dev/gpu-memory": "4Gi"}, "GPU-a0", id="memory"),
        pytest.param(
            {"fairlead.dev/gpu-share": "1", "fairlead.dev/gpu-count": "2"}, "GPU-a0,GPU-a1",
            id="two whole ones",
        ),
        pytest.param({"gpu-fraction": "0.5"}, "GPU-a0", id="fraction of KAI"),
        pytest.param(
            {"nvidia.com/container.main.gpu-memory.request": "4Gi"}, "GPU-a0", id="NvFractions",
        ),
    ],
)  # fmt: skip
def test_every_container_of_a_share_sees_its_gpus(
    work: Workloads, two_gpus: list[str], annotations: dict[str, str], seen: str
) -> None:
    work.run("share", annotations, **EVERY_KIND)
    work.wait_running("share")

    assert work.gpus_everywhere("share") == {(seen, seen)}


def test_a_pod_without_gpus_sees_none(work: Workloads, two_gpus: list[str]) -> None:
    work.run("plain", **EVERY_KIND)
    work.wait_running("plain")

    assert work.gpus_everywhere("plain") == {("", None)}


def test_what_the_author_wrote_gives_no_other_gpus(work: Workloads, two_gpus: list[str]) -> None:
    every = [
        {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    ]
    work.run("greedy", {"fairlead.dev/gpu-share": "0.5"}, containers=[container(env=every)])
    work.run("none", containers=[container(env=every)])
    work.wait_running("greedy", "none")

    assert work.gpus("greedy") == ("GPU-a0", "GPU-a0")
    assert work.gpus("none") == ("", None)
    assert work.gpus("greedy", work.debug("greedy", env=every)) == ("GPU-a0", "GPU-a0")


def test_a_scheduling_map_is_seen_by_each_pod_of_its_set(
    cluster: RealCluster, work: Workloads
) -> None:
    lines = f"0={NODE}:1\n1={NODE}:0,2"
    template = {
        "metadata": {"labels": {"app": "mapped"}, "annotations": {"gpu-scheduling-map": lines}},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "terminationGracePeriodSeconds": 0,
            **EVERY_KIND,
        },
    }
    selector = {"matchLabels": {"app": "mapped"}}
    body = {
        "metadata": {"name": "mapped"},
        "spec": {"replicas": 2, "selector": selector, "template": template, "serviceName": "x"},
    }
    path = f"/apis/apps/v1/namespaces/{work.namespace}/statefulsets"
    status, answer = cluster.plane.api("POST", path, body)
    assert status == 201, answer
    work.wait_running("mapped-0", "mapped-1")

    # With a map, the author says what the container runtime shows.
    seen = [work.gpus_everywhere(f"mapped-{n}") for n in (0, 1)]
    assert seen == [{("1", None)}, {("0,2", None)}]
    cluster.plane.api("DELETE", f"{path}/mapped")


def assigned(work: Workloads, name: str) -> str:
    """The GPU in the ledger."""
    said = work.get(name)["metadata"]["annotations"]["fairlead.dev/assignment"]
    ((gpu,),) = ([one["u"]] for one in json.loads(said)["devices"])
    return GPUS[int(gpu)] if gpu.isdigit() else str(gpu)


@pytest.mark.parametrize("dialect", VENDORS)
def test_pods_of_another_system_see_the_gpu_that_they_were_assigned(
    cluster: RealCluster, work: Workloads, dialect: str
) -> None:
    vendor = VENDORS[dialect]
    limited, second = {"resources": {"limits": dict(vendor.half)}}, container("second")
    with served(cluster, work.namespace, vendor) as plugin:
        for name in ("one", "two", "three"):
            work.run(name, **EVERY_KIND | {"containers": [container(**limited), second]})
        work.wait_running("one", "two", "three")

        assert plugin.errors == []
        found = {name: cuda_finds(*work.gpus(name), GPUS) for name in ("one", "two", "three")}
        assert found == {name: [assigned(work, name)] for name in found}
        assert set(map(tuple, found.values())) == {(uuid,) for uuid in GPUS}
        # The kubelet calls the plugin for containers that request GPUs, and for no others.
        others = ["before", "sidecar", "second", work.debug("one")]
        assert {work.gpus("one", other)[1] for other in others} == {None}
        work.delete_all()


def test_whole_gpus_are_those_that_the_plugin_of_nvidia_picked(
    cluster: RealCluster, work: Workloads
) -> None:
    with cluster.serving(nvidia(*GPUS)):
        for name in ("one", "two"):
            first = [
                container("before", ENDS, **WHOLE),
                container("sidecar", restartPolicy="Always"),
            ]
            second = container("second")
            work.run(name, initContainers=first, containers=[container(**WHOLE), second])
        work.wait_running("one", "two")

        found = [cuda_finds(*work.gpus(name), GPUS) for name in ("one", "two")]
        assert sorted(found) == [[GPUS[0]], [GPUS[1]]]
        assert work.gpus("one", "before") == work.gpus("one"), "the kubelet hands its GPU on"
        others = ["sidecar", "second", work.debug("one")]
        assert {work.gpus("one", other)[1] for other in others} == {None}
        work.delete_all()


def test_gpus_that_the_plugin_picked_are_seen_where_the_node_lists_its_gpus_too(
    cluster: RealCluster, work: Workloads
) -> None:
    """With `plugin`, as the agent writes it, GPUs are counted and not named."""
    cluster.annotate_node(inventory(*GPUS, plugin=True))
    with cluster.serving(nvidia(*GPUS)):
        limits = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
        work.run("both", containers=[container(**limits)])
        work.wait_running("both")

        assert cuda_finds(*work.gpus("both"), GPUS) == list(GPUS)
        work.delete_all()
    cluster.annotate_node(dict.fromkeys(inventory()))
