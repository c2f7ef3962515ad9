"""What stands in deploy/ is what works: on a real API server, with the rights it gives itself."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import manifests
from fairlead.kube.leadership.election import Terms
from fairlead.kube.leadership.fence import EPOCH
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import Pods, eventually, fairlead
from manifests import (
    AS_IN_A_POD,
    DEPLOY,
    HERE,
    NAMESPACE,
    SCHEDULER,
    STATIC_POD,
    Object,
    apply,
    documents,
    kubectl,
    the,
    wait_for_rights,
)

GPU = "nvidia.com/gpu"


@contextmanager
def installed_on(plane: ControlPlane) -> Iterator[None]:
    """The scheduler's objects, known to RBAC, for the time of a block."""
    apply(plane, "scheduler")
    wait_for_rights(plane)
    yield
    roles = (
        "fairlead fairlead-advance fairlead-claims fairlead-gangs fairlead-owners fairlead-queues"
    )
    kubectl(plane, f"delete clusterrole,clusterrolebinding {roles}")
    served.remove_namespace(plane, NAMESPACE)
    served.until(
        lambda: not served.allowed(plane, SCHEDULER, "watch", "pods"), "the rights are forgotten"
    )


@pytest.fixture
def installed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The shared control plane with the scheduler applied; it goes after the test."""
    with installed_on(control_plane):
        yield control_plane


@pytest.fixture
def test_pods(control_plane: ControlPlane) -> Iterator[Callable[[Path], None]]:
    """Applies a file of pods to the default namespace; they go after the test."""
    applied: list[Path] = []

    def apply(path: Path) -> None:
        applied.append(path)
        kubectl(control_plane, f"apply -f {path}")

    yield apply
    for path in applied:
        kubectl(control_plane, f"delete --force --grace-period=0 -f {path}")


# -- the manifests -------------------------------------------------------------------------------


def test_one_command_installs_everything_and_may_be_repeated(installed: ControlPlane) -> None:
    again = apply(installed, "scheduler").splitlines()

    assert len(again) == len(documents(component="scheduler")) == 22
    changed = [line.split()[0] for line in again if not line.endswith(" unchanged")]
    # kubectl writes the selector of a budget anew each time, even if it is the same.
    assert changed == ["poddisruptionbudget.policy/fairlead"]


def test_the_static_pod_is_valid(control_plane: ControlPlane) -> None:
    said = kubectl(control_plane, f"apply --dry-run=server -f {STATIC_POD}")

    assert said == "pod/fairlead created (server dry run)\n"


def test_the_pod_is_admitted_where_pod_security_is_restricted(installed: ControlPlane) -> None:
    template = the("Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    admitted, answer = installed.api("POST", pods, _named(pod, "as-shipped"))
    assert admitted == 201, answer

    laxer = json.loads(json.dumps(_named(pod, "laxer")))
    del laxer["spec"]["containers"][0]["securityContext"]["capabilities"]
    refused, answer = installed.api("POST", pods, laxer)
    assert refused == 403, "nothing is enforced, so being admitted says nothing"
    assert "restricted" in answer["message"]


def _named(pod: Object, name: str) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def test_probes_service_and_arguments_name_one_port() -> None:
    spec = the("Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (port,) = container["ports"]
    (served,) = the("Service")["spec"]["ports"]

    assert f"--port={port['containerPort']}" in container["args"]
    assert "--address=0.0.0.0" in container["args"], "probes come from outside the pod"
    assert served["targetPort"] == port["name"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == port["name"]


def test_the_static_pod_can_log_in_on_a_read_only_file_system() -> None:
    spec = the("Pod", STATIC_POD, "static-pod")["spec"]
    (container,) = spec["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}

    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert mounts["/etc/kubernetes/scheduler.conf"]["readOnly"]
    # The client key in that file passes through a temporary one.
    assert volumes[mounts["/tmp"]["name"]]["emptyDir"]["medium"] == "Memory"


def test_of_the_two_replicas_one_is_elected() -> None:
    spec = the("Deployment")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    named = [rule for rule in the("Role")["rules"] if "resourceNames" in rule]
    (lease,) = [rule for rule in named if rule["resources"] == ["leases"]]
    (epoch,) = [rule for rule in named if rule["resources"] == ["schedulerepochs"]]

    assert spec["replicas"] == 2
    assert "--no-leader-elect" not in container["args"]
    assert lease["resourceNames"] == epoch["resourceNames"] == [Terms().name]


def test_the_epoch_policy_is_about_this_lease_and_this_user() -> None:
    policy, binding = manifests.policy("fairlead-epoch")
    lease = binding["spec"]["paramRef"]
    (condition,) = policy["spec"]["matchConditions"]

    assert (lease["namespace"], lease["name"]) == (NAMESPACE, Terms().name)
    assert f"'{SCHEDULER}'" in condition["expression"]
    assert f"'{EPOCH}'" in condition["expression"]


# -- the manifests at work -----------------------------------------------------------------------


def test_it_schedules_with_the_rights_that_it_ships(
    installed: ControlPlane, create_nodes, test_pods
) -> None:
    create_nodes(["deploy-a", "deploy-b"], allocatable={GPU: "4"})
    test_pods(DEPLOY / "test-pods.yaml")
    test_pods(DEPLOY / "toyscheduler" / "test-pods.yaml")
    (container,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    access = installed.kubeconfig_for(SCHEDULER)
    pods = Pods(installed, "default")

    options = (*container["args"][1:], *HERE, *AS_IN_A_POD)
    with fairlead(installed, *options, kubeconfig=access) as program:
        pods.wait_bound("gpu-test", "toy-test-1", "toy-test-2")
        why = pods.wait_refused("gpu-test-too-large")["message"]
        for probe in ("livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            eventually(lambda path=path: program.get(path) == (200, "ok"))
        (bound,) = eventually(lambda: pods.events("toy-test-1", "Scheduled"))
        (refused,) = eventually(lambda: pods.events("gpu-test-too-large"))

    assert why.startswith(f"0/2 nodes are available: 2 Insufficient {GPU}.")
    assert (refused["reason"], refused["note"]) == ("FailedScheduling", why)
    assert (bound["reason"], bound["reportingController"]) == ("Scheduled", "toyscheduler")
    # No webhook runs here, so the pods have no CUDA_VISIBLE_DEVICES, and the scheduler says so.
    warnings = [record for record in program.records if record["level"] != "info"]
    assert {record.get("reason") for record in warnings} == {"VariablesMissing"}


@pytest.mark.slow
def test_toyscheduler_alone_is_one_variable_away(
    installed: ControlPlane, create_nodes, test_pods
) -> None:
    readme = (DEPLOY / "toyscheduler" / "README.md").read_text()
    (command,) = re.findall(r"^kubectl (.+ set env .+)$", readme, flags=re.MULTILINE)
    kubectl(installed, command)
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/fairlead"
    _, deployment = installed.api("GET", path)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    env = {variable["name"]: variable["value"] for variable in container["env"]}
    create_nodes(["deploy-c"], allocatable={GPU: "4"})
    test_pods(DEPLOY / "test-pods.yaml")
    test_pods(DEPLOY / "toyscheduler" / "test-pods.yaml")
    access = installed.kubeconfig_for(SCHEDULER)
    pods = Pods(installed, "default")

    with fairlead(installed, *container["args"][1:], *HERE, env=env, kubeconfig=access) as program:
        pods.wait_bound("toy-test-1", "toy-test-2")

    (started,) = [record for record in program.records if record["event"] == "started"]
    assert started["schedulers"] == ["toyscheduler"]
    assert not pods.node("gpu-test")


@pytest.mark.slow
def test_the_static_pod_schedules_as_kube_scheduler(
    control_plane: ControlPlane, create_nodes, test_pods
) -> None:
    create_nodes(["deploy-d"], allocatable={GPU: "4"})
    test_pods(DEPLOY / "test-pods.yaml")
    (container,) = the("Pod", STATIC_POD, "static-pod")["spec"]["containers"]
    mounted = "--kubeconfig=/etc/kubernetes/scheduler.conf"
    assert mounted in container["args"]
    arguments = [argument for argument in container["args"][1:] if argument != mounted]
    access = control_plane.kubeconfig_for("system:kube-scheduler")
    pods = Pods(control_plane, "default")

    with fairlead(control_plane, *arguments, *HERE, kubeconfig=access) as program:
        pods.wait_bound("gpu-test")
        pods.wait_refused("gpu-test-too-large")
        eventually(lambda: pods.events("gpu-test"))

    assert [record for record in program.records if record["level"] != "info"] == []
