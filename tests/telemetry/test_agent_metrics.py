"""What a Prometheus server reads, held to what it read beside a real H200."""

import json
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fairlead.apps.agent.listing import listing
from fairlead.base import node_inventory
from fairlead.sim.nvml import FakeMachine, FakeProcess, machine_of
from fairlead.telemetry.agent import AgentMetrics, AgentReport, PodUse, UnassignedUse
from nvml_in_process import a_surveyor

REAL = Path(__file__).parents[1] / "fixtures" / "h200" / "agent"
UUID = "GPU-00000000-0000-0000-0000-000000000000"


def the_real_machine() -> FakeMachine:
    machine = machine_of()
    machine.gpus[0].uuid = UUID
    return machine


def series(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def shown(
    machine: FakeMachine, *, names_pods: bool = False, **more: object
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    surveyor, handler, clock = a_surveyor(machine)
    survey = await surveyor.survey()
    samples, _ = await surveyor.sample()
    metrics = AgentMetrics("h200", clock, names_pods=names_pods, restarts=lambda: handler.starts)
    metrics.report = AgentReport(clock(), survey.gpus, samples=tuple(samples.values()), **more)
    clock.now_s += 0.19246205500000002
    return series(generate_latest(metrics.registry).decode())


async def test_the_imagined_machine_shows_what_the_real_one_showed() -> None:
    """The values of sensors aside, which are given here as they were there."""
    machine = the_real_machine()
    gpu = machine.gpus[0]
    gpu.busy, gpu.memory_busy, gpu.power_mw, gpu.temperature_c = 100, 26, 441_849, 46
    gpu.processes = [FakeProcess(590, 1_145_044_992)]
    process = UnassignedUse(UUID, "0", 590, 1_145_044_992)

    found = await shown(machine, sick=frozenset({UUID}), unassigned=(process,))

    real = series((REAL / "metrics.txt").read_text())
    assert found.keys() == real.keys()
    assert all(abs(found[key] - real[key]) <= 1e-6 * abs(real[key]) for key in real)


async def test_the_imagined_machine_lists_what_the_real_one_listed() -> None:
    real = json.loads((REAL / "once.json").read_text())
    surveyor, *_ = a_surveyor(the_real_machine())

    listed = json.loads(node_inventory.write(listing(await surveyor.survey())))

    assert listed == real["inventory"]


async def test_what_nvml_does_not_tell_is_left_out() -> None:
    machine = the_real_machine()
    machine.gpus[0].mig = True

    names = {name for name, _ in await shown(machine)}

    assert "fairlead_gpu_power_watts" in names
    assert "fairlead_gpu_utilization_ratio" not in names


@pytest.mark.parametrize(
    ("names_pods", "names"), [(False, ()), (True, (("namespace", "team"), ("pod", "train")))]
)
async def test_pods_are_shown_by_name_where_that_is_switched_on(
    names_pods: bool, names: tuple[tuple[str, str], ...]
) -> None:
    use = PodUse(UUID, "0", "uid-1", "team", "train", None, 5)

    found = await shown(the_real_machine(), pods=(use,), names_pods=names_pods)

    always = ("gpu", "0"), ("node", "h200"), ("pod_uid", "uid-1"), ("uuid", UUID)
    labels = tuple(sorted((*always, *names)))
    assert found["fairlead_gpu_pod_memory_used_bytes", labels] == 5
    assert ("fairlead_gpu_pod_utilization_ratio", labels) not in found


async def test_bytes_over_nvlink_are_a_counter_by_direction() -> None:
    machine = machine_of(2, wiring="switch")
    machine.gpus[0].link_kib = (3, 5)

    found = await shown(machine)

    ways = {
        dict(labels)["direction"]: value
        for (name, labels), value in found.items()
        if name == "fairlead_gpu_nvlink_bytes_total" and dict(labels)["gpu"] == "0"
    }
    assert ways == {"tx": 3 << 10, "rx": 5 << 10}


def test_before_the_first_look_nothing_is_made_up() -> None:
    metrics = AgentMetrics("n", float)

    assert series(generate_latest(metrics.registry).decode()) == {
        ("fairlead_agent_nvml_starts_total", (("node", "n"),)): 0.0
    }
