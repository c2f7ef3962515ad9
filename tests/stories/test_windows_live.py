"""Pods that choose cheap or low-carbon hours, on a real API server."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler_rules import History
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

GPU = "nvidia.com/gpu"
HOUR = 3600
REASON = "WaitingForWindow"
CONFIG = """
goals:
  forecasts:
    - {window: cheap, kind: file, file: prices.json, every: 1s}
    - {window: low-carbon, kind: configmap, configMap: default/carbon-intensity, every: 1s}
"""
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
Nodes = Callable[..., list[str]]


def records(*values: float) -> str:
    """One for each hour, from an hour ago on."""
    begin = int(time.time()) // HOUR * HOUR - HOUR
    times = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begin + n * HOUR)) for n in range(48))
    rows = zip(times, [*values, *[values[-1]] * 48], strict=False)
    return json.dumps([{"Location": "x", "Time": at, "Rating": value} for at, value in rows])


#: High now, and low from the hour after the next on.
LATER, NOW = (9, 9, 9, 1), (1, 1, 1, 9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("windows")


@pytest.fixture(scope="module", autouse=True)
def scheduler(control_plane: ControlPlane, folder: Path) -> Iterator[Any]:
    (folder / "scheduler.yaml").write_text(CONFIG)
    (folder / "prices.json").write_text(records(*LATER))
    control_plane.api("POST", CONFIG_MAPS, a_config_map(LATER))
    arguments = "--config", str(folder / "scheduler.yaml")
    with fairlead(control_plane, *arguments, kubeconfig=control_plane.kubeconfig_for()) as running:
        yield running
    control_plane.api("DELETE", f"{CONFIG_MAPS}/carbon-intensity")


def a_config_map(values: tuple[float, ...]) -> dict[str, Any]:
    beat = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    data = {"data": records(*values), "lastHeartbeatTime": beat}
    return {"metadata": {"name": "carbon-intensity"}, "data": data}


def forecasts_are_read(pods: Pods, node: dict[str, Any]) -> None:
    """Pods wait from now on, whichever window they ask for."""
    for n, window in enumerate(("cheap", "low-carbon")):

        def waits(n: int = n, window: str = window) -> bool:
            name = f"probe-{n}-{time.monotonic_ns()}"
            pods.create(name, 1, **said(window=f"{window} 8h"), **node)
            eventually(lambda: pods.condition(name), what=f"{name} is decided")
            found: bool = pods.condition(name).get("reason") == REASON
            pods.delete(name)
            return found

        eventually(waits, what=f"the forecast for {window} is used")


def said(run_time: str = "2h", **more: str) -> dict[str, Any]:
    keys = {
        "window": "start-window", "deadline": "deadline", "not_before": "not-before",
        "timeout": "wait-timeout",
    }  # fmt: skip
    annotations = {f"fairlead.dev/{keys[key]}": value for key, value in more.items()}
    if run_time:
        annotations["fairlead.dev/run-time"] = run_time
    return {"metadata": {"annotations": annotations}}


def wait_for(pods: Pods, name: str, reason: str) -> str:
    def found() -> str:
        condition = pods.condition(name)
        return str(condition["message"]) if condition.get("reason") == reason else ""

    message: str = eventually(found, what=f"{name} is {reason}")
    return message


@pytest.fixture
def node(create_nodes: Nodes) -> dict[str, Any]:
    name = "windows"
    labels = {"kubernetes.io/hostname": name}
    create_nodes([name], allocatable={GPU: "8"}, labels=labels)
    return {"nodeSelector": labels}


@pytest.mark.real
def test_pods_wait_for_their_hours_buy_nothing_and_start_when_they_come(
    control_plane: ControlPlane,
    pods: Pods,
    namespace: str,
    node: dict[str, Any],
    folder: Path,
) -> None:
    forecasts_are_read(pods, node)
    history = History(control_plane, namespace)
    pods.create("cheap", 1, **said(window="cheap 8h"), **node)
    message = wait_for(pods, "cheap", REASON)
    assert "file forecasts a mean of 1 USD/kWh over its run of 2h" in message
    pods.create("green", 1, **said(window="low-carbon", deadline="12h"), **node)
    assert "configmap forecasts a mean of 1 g/kWh" in wait_for(pods, "green", REASON)
    pods.create("later", 1, **said("", not_before="2h"), **node)
    assert "fairlead.dev/not-before" in wait_for(pods, "later", REASON)
    nowhere = {"nodeSelector": {"kubernetes.io/hostname": "missing"}}
    pods.create("nowhere", 1, **said(window="cheap 8h"), **nowhere)
    wait_for(pods, "nowhere", REASON)
    pods.create("unknown", 1, **said("", window="cheap 8h"), **node)
    pods.wait_bound("unknown")
    (event,) = eventually(lambda: pods.events("unknown", "StartWindowNotUsed"), what="a notice")
    assert "no run time is known" in event["note"]
    assert history.buyers() == []
    assert {name: pods.node(name) for name in ("cheap", "green", "later")} == {
        "cheap": "", "green": "", "later": "",
    }  # fmt: skip

    (folder / "prices.json").write_text(records(*NOW))
    control_plane.api("PUT", f"{CONFIG_MAPS}/carbon-intensity", a_config_map(NOW))
    pods.wait_bound("cheap", "green")
    assert pods.condition("later")["reason"] == REASON


def test_a_deadline_that_cannot_be_met_is_said_at_once(pods: Pods, node: dict[str, Any]) -> None:
    pods.create("late", 1, **said("2h", deadline="1h"), **node)
    (event,) = eventually(lambda: pods.events("late", "DeadlineCannotBeMet"), what="a warning")
    assert "the run takes 2h" in event["note"]
    pods.wait_bound("late")


def test_a_wait_that_timed_out_has_a_final_word_and_buys_nothing_more(pods: Pods) -> None:
    pods.create("over", 1, **said(timeout="1s"), nodeSelector={"kubernetes.io/hostname": "missing"})
    assert "fairlead.dev/wait-timeout" in wait_for(pods, "over", "WaitTimedOut")
    eventually(lambda: pods.events("over", "WaitTimedOut"), what="a warning")
