"""A pod is told of its service class at admission: what it promises, and what it cannot."""

import json
from typing import Any

import pytest

from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.kube.admission.class_reviews import ClassReviews, promise
from fairlead.model.service_classes import GpuTerms, ServiceClass

FAST = ServiceClass("fast", 120.0, gpus=GpuTerms(quiet=0.4, neighbours=0.0))
SLOW = ServiceClass(
    "slow",
    8 * 3600.0,
    target=0.9,
    queues=frozenset({"team"}),
    priority_classes=frozenset({"batch"}),
    namespaces=frozenset({"research"}),
)
HANDLER = AdmissionHandler(frozenset({"gpu-scheduler"}), classes=ClassReviews.of((FAST, SLOW)))


def warnings(class_: str = "", *, namespace: str = "ns", label: bool = False, **more: str) -> Any:
    """What is said of a pod with these annotations, whose underscores stand for hyphens."""
    said = {f"fairlead.dev/{key.replace('_', '-')}": text for key, text in more.items()}
    priority = said.pop("fairlead.dev/priority-class", "")
    named = {"fairlead.dev/service-class": class_} if class_ else {}
    pod = {
        "metadata": {
            "name": "p",
            "namespace": namespace,
            "creationTimestamp": "2026-11-20T10:00:00Z",
            "annotations": said | ({} if label else named),
            "labels": named if label else {},
        },
        "spec": {
            "schedulerName": "gpu-scheduler",
            "priorityClassName": priority,
            "containers": [{"name": "c", "image": "x"}],
        },
    }
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "object": pod,
    }
    about = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = json.loads(HANDLER.validate(json.dumps(about).encode()).body)["response"]
    assert answer["allowed"] is True, "a class refuses no pod"
    return answer.get("warnings", [])


@pytest.mark.parametrize("label", [False, True])
def test_a_pod_that_names_a_class_is_told_what_it_promises(label: bool) -> None:
    (said,) = warnings("fast", label=label)
    assert said == (
        "service class fast: 95 % of its units are to start within 2m, on GPUs that are less than "
        "40% busy, with no other pods on them"
    )


def test_a_class_that_cannot_be_used_is_said_with_those_that_can() -> None:
    (unknown,) = warnings("fsat")
    assert unknown == (
        "fairlead.dev/service-class is 'fsat' and is ignored: there is no such class; there are: "
        "fast"
    )
    (denied,) = warnings("slow")
    assert "pods of namespace ns may not name it; there are: fast" in denied
    (promised,) = warnings("slow", namespace="research")
    assert promised == "service class slow: 90 % of its units are to start within 8h"


def test_a_deadline_that_the_class_does_not_promise_is_said() -> None:
    first, _ = warnings("slow", namespace="research", deadline="6h", run_time="4h")
    assert first == (
        "fairlead.dev/deadline needs a start within 2h, and service class slow promises one within "
        "8h; choose a class with a shorter wait, or a later deadline"
    )
    assert len(warnings("slow", namespace="research", deadline="13h", run_time="4h")) == 1
    impossible, promised = warnings("fast", deadline="3h", run_time="4h")
    assert "cannot be met" in impossible
    assert "promises one" not in promised, "it is said once"


def test_a_wait_that_ends_before_the_goal_is_said() -> None:
    first, _ = warnings("fast", wait_timeout="1m")
    assert "such a pod does not count in the class" in first
    assert len(warnings("fast", wait_timeout="3m")) == 1


def test_a_pod_that_did_not_choose_its_class_hears_of_conflicts_only() -> None:
    assert warnings(priority_class="batch") == []
    assert warnings(queue="team") == []
    (said,) = warnings(priority_class="batch", deadline="6h", run_time="4h")
    assert "service class slow promises one within 8h" in said
    (said,) = warnings(queue="team", deadline="6h", run_time="4h")
    assert "service class slow promises one within 8h" in said
    assert warnings() == []


def test_the_terms_about_gpus_are_in_the_promise() -> None:
    packed = ServiceClass("small", 60.0, gpus=GpuTerms(0.7, 0.5, packed=True))
    assert promise(packed).endswith(
        "within 1m, on GPUs that are less than 70% busy, which other pods join below 50% only, "
        "shared with others of the class first"
    )
