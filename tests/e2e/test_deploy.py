"""What stands in deploy/ is what works: on a real API server, with the rights it gives itself."""

import contextlib
import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.kube.leadership.election import Terms
from fairlead.kube.leadership.fence import EPOCH
from fairlead.sim.controlplane import ControlPlane, service_account
from fairleads import Pods, eventually, fairlead
from storages import SELECTED_NODE, Storage, uses

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DEPLOYMENT = DEPLOY / "as-deployment.yaml"
STATIC_POD = DEPLOY / "as-static-pod.yaml"
NAMESPACE = "fairlead-system"
IDENTITY = service_account(NAMESPACE, "fairlead")
GPU = "nvidia.com/gpu"
HERE = ("--address=127.0.0.1", "--port=0")  # said last, so it counts
#: What a pod does without being told.
AS_IN_A_POD = ("--leader-elect", f"--leader-elect-resource-namespace={NAMESPACE}")

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def the(kind: str, path: Path = DEPLOYMENT) -> Object:
    (found,) = [document for document in documents(path) if document["kind"] == kind]
    return found


def kubectl(plane: ControlPlane, command: str) -> str:
    words = [plane.program("kubectl"), "--kubeconfig", str(plane.kubeconfig_for())]
    done = subprocess.run(
        [*words, *shlex.split(command)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"kubectl {command}: {done.stderr}"
    return done.stdout


def may(plane: ControlPlane, verb: str, resource: str, **more: str) -> bool:
    """Does the API server know yet that the ServiceAccount may do this?"""
    asked = {"verb": verb, "resource": resource, **more}
    review = {"user": IDENTITY, "resourceAttributes": asked}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": review}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    _, answer = plane.api("POST", path, body)
    return bool(answer["status"]["allowed"])


def install(plane: ControlPlane) -> str:
    said = kubectl(plane, f"apply -f {DEPLOYMENT}")
    eventually(lambda: may(plane, "watch", "pods"))
    lease = {"group": "coordination.k8s.io", "namespace": NAMESPACE, "name": "fairlead"}
    eventually(lambda: may(plane, "get", "leases", **lease))
    return said


@pytest.fixture
def installed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The shared control plane with deploy/as-deployment.yaml applied; it goes after the test."""
    install(control_plane)
    yield control_plane
    kubectl(control_plane, "delete clusterrole,clusterrolebinding fairlead")
    control_plane.delete_namespace(NAMESPACE)


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
    again = kubectl(installed, f"apply -f {DEPLOYMENT}").splitlines()

    assert len(again) == len(documents(DEPLOYMENT)) == 8
    assert all(line.endswith(" unchanged") for line in again), again


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
    spec = the("Pod", STATIC_POD)["spec"]
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
    (lease,) = [rule for rule in the("Role")["rules"] if "resourceNames" in rule]

    assert spec["replicas"] == 2
    assert "--no-leader-elect" not in container["args"]
    assert lease["resourceNames"] == [Terms().name]


def test_the_epoch_policy_is_about_this_lease_and_this_user() -> None:
    policy, binding = documents(DEPLOY / "policies" / "epoch.yaml")
    lease = binding["spec"]["paramRef"]
    (condition,) = policy["spec"]["matchConditions"]

    assert (lease["namespace"], lease["name"]) == (NAMESPACE, Terms().name)
    assert f"'{IDENTITY}'" in condition["expression"]
    assert f"'{EPOCH}'" in condition["expression"]


# -- the manifests at work -----------------------------------------------------------------------


def test_it_schedules_with_the_rights_that_it_ships(
    installed: ControlPlane, create_nodes, test_pods
) -> None:
    create_nodes(["deploy-a", "deploy-b"], allocatable={GPU: "4"})
    test_pods(DEPLOY / "test-pods.yaml")
    test_pods(DEPLOY / "toyscheduler" / "test-pods.yaml")
    (container,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    access = installed.kubeconfig_for(IDENTITY)
    pods = Pods(installed, "default")

    options = (*container["args"][1:], *HERE, *AS_IN_A_POD)
    with fairlead(installed, *options, kubeconfig=access) as program:
        pods.wait_bound("gpu-test", "toy-test-1", "toy-test-2")
        why = pods.wait_refused("gpu-test-too-large")["message"]
        for probe in ("livenessProbe", "readinessProbe"):
            path = container[probe]["httpGet"]["path"]
            eventually(lambda path=path: program.get(path) == (200, "ok"))
        (bound,) = eventually(lambda: pods.events("toy-test-1"))
        (refused,) = eventually(lambda: pods.events("gpu-test-too-large"))

    assert why.startswith(f"0/2 nodes are available: 2 Insufficient {GPU}.")
    assert (refused["reason"], refused["note"]) == ("FailedScheduling", why)
    assert (bound["reason"], bound["reportingController"]) == ("Scheduled", "toyscheduler")
    assert [record for record in program.records if record["level"] != "info"] == []


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
    access = installed.kubeconfig_for(IDENTITY)
    pods = Pods(installed, "default")

    with fairlead(installed, *container["args"][1:], *HERE, env=env, kubeconfig=access) as program:
        pods.wait_bound("toy-test-1", "toy-test-2")

    (started,) = [record for record in program.records if record["event"] == "started"]
    assert started["schedulers"] == ["toyscheduler"]
    assert not pods.node("gpu-test")


def test_the_static_pod_schedules_as_kube_scheduler(
    control_plane: ControlPlane, create_nodes, test_pods
) -> None:
    create_nodes(["deploy-d"], allocatable={GPU: "4"})
    test_pods(DEPLOY / "test-pods.yaml")
    (container,) = the("Pod", STATIC_POD)["spec"]["containers"]
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


AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
"""


def test_it_has_the_rights_that_it_uses_and_no_others(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    policy, audit = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(AUDIT_POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit}"]
    # Without streamed lists, so that it must list: it does so everywhere, but only now and then.
    plane = new_control_plane(apiserver_flags=[*flags, "--feature-gates=WatchList=false"])
    install(plane)
    plane.create_nodes(2, allocatable={GPU: "4"})
    pods, slow = Pods(plane, "default"), Pods(plane, "slow")
    access = plane.kubeconfig_for(IDENTITY)

    with _slow_to_bind_in(plane, "slow"), fairlead(plane, *AS_IN_A_POD, kubeconfig=access):
        kubectl(plane, f"apply -f {DEPLOY / 'test-pods.yaml'}")
        kubectl(plane, f"apply -n slow -f {DEPLOY / 'toyscheduler' / 'test-pods.yaml'}")
        pods.wait_bound("gpu-test")
        pods.wait_refused("gpu-test-too-large")
        kubectl(plane, "label pod gpu-test-too-large try=again")
        eventually(lambda: pods.events("gpu-test-too-large")[0].get("series"))
        _have_volumes_bound(plane, pods)
        eventually(lambda: slow.events("toy-test-1"), 40)
        _evict_somebody(plane, pods)
        _lock_a_node(plane, pods)

    asked = [entry for entry in _audited(audit) if entry["user"]["username"] == IDENTITY]
    refused = [e for e in asked if e["responseStatus"].get("code") in (401, 403)]
    assert refused == []
    used = {_permission_of(entry) for entry in asked}
    granted = {*_granted(the("ClusterRole")), *_granted(the("Role"))}
    assert used - granted == set(), "used, though not granted"
    assert granted - used == set(), "granted, but never used"


def _evict_somebody(plane: ControlPlane, pods: Pods) -> None:
    body = {"metadata": {"name": "urgent"}, "value": 10}
    assert plane.api("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)[0] == 201
    plane.create_nodes(["crowded"], allocatable={GPU: "8"})
    pods.create("in-the-way", gpus=8)
    pods.wait_bound("in-the-way")
    pods.create("urgent", gpus=8, priorityClassName="urgent")
    eventually(lambda: "deletionTimestamp" in pods.get("in-the-way")["metadata"])
    pods.delete("in-the-way")
    assert pods.wait_bound("urgent") == {"urgent": "crowded"}


def _lock_a_node(plane: ControlPlane, pods: Pods) -> None:
    card = {"id": "GPU-1", "count": 10, "devmem": 16000, "type": "NVIDIA-V100", "health": True}
    cards = {"hami.io/node-nvidia-register": json.dumps([card])}
    plane.create_nodes(["of-hami"], annotations=cards, allocatable={GPU: "10"})
    limits = {GPU: "1", "nvidia.com/gpumem": "4000"}
    pods.create("part", container={"resources": {"limits": limits}})
    assert pods.wait_bound("part") == {"part": "of-hami"}


def test_default_spreading_needs_only_the_rights_in_its_own_file(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    policy, audit = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(AUDIT_POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit}"]
    plane = new_control_plane(apiserver_flags=[*flags, "--feature-gates=WatchList=false"])
    install(plane)
    more = DEPLOY / "default-spreading.yaml"
    kubectl(plane, f"apply -f {more}")
    eventually(lambda: may(plane, "watch", "services"))
    plane.create_nodes(1)
    pods = Pods(plane, "default")

    options = ("--profile", "default-scheduler", "--scheduler-name", "like-default")
    with fairlead(plane, *options, kubeconfig=plane.kubeconfig_for(IDENTITY)):
        pods.create("p", scheduler="like-default")
        pods.wait_bound("p")
        eventually(lambda: pods.events("p"))

    asked = [entry for entry in _audited(audit) if entry["user"]["username"] == IDENTITY]
    assert [e for e in asked if e["responseStatus"].get("code") in (401, 403)] == []
    used = {_permission_of(entry) for entry in asked}
    assert used - set(_granted(the("ClusterRole"))) == set(_granted(the("ClusterRole", more)))


@contextlib.contextmanager
def _slow_to_bind_in(plane: ControlPlane, namespace: str) -> Iterator[None]:
    """Binds in this namespace take longer than the binder waits, so that it looks at the pod.

    They pass a webhook that accepts connections and says nothing, and then are let through.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
        webhook = {
            "name": "silent.fairlead.dev",
            "clientConfig": {"url": url},
            "rules": [{**rule, "resources": ["pods/binding"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "timeoutSeconds": 6,
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        kubectl(plane, f"create namespace {namespace}")
        status, answer = plane.api(
            "POST",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            {"metadata": {"name": "silent"}, "webhooks": [webhook]},
        )
        assert status == 201, answer
        yield


def _have_volumes_bound(plane: ControlPlane, pods: Pods) -> None:
    """One claim bound and one sent, each refused at first, so that Fairlead looks what happened."""
    storage = Storage(plane, "default")
    with _no_volumes_for(plane, IDENTITY, storage):
        storage.a_class()
        storage.a_class("made", provisioner="disks.example.com")
        storage.a_volume("disk")
        storage.a_claim("old")
        storage.a_claim("new", storage_class="made")
        for claim in ("old", "new"):
            pods.create(f"user-of-{claim}", volumes=uses(claim))
            assert "not today" in pods.wait_refused(f"user-of-{claim}")["message"]
    eventually(lambda: storage.volume("disk")["spec"].get("claimRef"), 40)
    eventually(lambda: SELECTED_NODE in storage.claim("new")["metadata"].get("annotations", {}), 40)


@contextlib.contextmanager
def _no_volumes_for(plane: ControlPlane, user: str, storage: Storage) -> Iterator[None]:
    """A policy of a third party against this user's changes of claims and volumes."""
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["persistentvolumes", "persistentvolumeclaims"],
    }  # fmt: skip
    allowed = f"request.userInfo.username != '{user}' && object.metadata.name != 'probe'"
    check = {"expression": allowed, "message": "not today"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    bound = {"policyName": "no-volumes", "validationActions": ["Deny"]}
    group = "/apis/admissionregistration.k8s.io/v1"
    name = {"name": "no-volumes"}
    paths = f"{group}/validatingadmissionpolicies", f"{group}/validatingadmissionpolicybindings"
    for path, body in zip(paths, (spec, bound), strict=True):
        assert plane.api("POST", path, {"metadata": name, "spec": body})[0] == 201
    storage.a_volume("probe", storage_class="none")
    probe = "/api/v1/persistentvolumes/probe?dryRun=All"
    change, merge = {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json"
    eventually(
        lambda: plane.api("PATCH", probe, change, content_type=merge)[0] == 422,
        what="the policy works",
    )
    yield
    for path in reversed(paths):
        assert plane.api("DELETE", f"{path}/no-volumes")[0] == 200


def _audited(log: Path) -> list[Object]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def _permission_of(entry: Object) -> tuple[str, str, str]:
    asked, verb = entry.get("objectRef"), entry["verb"]
    if asked is None:
        return "", entry["requestURI"], verb
    subresource = f"/{asked['subresource']}" if asked.get("subresource") else ""
    return asked.get("apiGroup", ""), asked["resource"] + subresource, verb


def _granted(role: Object) -> Iterator[tuple[str, str, str]]:
    for rule in role["rules"]:
        for verb in rule["verbs"]:
            for url in rule.get("nonResourceURLs", ()):
                yield "", url, verb
            for group in rule.get("apiGroups", ()):
                for resource in rule["resources"]:
                    yield group, resource, verb


# -- the image -----------------------------------------------------------------------------------

Instruction = tuple[str, str]


def dockerfile() -> list[Instruction]:
    text = (DEPLOY / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]  # type: ignore[misc]


def stages() -> list[list[Instruction]]:
    found: list[list[Instruction]] = []
    for instruction in dockerfile():
        if instruction[0] == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found


def copied() -> list[str]:
    """What the image is made from, of this repository."""
    return [
        source
        for name, rest in dockerfile()
        if name == "COPY" and not rest.startswith("--from=")
        for source in shlex.split(rest)[:-1]
    ]


def test_everything_that_the_image_copies_is_there_and_sent() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()

    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, f"the builder would not be sent {source}"
    assert "*" in ignored


def test_the_image_holds_what_it_needs_and_no_tools() -> None:
    build, final = stages()

    assert build[0][1].endswith(" AS build")
    assert all(":" in rest.split()[0] for name, rest in dockerfile() if name == "FROM")
    assert [name for name, _ in final if name in ("RUN", "ADD")] == []
    assert [rest for name, rest in final if name == "COPY"] == [
        "--from=build /opt/fairlead /opt/fairlead"
    ]
    for name, rest in build:
        if name == "RUN" and "pip" in rest and " install" in rest:
            assert "--no-cache-dir" in rest
            assert "--require-hashes" in rest or "--no-deps" in rest, rest


def test_the_image_runs_as_the_user_of_the_deployment_in_exec_form() -> None:
    final = dict(stages()[-1])
    security = the("Deployment")["spec"]["template"]["spec"]["securityContext"]

    assert final["USER"] == f"{security['runAsUser']}:{security['runAsGroup']}"
    assert json.loads(final["ENTRYPOINT"]) == ["/opt/fairlead/bin/fairlead"]
    assert json.loads(final["CMD"]) == ["run"]


def test_manifests_and_image_name_one_version() -> None:
    from fairlead import __version__

    image = f"fairlead:{__version__}"
    (static,) = the("Pod", STATIC_POD)["spec"]["containers"]
    (shipped,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    assert shipped["image"] == static["image"] == image
    assert f"-t {image} ." in (DEPLOY / "Dockerfile").read_text()


@pytest.mark.server  # it asks the package index, so `make fast` leaves it out
def test_the_locked_packages_install_as_wheels_with_their_hashes(tmp_path: Path) -> None:
    base = dict(stages()[-1])["FROM"]
    (version,) = re.findall(r"^python:(\d+\.\d+)-slim$", base)
    pinned = next(rest for _, rest in stages()[0] if rest.startswith("sed "))
    sed = pinned.partition(" > ")[0]
    build_lock = subprocess.run(
        shlex.split(sed), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert re.match(r"setuptools==\S+ \\\n +--hash=sha256:", build_lock)
    (tmp_path / "build.lock").write_text(build_lock)

    locks = ["-r", str(ROOT / "requirements.lock"), "-r", str(tmp_path / "build.lock")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--quiet"),
            *("--require-hashes", "--only-binary=:all:", "--disable-pip-version-check"),
            *("--python-version", version, "--target", str(tmp_path / "packages")),
            *locks,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
