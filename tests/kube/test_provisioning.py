"""ProvisioningRequests as they are read and written."""

import copy
import json
import math
from random import Random
from typing import Any

import msgspec
import pytest

from builders import a_pod
from fairlead.engine.node_requests import NodeRequest
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.provisioning import decode_request, request_body, template_body
from fairlead.model.gpus import GpuRequest
from fairlead.model.node_requests import RequestTerms
from fuzz.mutations import mutated

Json = dict[str, Any]
GANG = "fairlead/default/job"
REQUEST = NodeRequest(GANG, ((a_pod("a", uid="1"), 3), (a_pod("b", uid="2"), 1)))
POD: Json = {
    "metadata": {"name": "a", "labels": {"app": "x"}, "annotations": {"token": "secret"}},
    "spec": {
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"operator": "Exists"}],
        "serviceAccountName": "robot",
        "schedulerName": "gpu-scheduler",
        "containers": [
            {
                "name": "main", "image": "x", "command": ["secret"],
                "env": [{"name": "A", "value": "secret"}],
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
            }
        ],
        "volumes": [
            {"name": "token", "projected": {"sources": ["secret"]}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    },
}  # fmt: skip


def seen(*conditions: Json, name: str = "", gang: str = GANG) -> Any:
    body = request_body(REQUEST, "v1", RequestTerms())
    body["metadata"] |= {"uid": "u", "annotations": {"fairlead.dev/requested-for": gang}}
    body["metadata"]["name"] = name or body["metadata"]["name"]
    body["status"] = {"conditions": list(conditions)}
    return decode_request(json.dumps(body).encode())


def said(kind: str, status: str = "True", message: str = "") -> Json:
    return {"type": kind, "status": status, "message": message}


@pytest.mark.parametrize(
    ("conditions", "words", "has_ended"),
    [
        ((), "is not accepted yet.", False),
        ((said("Accepted"),), "is accepted.", False),
        (
            (said("Accepted"), said("Provisioned", "False", "No  room.")),
            "accepted: No room.",
            False,
        ),
        ((said("Accepted"), said("Provisioned")), "its nodes are awaited.", False),
        ((said("Provisioned"), said("BookingExpired")), "expired: no reason was given;", True),
        ((said("Provisioned"), said("CapacityRevoked", message="spot")), "revoked: spot;", True),
        ((said("Failed", message="x" * 999),), "x" * 200 + "; nodes will be requested", True),
    ],
)
def test_what_became_of_a_request(conditions: Any, words: str, has_ended: bool) -> None:
    found = seen(*conditions)
    assert words in found.sentence
    assert found.has_ended is has_ended


@pytest.mark.parametrize(
    ("name", "gang"), [("mine", GANG), ("", "fairlead/other/job"), ("", "job"), ("", "")]
)
def test_what_others_wrote_is_for_no_gang(name: str, gang: str) -> None:
    found = seen(name=name, gang=gang)
    assert (found.gang, found.templates) == ("", ())


def test_a_template_has_what_says_where_pods_can_run_and_nothing_else() -> None:
    made = template_body(REQUEST, 1, POD)
    assert "secret" not in str(made)
    assert "robot" not in str(made)
    assert made["metadata"]["name"] == seen().templates[1]
    spec = made["template"]["spec"]
    assert spec["nodeSelector"] == {"pool": "a"}
    assert spec["volumes"] == [POD["spec"]["volumes"][1]]
    assert spec["containers"] == [
        {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    ]


@pytest.mark.parametrize(
    ("ask", "together"),
    [
        (GpuRequest(1, False, 300, dialect="fairlead"), 3),
        (GpuRequest(1, False, 300, memory_milli=500, dialect="kai"), 2),
        (GpuRequest(1, False, 1, dialect="fairlead"), 8),
        (GpuRequest(1, False, 0, 4096, dialect="fairlead"), 1),
        (GpuRequest(1, False, 700, dialect="fairlead"), 1),
        (GpuRequest(1, False, 300, dialect="hami"), 0),
        (GpuRequest(1, False, 0, profile="1g.10gb", dialect="fairlead"), 0),
        (GpuRequest(1), 0),
    ],
)
def test_parts_of_gpus_are_requested_as_whole_ones(ask: GpuRequest, together: int) -> None:
    pod = a_pod("a", uid="1", gpu_request=ask)
    request = NodeRequest(GANG, ((pod, 7),))
    body = copy.deepcopy(POD)
    container = body["spec"]["containers"][0]
    container |= {"resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}
    made = template_body(request, 0, body)["template"]["spec"]["containers"]
    (pod_set,) = request_body(request, "v1", RequestTerms())["spec"]["podSets"]
    assert pod_set["count"] == (math.ceil(7 / together) if together else 7)
    assert len(made) == len({each["name"] for each in made}) == max(1, together)
    asked = [each["resources"].get("limits", {}).get("nvidia.com/gpu") for each in made]
    assert asked == (["1"] if together else [None]) + [None] * (len(made) - 1)
    assert sum("ports" in each for each in made) == 1


def test_mutated_requests_are_read_or_are_unreadable() -> None:
    body = request_body(REQUEST, "v1", RequestTerms(parameters={"ValidUntilSeconds": "1"}))
    body["status"] = {"conditions": [said("Accepted"), said("Provisioned", "False", "later")]}
    readable = 0
    for case in range(500):
        obj = mutated(Random(case), copy.deepcopy(body))
        try:
            decode_request(msgspec.json.encode(obj))
            readable += 1
        except UNREADABLE:
            continue
    assert readable
