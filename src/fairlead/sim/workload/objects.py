"""Pieces of work as the objects that a user would apply."""

from collections.abc import Iterable
from importlib import resources
from math import ceil
from typing import Any

import yaml

from fairlead.base.durations import text_of
from fairlead.model.nodes import GPU
from fairlead.model.run_times import RUN_TIME
from fairlead.sim.kubelets import RUN_FOR
from fairlead.sim.workload import QUEUE_LABEL, SAMPLE, Create, Stream, TeamQueue, Workload

Object = dict[str, Any]

_SHARE = "fairlead.dev/gpu-share"
_GANG, _GANG_MIN = "fairlead.dev/gang", "fairlead.dev/gang-min"
_QUEUES = "queues.fairlead.dev"
_IMAGE = "registry.k8s.io/pause:3.10"


def object_of(action: Create, pod_speed: float = 1.0, speed: float = 1.0) -> Object:
    """What to POST. `pod_speed` shortens the run time of the pods, for kubelets at real time.

    Pods declare the longest run time of their stream, at the `speed` at which all of them run.
    """
    stream = action.stream
    labels = {**stream.labels, "app": stream.name, SAMPLE: action.name}
    labels |= {QUEUE_LABEL: stream.queue} if stream.queue else {}
    metadata: Object = {"name": action.name, "labels": labels}
    if stream.kind == "StatefulSet":
        # Its pods would be started again when they end: the workload deletes the whole instead.
        return _stateful_set(stream, metadata, _template(stream, labels, None))
    run_for = text_of(action.run_for_s / pod_speed)
    template = _template(stream, labels, run_for)
    template["metadata"]["annotations"][RUN_TIME] = f"{ceil(stream.run_range_s[1] / speed)}s"
    if stream.kind == "Job":
        return _job(stream, metadata, template)
    metadata["annotations"] = template["metadata"]["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def priority_classes(workload: Workload) -> list[Object]:
    """The classes that the streams' priorities need; the API server takes no bare numbers."""
    values = sorted({stream.priority for stream in workload.streams if stream.priority})
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _class_name(value)},
            "value": value,
            "description": "Made by the sample workload.",
        }
        for value in values
    ]


def claim_templates(workload: Workload) -> list[Object]:
    """The templates of the claims that pods of the streams use."""
    return [_claim_template(stream) for stream in workload.streams if stream.device_class]


def claim_template_name(stream: Stream) -> str:
    return f"sample-{stream.name}"


def _claim_template(stream: Stream) -> Object:
    count = 1 if stream.share is not None else stream.gpus
    need: Object = {"deviceClassName": stream.device_class, "count": count}
    need["allocationMode"] = "ExactCount"
    if stream.device_selector:
        need["selectors"] = [{"cel": {"expression": stream.device_selector}}]
    devices = {"requests": [{"name": "gpu", "exactly": need}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": claim_template_name(stream), "namespace": "default"},
        "spec": {"spec": {"devices": devices}},
    }


def queue_definition() -> Object:
    """The kind of queues."""
    file = resources.files("fairlead.sim").joinpath("workload", "crds.yaml")
    kinds: Iterable[Object] = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    return next(kind for kind in kinds if kind and kind["metadata"]["name"] == _QUEUES)


def queue_objects(workload: Workload, gpus: int) -> list[Object]:
    """The queues of the teams in a cluster of so many GPUs, parents first."""
    made: dict[str, Object] = {}
    left = list(workload.queues)
    while ready := [each for each in left if not each.parent or each.parent in made]:
        made |= {each.name: _queue(each, gpus) for each in ready}
        left = [each for each in left if each.name not in made]
    return list(made.values())


def _queue(queue: TeamQueue, gpus: int) -> Object:
    spec: Object = {"weight": queue.weight}
    if queue.parent:
        spec["parent"] = queue.parent
    if queue.guaranteed:
        spec["guaranteed"] = {GPU: round(queue.guaranteed * gpus)}
    if queue.limit is not None:
        spec["limit"] = {GPU: round(queue.limit * gpus)}
    metadata = {"name": queue.name}
    kind = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "Queue"}
    return {**kind, "metadata": metadata, "spec": spec}


def _class_name(value: int) -> str:
    return f"sample-{value}" if value >= 0 else f"sample-minus-{-value}"


def _stateful_set(stream: Stream, metadata: Object, template: Object) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "replicas": stream.replicas,
            "serviceName": stream.name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {SAMPLE: metadata["name"]}},
            "template": template,
        },
    }


def _job(stream: Stream, metadata: Object, template: Object) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": stream.replicas,
            "parallelism": stream.replicas,
            "template": template,
        },
    }


def _template(stream: Stream, labels: dict[str, str], run_for: str | None) -> Object:
    annotations = {RUN_FOR: run_for} if run_for else {}
    amounts = {"cpu": stream.cpu, "memory": stream.memory}
    if stream.device_class:
        pass  # by a claim, below
    elif stream.share is not None:
        annotations[_SHARE] = f"{stream.share:g}"
    elif stream.gpus:
        amounts[GPU] = str(stream.gpus)
    if stream.gang:
        annotations |= {_GANG: labels[SAMPLE], _GANG_MIN: str(stream.replicas)}
    metadata: Object = {"labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    spec: Object = {
        "schedulerName": stream.scheduler_name,
        "restartPolicy": "Always" if stream.kind == "StatefulSet" else "Never",
        "terminationGracePeriodSeconds": 5,
        "containers": [
            {
                "name": "main",
                "image": _IMAGE,
                "resources": {"requests": amounts, "limits": dict(amounts)},
            }
        ],
    }
    if stream.device_class:
        template = claim_template_name(stream)
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
        spec["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    if stream.priority:
        spec["priorityClassName"] = _class_name(stream.priority)
    if stream.node_selector:
        spec["nodeSelector"] = stream.node_selector
    return {"metadata": metadata, "spec": spec}
