"""The embedded server as a program meets it: through the official Python client."""

import pytest
from kubernetes import client, config, watch

from embedded_plane import EmbeddedPlane


@pytest.fixture
def api(tmp_path):
    with EmbeddedPlane.start(tmp_path) as plane:
        kubeconfig = str(plane.kubeconfig_for())
        with config.new_client_from_config(config_file=kubeconfig) as connection:
            yield connection


@pytest.fixture
def core(api):
    return client.CoreV1Api(api)


def a_pod(name="train", **metadata):
    resources = client.V1ResourceRequirements(limits={"nvidia.com/gpu": "1"})
    container = client.V1Container(name="main", image="example.com/train:1", resources=resources)
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, **metadata),
        spec=client.V1PodSpec(containers=[container], scheduler_name="gpu-scheduler"),
    )


def create(core, *pods):
    return [core.create_namespaced_pod("default", pod) for pod in pods]


def bind(core, name, node):
    target = client.V1ObjectReference(kind="Node", name=node)
    body = client.V1Binding(metadata=client.V1ObjectMeta(name=name), target=target)
    # The servers answer with a Status, which this client takes for a Binding and refuses to read.
    answer = core.create_namespaced_pod_binding(name, "default", body, _preload_content=False)
    assert (answer.status, answer.json()["status"]) == (201, "Success")


def names(listed):
    return [each.metadata.name for each in listed.items]


def test_nodes_and_pods_are_created_and_listed(core):
    resources = {"cpu": "64", "nvidia.com/gpu": "8"}
    status = client.V1NodeStatus(allocatable=resources, capacity=resources)
    node = client.V1Node(metadata=client.V1ObjectMeta(name="node-1"), status=status)
    assert core.create_node(node).status.allocatable == resources
    assert names(core.list_node()) == ["node-1"]
    (made,) = create(core, a_pod(labels={"team": "vision"}))
    create(core, a_pod("other"))
    assert made.metadata.uid
    assert made.metadata.creation_timestamp.tzinfo
    assert made.status.phase == "Pending"
    assert made.spec.containers[0].resources.requests == {"nvidia.com/gpu": "1"}
    assert names(core.list_pod_for_all_namespaces()) == ["other", "train"]
    assert names(core.list_namespaced_pod("default", label_selector="team=vision")) == ["train"]
    assert names(core.list_namespaced_pod("default", field_selector="spec.nodeName=x")) == []
    page = core.list_namespaced_pod("default", limit=1)
    rest = core.list_namespaced_pod("default", limit=1, _continue=page.metadata._continue)
    assert names(page) + names(rest) == ["other", "train"]


def test_a_watch_follows_a_pod_through_its_life(core):
    start = core.list_namespaced_pod("default").metadata.resource_version
    create(core, a_pod())
    labelled = {"metadata": {"labels": {"a": "b"}}}
    acts = iter(
        [
            lambda: core.patch_namespaced_pod("train", "default", labelled),
            lambda: bind(core, "train", "node-1"),
            lambda: core.delete_namespaced_pod("train", "default", grace_period_seconds=0),
            lambda: None,  # a pod on a node is marked before it goes
        ]
    )
    watcher, seen = watch.Watch(), []
    for event in watcher.stream(
        core.list_namespaced_pod, "default", resource_version=start, timeout_seconds=300
    ):
        metadata, spec = event["object"].metadata, event["object"].spec
        marked = metadata.deletion_timestamp is not None
        seen.append((event["type"], metadata.labels, spec.node_name, marked))
        next(acts, watcher.stop)()
    assert seen == [
        ("ADDED", None, None, False),
        ("MODIFIED", {"a": "b"}, None, False),
        ("MODIFIED", {"a": "b"}, "node-1", False),
        ("MODIFIED", {"a": "b"}, "node-1", True),
        ("DELETED", {"a": "b"}, "node-1", True),
    ]
    assert names(core.list_namespaced_pod("default")) == []


def test_events_are_read_in_either_form(api, core):
    (pod,) = create(core, a_pod())
    regarding = client.V1ObjectReference(
        kind="Pod", namespace="default", name="train", uid=pod.metadata.uid
    )
    event = client.EventsV1Event(
        metadata=client.V1ObjectMeta(name="train.1"), event_time=pod.metadata.creation_timestamp,
        type="Warning", reason="FailedScheduling", action="Scheduling",
        note="0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", regarding=regarding,
        reporting_controller="gpu-scheduler", reporting_instance="gpu-scheduler-1",
    )  # fmt: skip
    events = client.EventsV1Api(api)
    events.create_namespaced_event("default", event)
    (new,) = events.list_namespaced_event("default").items
    (old,) = core.list_namespaced_event(
        "default", field_selector="involvedObject.name=train,reason=FailedScheduling"
    ).items
    assert old.message == new.note == event.note
    assert old.involved_object.uid == new.regarding.uid == pod.metadata.uid
    assert new.event_time == event.event_time


def test_refusals_come_as_the_clients_own_errors(core):
    (pod,) = create(core, a_pod())
    with pytest.raises(client.ApiException, match="already exists") as again:
        create(core, a_pod())
    assert (again.value.status, again.value.reason) == (409, "Conflict")
    with pytest.raises(client.ApiException) as absent:
        core.read_namespaced_pod("nothing", "default")
    assert absent.value.status == 404
    core.patch_namespaced_pod("train", "default", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(client.ApiException) as outdated:
        core.replace_namespaced_pod("train", "default", pod)
    assert outdated.value.status == 409
