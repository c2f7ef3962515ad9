"""A reading of the administrator from a real Prometheus decides where a pod may run."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporters import Exporter, exporting
from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, PATIENCE_S, Pods, eventually, fairlead
from preloaded import run
from prometheuses import scraping

CONFIG = """
apiVersion: fairlead.dev/v1alpha1
kind: SchedulerConfiguration
readings:
  - name: inlet
    url: "{url}"
    # Of a minute: a scrape that takes longer than a second leaves a gap.
    query: max by (Hostname) (last_over_time(inlet_celsius[1m]))
    unit: C
    every: 1s
profiles:
  - schedulerName: gpu-scheduler
    filters: {{enabled: [{{plugin: ReadingLimit, options: {{at_most: {{inlet: 40}}}}}}]}}
"""


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with exporting() as found:
        yield found


def show(exporter: Exporter, **celsius: float) -> None:
    lines = [f'inlet_celsius{{Hostname="{node}"}} {value}\n' for node, value in celsius.items()]
    exporter.text = "".join(lines).encode()


def test_a_pod_waits_while_the_reading_of_its_node_is_above_the_limit(
    control_plane: ControlPlane,
    pods: Pods,
    create_nodes: Callable[..., None],
    exporter: Exporter,
    prometheus: Path,
    tmp_path: Path,
) -> None:
    create_nodes(["warm"])
    show(exporter, warm=55.0)
    with scraping(prometheus, exporter, tmp_path) as url:
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG.format(url=url))
        with fairlead(control_plane, "--config", str(config)) as program:
            eventually(lambda: program.metric("fairlead_named_reading_values", reading="inlet"))
            pods.create("pod")
            eventually(lambda: "inlet above 40" in pods.condition("pod").get("message", ""))
            show(exporter, warm=25.0)
            pods.wait_bound("pod")
        command = [str(FAIRLEAD), "goals", "--config", str(config)]
        command += ["--kubeconfig", str(control_plane.kubeconfig_for())]
        done = run(command, check=True, timeout=PATIENCE_S)
        assert "reading inlet (C): 1 of " in done.stdout
