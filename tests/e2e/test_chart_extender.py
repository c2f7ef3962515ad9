"""The extender of the chart on a real API server: its rights, its pods, and who may ask it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audits import Audited, granted
from charts import Helm, Release
from duties import GPU
from extenders import SCHEDULER, Asking, inventory, kube_scheduler
from fairlead.sim.controlplane import ControlPlane, served, service_account
from fairlead.sim.controlplane.certificates import Authority
from fairlead.sim.controlplane.client import trusting
from fairleads import Pods, eventually, fairlead
from manifests import AS_IN_A_POD, HERE, NAMESPACE
from test_chart import enforcing
from test_chart_values import at, by_name

Start = Callable[..., ControlPlane]
VALUES: dict[str, Any] = {"extender": {"enabled": True}, "replicaCount": 0}
EXTENDER = service_account(NAMESPACE, "fairlead-extender")
DEPLOYMENT = "Deployment/fairlead-extender"
CONTAINER = "spec.template.spec.containers.0"
HAMI_ENTRY = {"id": "GPU-1", "count": 10, "devmem": 16000, "type": "NVIDIA-V100", "health": True}


def test_it_has_the_rights_that_it_uses_and_no_others(
    charts: Helm, new_control_plane: Start, tmp_path: Path
) -> None:
    audited = Audited(new_control_plane, tmp_path)
    plane, release = audited.plane, Release(charts, audited.plane)
    release.install({**VALUES, "webhook": {"enabled": False}})
    for verb, resource, group in (
        ("watch", "pods", ""),
        ("get", "schedulerepochs", "fairlead.dev"),
    ):
        where = {"namespace": NAMESPACE, "name": "fairlead"} if group else {}
        served.wait_allowed(plane, EXTENDER, verb, resource, group=group, **where)
    plane.create_nodes(["n"], annotations=inventory("n", 1), allocatable={GPU: "1"})
    plane.create_nodes(
        ["of-hami"],
        annotations={"hami.io/node-nvidia-register": json.dumps([HAMI_ENTRY])},
        allocatable={GPU: "10"},
    )
    authority = Authority(tmp_path / "ca")
    pair, known = authority.server("extender"), authority.client("system:kube-scheduler")
    shutil.copy(pair.certificate, tmp_path / "tls.crt")
    shutil.copy(pair.key, tmp_path / "tls.key")
    mounted = {"--cert-dir=/certs": f"--cert-dir={tmp_path}",
               "--client-ca=/client-ca/ca.crt": f"--client-ca={authority.certificate}"}  # fmt: skip
    said = [mounted.get(one, one) for one in release.arguments("fairlead-extender")]
    access = plane.kubeconfig_for(EXTENDER)
    with fairlead(
        plane, *said, *HERE, *AS_IN_A_POD, program="extender", kubeconfig=access
    ) as process:
        asking = Asking(process.url, trusting(authority.certificate, known))
        eventually(lambda: asking.get("/readyz")[0] == 200, what="the extender is ready")
        _give_it_everything_to_do(plane, process.url, authority, asking)

    rights = granted(
        release.get("clusterrole", "fairlead-extender"), release.get("role", "fairlead-extender")
    )
    assert audited.refused(EXTENDER) == []
    assert audited.used(EXTENDER) == rights


def _give_it_everything_to_do(
    plane: ControlPlane, url: str, authority: Authority, asking: Asking
) -> None:
    pods, known = Pods(plane, "default"), authority.client("system:kube-scheduler")
    tls = {
        "caFile": str(authority.certificate), "certFile": str(known.certificate),
        "keyFile": str(known.key),
    }  # fmt: skip
    with kube_scheduler(plane, url, enableHTTPS=True, tlsConfig=tls):
        whole, part = {GPU: "1"}, {GPU: "1", "nvidia.com/gpumem": "4000"}
        pods.create("whole", scheduler=SCHEDULER, container={"resources": {"limits": whole}},
                    nodeSelector={"kubernetes.io/hostname": "n"})  # fmt: skip
        pods.create("part", scheduler=SCHEDULER, container={"resources": {"limits": part}})
        assert pods.wait_bound("whole", "part") == {"whole": "n", "part": "of-hami"}
    annotations = pods.get("whole")["metadata"]["annotations"]
    assert annotations["fairlead.dev/gpus"] == "GPU-n-0", "the policy lets it say so"
    assert annotations["fairlead.dev/epoch"]
    gone = {"PodName": "x", "PodNamespace": "default", "PodUID": "u", "Node": "n"}
    assert "not found" in asking.ask("bind", gone)["Error"]
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fairlead"
    assert plane.api("DELETE", lease)[0] == 200
    eventually(lambda: plane.api("GET", lease)[0] == 200, what="it makes its Lease again")


def test_its_pods_are_admitted_where_pod_security_is_restricted(
    charts: Helm, control_plane: ControlPlane
) -> None:
    template = by_name(charts.rendered(VALUES))[DEPLOYMENT]["spec"]["template"]
    pod = {**template, "metadata": {**template["metadata"], "name": "p"}}
    with enforcing(control_plane, "restricted") as pods:
        assert control_plane.api("POST", f"{pods}?dryRun=All", pod)[0] == 201


def test_values_of_the_extender_are_heard(charts: Helm) -> None:
    said = {
        "enabled": True, "profile": "utilsched", "certSecret": "mine", "clientCA": "theirs",
        "clientNames": ["a", "b"],
        "resources": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "1"}},
    }  # fmt: skip
    peers = [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    values = {**VALUES, "extender": said, "networkPolicy": {"extenderFrom": peers}}
    found = by_name(charts.rendered(values))
    volumes = at(found[DEPLOYMENT], "spec.template.spec.volumes")

    assert {"--profile=utilsched", "--client-name=a", "--client-name=b"} <= set(
        at(found[DEPLOYMENT], f"{CONTAINER}.args")
    )
    assert [volumes[1]["secret"]["secretName"], volumes[2]["configMap"]["name"]] == [
        "mine",
        "theirs",
    ]
    assert at(found[DEPLOYMENT], f"{CONTAINER}.resources.limits.memory") == "2Gi"
    assert at(found[DEPLOYMENT], f"{CONTAINER}.resources.requests.cpu") == "1"
    assert at(found["NetworkPolicy/fairlead-extender"], "spec.ingress.0.from") == peers
    assert not [name for name in by_name(charts.rendered()) if "extender" in name]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"extender": {"enabled": True}}, "set replicaCount to 0"),
        ({**VALUES, "extender": {"enabled": True, "clientCA": ""}}, "/extender/clientCA"),
        ({**VALUES, "extender": {"enabled": True, "clientNames": []}}, "/extender/clientNames"),
    ],
)
def test_what_would_be_open_or_idle_is_refused(
    charts: Helm, values: dict[str, Any], said: str
) -> None:
    assert said in charts.complaint(values)
