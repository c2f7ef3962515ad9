"""The agent of the chart on a real API server: its rights, its policy, and its pods."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audits import Audited, granted
from charts import Helm, Release
from fairlead.sim.controlplane import ControlPlane, served
from fairlead.sim.controlplane.client import SyncClient, trusting
from fairlead.sim.controlplane.identities import write_kubeconfig
from fairlead.sim.nvml import FakeProcess, FileStore, machine_of
from fairleads import eventually, fairlead
from manifests import AGENT, DEPLOY, NAMESPACE, kubectl, wait_for_rights
from test_chart import enforcing
from test_chart_values import at, by_name

Start = Callable[..., ControlPlane]
ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/fairlead-agent"
JSON, MERGE = "application/json", "application/merge-patch+json"
KEY, MILLI = "fairlead.dev/inventory", "fairlead.dev/gpu-milli"
POD = "spec.template.spec"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def token_on(plane: ControlPlane, node: str) -> str:
    """As the kubelet of that node gets it for a pod of the DaemonSet."""
    name = f"agent-{node}"
    containers = [{"name": "agent", "image": "fairlead"}]
    spec = {"nodeName": node, "serviceAccountName": "fairlead-agent", "containers": containers}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    status, pod = plane.api("POST", path, {"metadata": {"name": name}, "spec": spec})
    assert status == 201, pod
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod["metadata"]["uid"]}
    request = {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound},
    }  # fmt: skip
    status, answer = plane.api("POST", f"{ACCOUNT}/token", request)
    assert status == 201, answer
    return str(answer["status"]["token"])


# -- rights ----------------------------------------------------------------------------------------


def test_it_has_the_rights_that_it_uses_and_no_others(
    charts: Helm, new_control_plane: Start, tmp_path: Path
) -> None:
    audited = Audited(new_control_plane, tmp_path)
    plane, release = audited.plane, Release(charts, audited.plane)
    values = {"enabled": True, "resourceSlices": "whole", "gpuResources": "parts"}
    release.install({"agent": values})
    wait_for_rights(plane, "agent")
    plane.create_nodes(["gpu-1"])
    access = write_kubeconfig(
        tmp_path / "agent.kubeconfig", plane.url, plane.ca_file, token_on(plane, "gpu-1")
    )
    machine = FileStore(tmp_path / "machine.json", machine_of())
    with machine.open() as driver:
        driver.gpus[0].processes = [FakeProcess(4711, 1 << 30)]
    process = tmp_path / "proc" / "4711"
    process.mkdir(parents=True)
    (process / "cgroup").write_text("0::/user.slice\n")
    (process / "comm").write_text("python\n")
    command = at(release.get("daemonset", "fairlead-agent"), f"{POD}.containers.0.args")

    options = ("--address=127.0.0.1", "--unassigned-after=0s", f"--proc={process.parent}",
               "--nvml=fairlead.sim.nvml.shared:library")  # fmt: skip
    env = {"NODE_NAME": "gpu-1", "FAIRLEAD_NVML_FILE": str(tmp_path / "machine.json")}
    with fairlead(
        plane, *command[1:], *options, program="agent", kubeconfig=access, env=env
    ):  # fmt: skip
        eventually(lambda: KEY in _node(plane, "gpu-1")["metadata"].get("annotations", {}))
        eventually(lambda: MILLI in _node(plane, "gpu-1")["status"]["capacity"])
        eventually(lambda: plane.api("GET", "/apis/events.k8s.io/v1/events")[1]["items"])
        (slice_,) = eventually(lambda: plane.api("GET", SLICES)[1]["items"])
        with machine.open() as driver:
            driver.gpus.append(machine_of(2).gpus[1])
        eventually(lambda: len(_slices(plane)[0]["spec"]["devices"]) == 2)
        # A driver comes: the agent deletes its slice.
        device = {"name": "gpu-9"}
        own = {**slice_["spec"], "devices": [device]}
        plane.api("POST", SLICES, {"metadata": {"name": "driver"}, "spec": own})
        eventually(lambda: [each["metadata"]["name"] for each in _slices(plane)] == ["driver"])

    rights = granted(release.get("clusterrole", "fairlead-agent"))
    assert audited.refused(AGENT) == []
    assert audited.used(AGENT) == rights


def _slices(plane: ControlPlane) -> list[dict[str, Any]]:
    return list(plane.api("GET", SLICES)[1]["items"])


def _node(plane: ControlPlane, name: str) -> dict[str, Any]:
    return plane.api("GET", f"/api/v1/nodes/{name}")[1]


# -- the policy ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(real_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster with the agent's objects, where agents have far more rights than they should."""
    admin = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "careless"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "fairlead-agent", "namespace": NAMESPACE}],
    }  # fmt: skip
    plane = real_plane
    plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    kubectl(plane, f"apply -f {DEPLOY / 'agent.yaml'}")
    careless = served.create(plane, admin)
    served.wait_allowed(plane, AGENT, "delete", "nodes")
    plane.create_nodes(["gpu-1", "gpu-2"])
    served.until(lambda: _refuses(plane), "the policy is in force")
    served.until(lambda: _refuses_slices(plane), "the policy of slices is in force")
    yield plane
    kubectl(plane, f"delete -f {DEPLOY / 'agent.yaml'}")
    plane.api("DELETE", careless)
    for name in ("gpu-1", "gpu-2"):
        plane.api("DELETE", f"/api/v1/nodes/{name}")
    served.remove_namespace(plane, NAMESPACE)


def _refuses_slices(plane: ControlPlane) -> bool:
    """Whether its policy, and not RBAC, keeps an agent from the slices of others."""
    with plane.connect(AGENT) as lost:
        _, answer = lost.api("POST", f"{SLICES}?dryRun=All", _slice("s", label=None))
    return "ValidatingAdmissionPolicy" in answer.get("message", "")


def _refuses(plane: ControlPlane) -> bool:
    """Whether the policy, and not RBAC, keeps an agent from a node."""
    with plane.connect(AGENT) as lost:
        path = _path("gpu-1", "?dryRun=All")
        _, answer = lost.api("PATCH", path, _said(KEY), content_type=MERGE)
    return "which is not in its token" in answer.get("message", "")


@pytest.fixture(scope="module")
def agent(guarded: ControlPlane) -> Iterator[SyncClient]:
    """One that runs on gpu-1."""
    port = int(guarded.url.rpartition(":")[2])
    found = SyncClient(port, trusting(guarded.ca_file), token=token_on(guarded, "gpu-1"))
    yield found
    found.close()


def _path(node: str, sub: str = "") -> str:
    return f"/api/v1/nodes/{node}{sub}"


def _said(key: str, value: str | None = "x") -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


def test_it_may_say_what_gpus_its_own_node_has(guarded: ControlPlane, agent: SyncClient) -> None:
    for value in ('{"version": 2, "gpus":[]}', "{}", None):
        status, answer = agent.api(
            "PATCH", _path("gpu-1"), _said(KEY, value), content_type=MERGE
        )  # fmt: skip
        assert status == 200, answer
    assert agent.api("GET", _path("gpu-2"))[0] == 200


@pytest.mark.parametrize(
    ("verb", "path", "body", "complaint"),
    [
        ("PATCH", _path("gpu-2"), _said(KEY), "runs on, which is gpu-1, and not gpu-2"),
        ("PATCH", _path("gpu-1"), _said("gpu-node-name"), "and not gpu-node-name"),
        ("PATCH", _path("gpu-1"), {"metadata": {"labels": {"a": "b"}}}, "changes no labels"),
        ("PATCH", _path("gpu-1"), {"metadata": {"finalizers": ["a/b"]}}, "changes no labels"),
        ("PATCH", _path("gpu-1"), {"spec": {"unschedulable": True}}, "changes no labels"),
        ("PATCH", _path("gpu-1"), {"spec": {"taints": []}}, None),
        ("PATCH", _path("gpu-1", "/status"), _said("other"), "and not other"),
        ("PATCH", _path("gpu-1", "/status"), {"status": {"allocatable": {"cpu": "99"}}},
         "writes nothing else of the status"),
        ("PATCH", _path("gpu-1", "/status"), {"status": {"conditions": []}},
         "writes nothing else of the status"),
        ("PATCH", _path("gpu-2", "/status"), {"status": {"capacity": {"nvidia.com/gpu": "9"}}},
         "runs on, which is gpu-1, and not gpu-2"),
        ("PATCH", _path("gpu-1"), {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
         "changes no labels, taints or owners"),
        ("DELETE", _path("gpu-1"), None, "does nothing else to them"),
        ("POST", "/api/v1/nodes", {"metadata": {"name": "gpu-3"}}, "does nothing else to them"),
    ],
)  # fmt: skip
def test_it_may_do_nothing_else_to_nodes_whatever_its_role_says(
    guarded: ControlPlane, agent: SyncClient, verb: str, path: str, body: Any, complaint: str | None
) -> None:
    before = _node(guarded, "gpu-1")["spec"], _node(guarded, "gpu-2")["metadata"].get("annotations")
    status, answer = agent.api(verb, path, body, content_type=MERGE if verb == "PATCH" else JSON)

    if complaint is None:  # nothing changes, so there is nothing to refuse
        assert status == 200
    else:
        assert status == 403, answer
        assert complaint in answer["message"]
    after = _node(guarded, "gpu-1")["spec"], _node(guarded, "gpu-2")["metadata"].get("annotations")
    assert after == before


def test_it_may_offer_gpus_and_remove_its_own_taint(
    guarded: ControlPlane, agent: SyncClient
) -> None:
    amounts = {"fairlead.dev/gpu-milli": "2000", "fairlead.dev/gpu-mib": "1", "nvidia.com/gpu": "2"}
    for offered in (amounts, dict.fromkeys(amounts)):
        said = {"status": {"capacity": offered, "allocatable": offered}}
        code, answer = agent.api("PATCH", _path("gpu-1", "/status"), said, content_type=MERGE)
        assert code == 200, answer
    other = {"key": "example.com/other", "effect": "NoSchedule"}
    ours = {"key": "fairlead.dev/agent-not-ready", "effect": "NoSchedule"}
    for by, taints, code in (
        (guarded, [other, ours], 200), (agent, [ours], 403), (agent, [other], 200),
        (agent, [other, ours], 403), (guarded, [], 200),
    ):  # fmt: skip
        said = {"spec": {"taints": taints}}
        assert by.api("PATCH", _path("gpu-1"), said, content_type=MERGE)[0] == code, taints


def test_a_token_that_does_not_say_where_is_not_enough(guarded: ControlPlane) -> None:
    with guarded.connect(AGENT) as thief:
        status, answer = thief.api("PATCH", _path("gpu-1"), _said(KEY), content_type=MERGE)

    assert status == 403
    assert "which is not in its token" in answer["message"]


def test_others_are_not_concerned(guarded: ControlPlane, agent: SyncClient) -> None:
    said = {"metadata": {"labels": {"of": "others"}, "annotations": {"c": "d"}}}
    assert guarded.api("PATCH", _path("gpu-1"), said, content_type=MERGE)[0] == 200


def _slice(
    name: str, node: str = "gpu-1", label: str | None = "agent", **more: Any
) -> dict[str, Any]:
    labels = {"fairlead.dev/publisher": label} if label else {}
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, **more},
    }


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (_slice("s"), None),
        (_slice("s", "gpu-2"), "of the node that it runs on, which is gpu-1"),
        (_slice("s", driver="gpu.example.com"), "the pool of gpu.nvidia.com"),
        (_slice("s", pool={"name": "x", "generation": 1, "resourceSliceCount": 1}), "the pool of"),
        (_slice("s", label=None), "with the label fairlead.dev/publisher=agent"),
    ],
    ids=["own", "another node", "another driver", "another pool", "without a label"],
)
def test_it_publishes_devices_of_its_own_node_only(
    guarded: ControlPlane, agent: SyncClient, written: dict[str, Any], complaint: str | None
) -> None:
    status, answer = agent.api("POST", f"{SLICES}?dryRun=All", written)

    assert status == (403 if complaint else 201), answer
    assert (complaint or "") in answer.get("message", "")


def test_it_leaves_the_slices_of_drivers_alone(guarded: ControlPlane, agent: SyncClient) -> None:
    assert guarded.api("POST", SLICES, _slice("driver", label=None))[0] == 201
    path = f"{SLICES}/driver"
    try:
        for verb, body in (
            ("DELETE", None),
            ("PATCH", {"metadata": {"labels": {"fairlead.dev/publisher": "agent"}}}),
        ):
            content_type = MERGE if verb == "PATCH" else JSON
            status, answer = agent.api(verb, path, body, content_type=content_type)
            assert status == 403, answer
            assert "changes no others" in answer["message"]
    finally:
        guarded.api("DELETE", path)


# -- pods ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "level", "admitted"),
    [
        ({}, "restricted", True),
        ({"hostPID": True}, "baseline", False),
        ({"hostPID": True}, "privileged", True),
        ({"mig": {"enabled": True}}, "baseline", False),
        ({"mig": {"enabled": True}}, "privileged", True),
        ({"mps": {"enabled": True}}, "baseline", False),
        ({"mps": {"enabled": True}}, "privileged", True),
        ({"podResources": {"enabled": True}}, "baseline", False),
        ({"podResources": {"enabled": True}}, "privileged", True),
    ],
    ids=str,
)
def test_its_pods_are_as_restricted_as_can_be(
    charts: Helm, control_plane: ControlPlane, values: dict[str, Any], level: str, admitted: bool
) -> None:
    found = by_name(charts.rendered({"agent": {"enabled": True, **values}}))
    template = found["DaemonSet/fairlead-agent"]["spec"]["template"]
    pod = json.loads(json.dumps(template))
    pod["metadata"]["name"] = "p"
    del pod["spec"]["serviceAccountName"]
    del pod["spec"]["runtimeClassName"]
    with enforcing(control_plane, level) as path:
        status, answer = control_plane.api("POST", f"{path}?dryRun=All", pod)
    assert (status == 201) == admitted, answer


def test_mig_brings_its_rights_and_its_folder(charts: Helm) -> None:
    agent = {
        "enabled": True, "serviceAccount": {"name": "a"},
        "mig": {"enabled": True, "gpus": "GPU-1,GPU-2", "stateDir": "/srv/x"},
    }  # fmt: skip
    found = by_name(charts.rendered({"agent": agent, "createNamespace": True}))
    spec = found["DaemonSet/fairlead-agent"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}

    assert "--mig=GPU-1,GPU-2" in container["args"]
    assert spec["volumes"][0]["hostPath"]["path"] == "/srv/x"
    assert spec["serviceAccountName"] == "a"
    assert found["ServiceAccount/a"]
    assert variables["NVIDIA_MIG_CONFIG_DEVICES"] == "all"
    assert spec["securityContext"]["runAsUser"] == 0
    labels = found["Namespace/fairlead-system"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    assert "serviceaccount:fairlead-system:a'" in json.dumps(
        found["ValidatingAdmissionPolicy/fairlead-inventory"]
    )


def test_mps_brings_its_rights_and_its_folder_and_outlasts_an_upgrade(charts: Helm) -> None:
    values = {"enabled": True, "mps": {"enabled": True, "gpus": "GPU-1,GPU-2", "processes": 3}}
    found = by_name(charts.rendered({"agent": values, "createNamespace": True}))
    daemons = found["DaemonSet/fairlead-agent"]["spec"]
    spec = daemons["template"]["spec"]
    (container,) = spec["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}

    assert {"--mps=GPU-1,GPU-2", "--mps-processes=3"} <= set(container["args"])
    assert [one["hostPath"]["path"] for one in spec["volumes"]] == ["/run/fairlead/mps"]
    assert spec["hostPID"]
    assert spec["securityContext"]["runAsUser"] == 0
    assert container["securityContext"]["capabilities"]["add"] == ["SYS_ADMIN", "KILL"]
    assert variables["NVIDIA_DRIVER_CAPABILITIES"] == "utility,compute"
    assert daemons["updateStrategy"] == {"type": "OnDelete"}
    labels = found["Namespace/fairlead-system"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_kubelet_is_asked_by_root_without_capabilities(charts: Helm) -> None:
    values = {"enabled": True, "podResources": {"enabled": True, "directory": "/srv/kubelet"}}
    found = by_name(charts.rendered({"agent": values, "createNamespace": True}))
    spec = found["DaemonSet/fairlead-agent"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    socket = "/var/lib/kubelet/pod-resources/kubelet.sock"
    assert f"--pod-resources={socket}" in container["args"]
    assert [one["hostPath"]["path"] for one in spec["volumes"]] == ["/srv/kubelet"]
    assert container["volumeMounts"][0]["readOnly"]
    assert spec["securityContext"]["runAsUser"] == 0
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    labels = found["Namespace/fairlead-system"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_without_mig_it_has_nothing_of_all_this(charts: Helm) -> None:
    found = by_name(charts.rendered({"agent": {"enabled": True}}))
    text = json.dumps(found["DaemonSet/fairlead-agent"])

    for word in (
        "hostPath", "hostPID", "SYS_ADMIN", "MIG", "--mig", "--mps", "--pod-resources",
    ):  # fmt: skip
        assert word not in text
