"""Requests for parts of GPUs that admission adds to pods, for autoscalers and kubelets."""

import pytest

from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.kube.admission.gpu_resources import Added
from test_admission import Json, a_pod, patched, steps

MILLI, MIB = "fairlead.dev/gpu-milli", "fairlead.dev/gpu-mib"
SHARE = {"fairlead.dev__gpu_share": "0.25", "fairlead.dev__gpu_memory": "4Gi"}


def resources(pod: Json, added: Added = "parts") -> list[Json | None]:
    """Of each container, after admission."""
    handler = AdmissionHandler(frozenset({"gpu-scheduler"}), gpu_resources=added)
    done = patched(pod, steps(handler, pod))
    assert steps(handler, done) == [], "requested again, nothing is put in twice"
    return [each.get("resources") for each in done["spec"]["containers"]]


@pytest.mark.parametrize(
    "before",
    [
        None,
        {},
        {"limits": {}, "requests": None},
        {"limits": {MILLI: "9999"}, "requests": {MILLI: "7", MIB: "1"}},
        {"requests": {MILLI: "250"}},
    ],
)
def test_the_first_container_requests_the_parts_of_the_pod(before: Json | None) -> None:
    pod = a_pod(None, None, **SHARE)
    pod["spec"]["containers"][0] |= {} if before is None else {"resources": before}
    wanted = {MILLI: "250", MIB: "4096"}
    assert resources(pod) == [{"limits": wanted, "requests": wanted}, None]


def test_other_amounts_stay() -> None:
    pod = a_pod(None, **SHARE)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2", "memory": "1Gi"}}
    [found] = resources(pod)
    assert found["requests"] == {"cpu": "2", "memory": "1Gi", MILLI: "250", MIB: "4096"}
    assert found["limits"] == {MILLI: "250", MIB: "4096"}


def test_whole_gpus_are_counted_only_if_all_pods_are_to_request_parts() -> None:
    pod, gpus = a_pod(None), {"nvidia.com/gpu": "2"}
    pod["spec"]["containers"][0]["resources"] = {"limits": gpus, "requests": gpus}
    assert resources(pod) == [{"limits": gpus, "requests": gpus}]
    both = {**gpus, MILLI: "2000"}
    assert resources(pod, "all") == [{"limits": both, "requests": both}]
    stored = {**gpus, MILLI: "2k"}
    pod["spec"]["containers"][0]["resources"] = {"limits": stored, "requests": stored}
    assert resources(pod, "all") == [{"limits": stored, "requests": stored}]


@pytest.mark.parametrize("said", [{}, {"fairlead.dev__gpu_share": "half"}])
def test_pods_without_gpus_and_invalid_ones_get_none(said: dict[str, str]) -> None:
    assert resources(a_pod(None, **said), "all") == [None]


def test_by_default_no_pod_does() -> None:
    assert resources(a_pod(None, **SHARE), "none") == [None]
