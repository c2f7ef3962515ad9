"""The policy that warns of misspelt annotations: it tells their author, and refuses nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.kube.codec import decode_pod
from fairlead.sim.controlplane import ControlPlane, served
from manifests import policy, warnings_of

POLICY = policy("fairlead-spelling")
META = {"name": "odd"}
ODD = {
    "fairlead.dev/gpu-shares": "0.5",
    "fairlead.dev/GPU-share": "0.5",
    "gpu-schedulingmap": "0=n:0",
    "GPU_fraction": "0.5",
    "gpu-share": "0.5",
}
FINE = {"fairlead.dev/gpu-share": "0.5", "gpu-scheduling-map": "0=n:0", "example.com/gpushare": "x"}


def a_template(annotations: dict[str, str]) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "x"}], "schedulerName": "gpu-scheduler"}
    return {"metadata": {"labels": {"app": "odd"}, "annotations": annotations}, "spec": spec}


def a_pod(annotations: dict[str, str]) -> dict[str, Any]:
    template = a_template(annotations)
    return {"metadata": {**META, "annotations": annotations}, "spec": template["spec"]}


def a_workload(kind: str, annotations: dict[str, str]) -> dict[str, Any]:
    template = a_template(annotations)
    spec: dict[str, Any] = {"template": template, "selector": {"matchLabels": {"app": "odd"}}}
    version = "apps/v1"
    if kind == "Job":
        version, spec = "batch/v1", {"template": template}
        template["spec"]["restartPolicy"] = "Never"
    return {"apiVersion": version, "kind": kind, "metadata": META, "spec": spec}


@pytest.fixture(scope="module")
def warned(real_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The API server with the policy in force."""
    probe = a_pod({"fairlead.dev/probe": ""})

    def in_force() -> bool:
        return bool(warnings_of(real_plane, "default", probe))

    with served.policy(real_plane, POLICY, in_force):
        yield real_plane


@pytest.mark.parametrize("key", ODD)
def test_a_misspelt_annotation_is_warned_of(warned: ControlPlane, key: str) -> None:
    told = warnings_of(warned, "default", a_pod({**FINE, key: ODD[key]}))

    assert f"annotation {key} is unknown to Fairlead and has no effect; check its spelling" in told


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job"])
def test_so_is_one_in_a_template(warned: ControlPlane, kind: str) -> None:
    key = "fairlead.dev/gpu-shares"

    assert f"annotation {key} is" in warnings_of(warned, "default", a_workload(kind, {key: "1"}))
    assert warnings_of(warned, "default", a_workload(kind, {})) == ""


def test_others_are_not(warned: ControlPlane) -> None:
    assert warnings_of(warned, "default", a_pod(FINE)) == ""
    assert warnings_of(warned, "default", a_pod({})) == ""


@pytest.mark.parametrize("key", ["fairlead.dev/run-time", "fairlead.dev/time-limit"])
@pytest.mark.parametrize(
    "word",
    ["0", "0s", "0h0m", "-5m", "36500d", "370d", "876000h", "9" * 60, "soon", "", "1e9", "5 m"],
)
def test_a_run_time_that_is_none_is_warned_of(warned: ControlPlane, key: str, word: str) -> None:
    told = warnings_of(warned, "default", a_pod({key: word}))
    assert f"annotation {key} is ignored; write a duration such as 90m" in told
    problem = decode_pod(json.dumps(a_pod({key: word})).encode()).run_time
    assert problem is not None
    assert problem.problem


@pytest.mark.parametrize("word", ["90m", "2h30m", "5400", "1d", "1.5h", "366d", "0.5h", "10s"])
def test_a_run_time_is_not_warned_of(warned: ControlPlane, word: str) -> None:
    found = a_pod({"fairlead.dev/run-time": word})
    assert warnings_of(warned, "default", found) == ""
    read = decode_pod(json.dumps(found).encode()).run_time
    assert read is not None
    assert not read.problem
