"""What admission injects for a client of MPS, and what it leaves of what the author wrote."""

import base64
import json
from typing import Any

import pytest

from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.model.gpus import Isolation
from test_admission import HANDLER, LATER, Json, a_pod, answered, patched, steps, update

MPS = {"fairlead.dev__gpu_share": "0.5", "fairlead.dev__gpu_isolation": "mps"}
SHARE = {"fairlead.dev__gpu_share": "0.5"}
VOLUME = {
    "name": "fairlead-mps",
    "hostPath": {"path": "/run/fairlead/mps", "type": "Directory"},
}
MOUNT = {
    "name": "fairlead-mps", "mountPath": "/run/fairlead/mps", "readOnly": True,
    "subPathExpr": "$(CUDA_VISIBLE_DEVICES)/pipe",
}  # fmt: skip
BY_DEFAULT = AdmissionHandler(
    frozenset({"gpu-scheduler"}), isolation={"gpu-scheduler": Isolation.MPS}
)


def admitted(pod: Json, handler: AdmissionHandler = HANDLER) -> Json:
    done = patched(pod, steps(handler, pod))
    assert steps(handler, done) == [], "requested again, nothing is put in twice"
    return done


def values(container: Json) -> dict[str, Any]:
    """Each variable by its value, or by the annotation that it refers to."""
    return {
        one["name"]: one.get("value", "")
        if "valueFrom" not in one
        else one["valueFrom"]["fieldRef"]["fieldPath"].split("/")[1].rstrip("']")
        for one in container["env"]
    }


def test_a_client_gets_its_limits_and_the_pipe_of_its_gpu() -> None:
    spec = admitted(a_pod(None, None, init=1, **MPS))["spec"]

    for container in (*spec["initContainers"], *spec["containers"]):
        assert values(container) == {
            "CUDA_VISIBLE_DEVICES": "gpus",
            "NVIDIA_VISIBLE_DEVICES": "gpus",
            "CUDA_MPS_PIPE_DIRECTORY": "/run/fairlead/mps",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "mps-threads",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "mps-memory",
        }
        assert container["volumeMounts"] == [MOUNT]
    assert spec["volumes"] == [VOLUME]


def test_variables_of_the_author_do_not_raise_a_limit() -> None:
    own = [
        {"name": "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "value": "100"},
        {"name": "CUDA_MPS_PIPE_DIRECTORY", "valueFrom": LATER},
        {"name": "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING", "value": "1"},
        {"name": "MINE", "value": "1"},
    ]
    found = values(admitted(a_pod(own, **MPS))["spec"]["containers"][0])

    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "mps-threads"
    assert found["CUDA_MPS_PIPE_DIRECTORY"] == "/run/fairlead/mps"
    assert found["MINE"] == "1"
    assert len(found) == 6


def test_the_author_mounts_no_pipe_of_another_gpu() -> None:
    pod = a_pod(None, **MPS)
    whole = {"name": "fairlead-mps", "mountPath": "/all"}
    pod["spec"]["volumes"] = [
        {"name": "a", "emptyDir": {}},
        {"name": "fairlead-mps", "hostPath": {"path": "/"}},
    ]
    pod["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "a", "mountPath": "/a"}, whole, whole | {"mountPath": "/b"},
    ]  # fmt: skip

    spec = admitted(pod)["spec"]

    assert spec["volumes"] == [{"name": "a", "emptyDir": {}}, VOLUME]
    mounts = spec["containers"][0]["volumeMounts"]
    assert mounts == [{"name": "a", "mountPath": "/a"}, MOUNT]


@pytest.mark.parametrize("words", [SHARE, {**SHARE, "fairlead.dev__gpu_isolation": "advisory"}, {}])
def test_other_pods_keep_what_they_say_about_mps(words: dict[str, str]) -> None:
    """With a whole GPU, for example, a pod can run a daemon of its own."""
    own = {"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/tmp/mine"}
    pod = admitted(a_pod([own], **words))

    assert pod["spec"]["containers"][0]["env"][0] == own
    assert "volumes" not in pod["spec"]


def test_an_ephemeral_container_of_a_client_sees_no_gpu() -> None:
    before, debug = a_pod(None, **MPS), {"name": "debug", "env": [{"name": "CUDA_MPS_X"}]}
    after = a_pod(None, **MPS)
    after["spec"]["ephemeralContainers"] = [debug]

    answer = answered(HANDLER.mutate(update(after, before)).body)

    done = patched(after, json.loads(base64.b64decode(answer["patch"])))
    found = values(done["spec"]["ephemeralContainers"][0])
    assert found == {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


def test_a_share_has_the_isolation_of_its_profile() -> None:
    pod = admitted(a_pod(None, **SHARE), BY_DEFAULT)
    assert pod["metadata"]["annotations"]["fairlead.dev/gpu-isolation"] == "mps"
    assert pod["spec"]["volumes"] == [VOLUME]


@pytest.mark.parametrize(
    "words",
    [
        {},
        {**SHARE, "fairlead.dev__gpu_isolation": "advisory"},
        {"fairlead.dev__gpu_slice": "1g.5gb"},
    ],
    ids=["no share", "another demand", "a slice"],
)
def test_the_default_is_for_shares_that_demand_none(words: dict[str, str]) -> None:
    pod = a_pod(None, **words)
    before = dict(pod["metadata"]["annotations"])
    assert admitted(pod, BY_DEFAULT)["metadata"]["annotations"] == before
