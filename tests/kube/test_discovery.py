"""What the labels of a node tell of its GPUs."""

import json

import pytest

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.engine.instructions import Bind
from fairlead.kube.codec import decode_node
from fairlead.model.gpus import GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.machines import all_joined, has_nvlink, links_of

PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
MEMORY, CLIQUE = "nvidia.com/gpu.memory", "nvidia.com/gpu.clique"
MACHINE = "node.kubernetes.io/instance-type"
H100 = {PRODUCT: "NVIDIA-H100-80GB-HBM3", COUNT: "8", MEMORY: "81559"}


def read(labels: dict[str, str], inventory: object = None, **allocatable: str) -> Inventory | None:
    meta: dict[str, object] = {"name": "n1", "uid": "u", "labels": labels}
    if inventory:
        meta["annotations"] = {"fairlead.dev/inventory": json.dumps(inventory)}
    offered = {name.replace("__", "/").replace("_", "."): n for name, n in allocatable.items()}
    node = {"metadata": meta, "status": {"allocatable": offered}}
    return decode_node(json.dumps(node).encode()).inventory


def test_feature_discovery() -> None:
    found = read({**H100, CLIQUE: "7d0c.1"})
    assert found is not None
    assert not found.named
    assert not found.dialects, "nobody there understands shares"
    assert [gpu.model for gpu in found.gpus] == ["NVIDIA-H100-80GB-HBM3"] * 8
    assert {gpu.memory_mib for gpu in found.gpus} == {81559}
    assert found.links == links_of("H100", 8)
    assert found.clique == "7d0c.1"


def test_a_machine_of_a_cloud_without_feature_discovery() -> None:
    found = read({MACHINE: "p3.16xlarge"}, nvidia_com__gpu="8")
    assert found is not None
    assert found.links == links_of("Tesla-V100-SXM2-16GB", 8)
    assert [gpu.numa for gpu in found.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_the_label_of_an_administrator() -> None:
    found = read({"gpu.nvlink": "true"}, nvidia_com__gpu="4")
    assert found is not None
    assert found.links == all_joined(4)
    bridged = read({PRODUCT: "NVIDIA-A40", COUNT: "4", "gpu.nvlink": "true"})
    assert bridged is not None
    assert has_nvlink(bridged.links)
    said_no = read({PRODUCT: "NVIDIA-A40", COUNT: "4", "gpu.nvlink": "false"})
    assert said_no is not None
    assert not said_no.links


@pytest.mark.parametrize(
    ("labels", "gpus"),
    [
        pytest.param({}, None, id="nothing is said"),
        pytest.param({MACHINE: "m5.large"}, None, id="a machine without GPUs"),
        pytest.param({PRODUCT: "NVIDIA-H100"}, None, id="a product, but no GPU"),
        pytest.param({**H100, COUNT: "eight"}, None, id="a count that is no number"),
        pytest.param({**H100, COUNT: "-1"}, None, id="a count below nothing"),
        pytest.param({**H100, COUNT: "9" * 30}, None, id="a count of many digits"),
        pytest.param({**H100, COUNT: "65"}, None, id="more GPUs than a machine has"),
        pytest.param({**H100, MEMORY: "much"}, 8, id="a memory that is no number"),
    ],
)
def test_labels_that_do_not_help_do_no_harm(labels: dict[str, str], gpus: int | None) -> None:
    found = read(labels)
    assert (found and len(found.gpus)) == gpus


def test_allocatable_counts_where_no_label_does() -> None:
    found = read({PRODUCT: "NVIDIA-L40S"}, nvidia_com__gpu="4")
    assert found is not None
    assert len(found.gpus) == 4


def test_gpus_that_are_all_cut() -> None:
    found = read(H100, **{"nvidia_com__mig-1g.10gb": "56"})
    assert found is not None
    assert found.gpus[0].mig[0].name == "1g.10gb"
    some = read(H100, **{"nvidia_com__mig-1g.10gb": "7", "nvidia_com__gpu": "7"})
    assert some is not None
    assert not some.gpus[0].mig


def listed(order: str, links: str = "", **more: object) -> dict[str, object]:
    gpu = {"model": "Tesla V100-SXM2-32GB", "links": links.split()}
    gpus = [{"uuid": f"GPU-{n}", "index": int(n), **gpu} for n in order]
    return {"gpus": gpus, **more}


def test_a_list_of_gpus_says_more_and_labels_add_what_it_leaves_out() -> None:
    mesh = links_of("Tesla V100-SXM2-32GB", 8)
    found = read({**H100, CLIQUE: "7d0c.1"}, listed("10234567"))
    assert found is not None
    assert found.named
    assert found.clique == "7d0c.1"
    assert [gpu.uuid for gpu in found.gpus][:2] == ["GPU-1", "GPU-0"]
    assert found.links[0][2] == mesh[1][2], "by index, not by position"
    assert found.links[1][3] == mesh[0][3]
    own = read(H100, listed("01", links="NV2 PHB", clique="own"))
    assert own is not None
    assert (own.links, own.clique) == (((50, 12), (50, 12)), "own")
    gap = read(H100, listed("0123457"))
    assert gap is not None
    assert not gap.links, "a GPU is missing, so nobody knows which"


def test_a_pod_finds_the_model_by_the_labels_of_nodes() -> None:
    listed = {"a100": read({**H100, PRODUCT: "NVIDIA-A100-SXM4-80GB"}), "h100": read(H100)}
    engine = an_engine(*(a_node(name, inventory=found) for name, found in listed.items()))
    ask = GpuRequest(2, models=frozenset({"H100"}), together=2, linked=True)
    see(engine, a_pod("p", gpus=2, gpu_request=ask))
    (bind,) = (made for made in decide(engine) if isinstance(made, Bind))
    assert bind.node == "h100"
    assert bind.grant == Grant((GpuUse(""), GpuUse(""))), "its device plugin picks the GPUs"
