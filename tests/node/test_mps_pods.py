"""A share that MPS limits: what its containers see of limits, and of the pipes on the node."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import NODE, RealCluster
from fairleads import eventually
from workloads import EVERY_KIND, Workloads

pytestmark = pytest.mark.usefixtures("installed")

PIPES = Path("/run/fairlead/mps")
QUARTER = {"fairlead.dev/gpu-share": "0.25", "fairlead.dev/gpu-isolation": "mps"}
INVENTORY = "fairlead.dev/inventory"


@pytest.fixture
def two_daemons(cluster: RealCluster) -> Iterator[list[str]]:
    """Two GPUs whose MPS daemons are healthy; in the place of each socket there is its name."""
    uuids = ["GPU-a0", "GPU-a1"]
    for uuid in uuids:
        (PIPES / uuid / "pipe").mkdir(parents=True, exist_ok=True)
        (PIPES / uuid / "pipe" / "control").write_text(uuid)
    gpus = [
        {"uuid": uuid, "index": index, "memoryMib": 16_000, "mps": 1}
        for index, uuid in enumerate(uuids)
    ]
    cluster.annotate_node({INVENTORY: json.dumps({"version": 2, "gpus": gpus})})
    yield uuids
    cluster.annotate_node({INVENTORY: None})


def test_a_client_has_its_limits_and_the_pipe_of_its_gpu(
    work: Workloads, two_daemons: list[str]
) -> None:
    for name in ("ada", "ben"):
        work.run(name, QUARTER, **EVERY_KIND)
    work.wait_running("ada", "ben")

    for name in ("ada", "ben"):
        for of in ("before", "sidecar", "main", "second"):
            seen = work.seen(name, of)
            assert seen["CUDA_MPS_PIPE_DIRECTORY"] == "/run/fairlead/mps"
            assert seen["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
            assert seen["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=4000M"
    gpus = {name: work.gpus(name)[0] for name in ("ada", "ben")}
    assert sorted(map(str, gpus.values())) == two_daemons, "a daemon serves one client here"
    for name, uuid in gpus.items():
        assert work.exec(name, "ls", "/run/fairlead/mps").split() == ["control"]
        assert work.exec(name, "cat", "/run/fairlead/mps/control") == uuid
        written = work.try_kubectl("exec", name, "--", "touch", "/run/fairlead/mps/mine")
        assert "Read-only file system" in written.stderr
        assert work.gpus(name, work.debug(name)) == ("", "void")


def test_a_pod_that_was_not_assigned_a_gpu_starts_nothing(
    work: Workloads, two_daemons: list[str]
) -> None:
    """It went to the node without the scheduler, so no GPU is named for its mount."""
    work.run("bypass", QUARTER, nodeName=NODE)

    def reasons() -> list[str]:
        statuses = work.get("bypass").get("status", {}).get("containerStatuses", [])
        return [one["state"].get("waiting", {}).get("reason", "started") for one in statuses]

    eventually(lambda: reasons() == ["CreateContainerConfigError"], what="no container")
