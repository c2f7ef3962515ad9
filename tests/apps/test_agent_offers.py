"""GPUs as resources in the status of a node, for autoscalers."""

import pytest

from fairlead.apps.agent.gpu_offers import has, offered
from fairlead.apps.agent.unassigned_processes import NodePod, PodsByUid
from fairlead.base.node_inventory import GpuEntry, Listing
from fairlead.model.errors import ConfigError

MILLI, MIB, GPU = "fairlead.dev/gpu-milli", "fairlead.dev/gpu-mib", "nvidia.com/gpu"


def machine(*health: str) -> Listing:
    return Listing([
        GpuEntry(n, f"GPU-{n}", memory_mib=1000, health=each) for n, each in enumerate(health)
    ])  # fmt: skip


def pods(*found: NodePod) -> PodsByUid:
    return {each.uid: (each,) for each in found}


def test_parts_of_all_gpus_are_offered() -> None:
    parts = {MILLI: 2000, MIB: 2000}
    assert offered("parts", machine("ok", "ok"), pods()) == parts
    assert offered("all", machine("ok", "ok"), pods()) == {**parts, GPU: 2}


def test_amounts_are_compared_and_not_texts() -> None:
    assert has({MILLI: "2k", "cpu": "8"}, {MILLI: 2000})
    assert not has({MILLI: "2k"}, {MILLI: 1000})
    assert not has({MILLI: "2k"}, {MILLI: None})
    assert has({}, {MILLI: None})
    assert not has({}, {MILLI: 2000})


def test_nothing_is_written_before_gpus_and_pods_are_known_or_if_it_is_off() -> None:
    assert offered("parts", None, pods()) is None
    assert offered("parts", machine("ok"), None) is None
    assert offered("none", machine("ok"), pods()) is None
    assert offered("withdraw", None, None) == {MILLI: None, MIB: None}


@pytest.mark.parametrize(
    ("pod", "gpus"),
    [
        pytest.param(NodePod("a", "b", "u", assigned={"GPU-1": None}), 2, id="on the sick GPU"),
        pytest.param(NodePod("a", "b", "u", assigned={"GPU-0": None}), 1, id="on another"),
        pytest.param(NodePod("a", "b", "u", assigned=None), 2, id="on any"),
        pytest.param(NodePod("a", "b", "u", assigned={"GPU-1": None}, over=True), 1, id="ended"),
    ],
)
def test_a_sick_gpu_counts_while_a_pod_has_it(pod: NodePod, gpus: int) -> None:
    assert offered("all", machine("ok", "lost"), pods(pod))[GPU] == gpus


def test_whole_gpus_are_not_offered_beside_a_device_plugin() -> None:
    from fairlead.apps import agent

    with pytest.raises(ConfigError, match="--gpu-resources parts"):
        agent.run(agent.AgentOptions("n", gpu_resources="all", device_plugin=True))
    with pytest.raises(ConfigError, match="choose none, parts, all, withdraw"):
        agent.run(agent.AgentOptions("n", gpu_resources="some"))


def test_an_option_that_is_too_long_to_be_told_is_cut() -> None:
    from fairlead.apps import agent

    with pytest.raises(ConfigError, match=f"--gpu-resources is '{'x' * 80}'; choose none"):
        agent.run(agent.AgentOptions("n", gpu_resources="x" * 81))
