"""A share of a GPU, from the pod's annotation to what its process sees."""

import pytest

from workloads import Workloads

pytestmark = pytest.mark.usefixtures("installed")


def test_two_halves_run_and_see_the_same_gpu(work: Workloads, two_gpus: list[str]) -> None:
    for name in ("ada", "ben"):
        work.run(name, {"fairlead.dev/gpu-share": "0.5"})
    work.wait_running("ada", "ben")

    assert work.gpus("ada") == work.gpus("ben") == ("GPU-a0", "GPU-a0")
