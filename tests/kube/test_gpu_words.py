"""What a pod says about its GPUs besides how many."""

import json
from typing import Any

import pytest

from fairlead.kube.codec import decode_pod
from fairlead.model.gpus import GpuRequest
from fairlead.model.pods import Pod

LINKS = "fairlead.dev/gpu-links"


def container(gpus: int = 0, **more: Any) -> dict[str, Any]:
    requests = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"name": "c", "resources": {"requests": requests}, **more}


def read(*containers: dict[str, Any], **annotations: str) -> Pod:
    said = {f"fairlead.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": said},
        "spec": {"containers": list(containers)},
    }
    return decode_pod(json.dumps(pod).encode())


def ask_of(*containers: dict[str, Any]) -> GpuRequest:
    pod = read(*containers)
    assert not pod.problem
    assert pod.request.gpu_request is not None
    return pod.request.gpu_request


def env(value: Any, name: str = "TENSOR_PARALLEL_SIZE") -> list[dict[str, Any]]:
    return [{"name": "OTHER", "value": "3"}, {"name": name, "value": value}]


@pytest.mark.parametrize(
    ("containers", "together"),
    [
        pytest.param([container(4)], 4, id="all of them unless it says otherwise"),
        pytest.param([container(4, env=env("2"))], 2, id="a variable"),
        pytest.param([container(), container(4, env=env("2"))], 2, id="of any container"),
        pytest.param([container(4), container(env=env("2"))], 2, id="even without GPUs"),
        pytest.param([container(4, args=["--tensor-parallel-size=2"])], 2, id="an argument"),
        pytest.param([container(4, args=["x", "--tensor-parallel-size", "2"])], 2, id="two words"),
        pytest.param([container(4, env=env("2"), args=["--tensor-parallel-size=4"])], 2, id="both"),
        pytest.param(
            [container(4), container(args=["--tensor-parallel-size=2"])], 4, id="not of the second"
        ),
        pytest.param([container(4, env=env("1"))], 1, id="each for itself"),
        pytest.param([container(4, env=env("8"))], 4, id="more than it has"),
        pytest.param([container(4, env=env("two"))], 4, id="no number"),
        pytest.param([container(4, env=env("0"))], 4, id="nothing"),
        pytest.param([container(4, env=env("-2"))], 4, id="less than nothing"),
        pytest.param([container(4, env=env(""))], 4, id="empty"),
        pytest.param([container(4, env=env("9" * 5000))], 4, id="very many digits"),
        pytest.param([container(4, env=env("2", "MY_TENSOR_PARALLEL_SIZE"))], 4, id="other name"),
        pytest.param([container(4, args=["--tensor-parallel-size"])], 4, id="nothing follows"),
        pytest.param([container(4, args=["--tensor-parallel-size=x=2"])], 4, id="nonsense"),
        pytest.param(
            [container(4, env=[{"name": "TENSOR_PARALLEL_SIZE", "valueFrom": {"x": {}}}])],
            4,
            id="a value from elsewhere",
        ),
        pytest.param([container(1, env=env("2"))], 1, id="a single GPU"),
    ],
)
def test_gpus_that_work_as_one(containers: list[dict[str, Any]], together: int) -> None:
    assert ask_of(*containers).together == together


def test_other_variables_do_not_make_another_request() -> None:
    """Pods that differ in their environment alone share all answers."""
    first = read(container(4, env=env("a", "SEED"), args=["--seed=1"])).request
    second = read(container(4, env=env("b", "SEED"), args=["--seed=2"])).request
    assert first is second


def test_only_gpus_that_nvlink_joins() -> None:
    found = read(container(2), gpu_links="nvlink", gpu_model="H100").request.gpu_request
    assert found == GpuRequest(2, models=frozenset({"H100"}), together=2, linked=True)
    single = read(container(1), gpu_links="nvlink").request.gpu_request
    assert single is not None
    assert not single.linked, "a GPU by itself is joined to nothing"


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        pytest.param(
            read(container(2), gpu_links="pcie"),
            f"{LINKS} is 'pcie'; write nvlink, or remove it",
            id="another word",
        ),
        pytest.param(
            read(container(), gpu_links="nvlink", gpu_share="0.5"),
            f"{LINKS} applies to whole GPUs; add a limit for nvidia.com/gpu",
            id="a share",
        ),
        pytest.param(
            read(container(), gpu_links="nvlink"),
            f"{LINKS} applies to whole GPUs; add a limit for nvidia.com/gpu",
            id="no GPU",
        ),
    ],
)
def test_links_that_make_no_sense(pod: Pod, problem: str) -> None:
    assert pod.problem == f"the pod is invalid: {problem}"
