"""ComputeDomains of NVIDIA's driver on the real API server: one clique, and what `explain` says."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dra_objects import MERGE, DraObjects, Object, claim_spec, device, exactly
from fairlead.kube.claims.kinds import COMPUTE_DOMAINS
from fairlead.kube.gangs.api import GangKind
from fairlead.model.compute_domains import CHANNEL_DRIVER, CLIQUE
from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods, Running, eventually
from gang_crds import install_kind, uninstall_kind
from preloaded import run

CreateNodes = Callable[..., list[str]]
VERSION = "v1beta1"
KIND = GangKind(COMPUTE_DOMAINS.group, (VERSION,), COMPUTE_DOMAINS.plural, COMPUTE_DOMAINS.kind, "")


@pytest.fixture(autouse=True)
def definition(control_plane: ControlPlane) -> Iterator[None]:
    """NVIDIA's driver is installed."""
    install_kind(control_plane, KIND)
    yield
    uninstall_kind(control_plane, KIND)


def a_domain(dra: DraObjects, nodes: int) -> Object:
    """A domain with the template that NVIDIA's controller makes for it, and no node in it."""
    channel = {"resourceClaimTemplate": {"name": "channels"}}
    made = dra.make(_domains(dra), {
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
        "metadata": {"name": "dom"}, "spec": {"numNodes": nodes, "channel": channel},
    })  # fmt: skip
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig",
                  "domainID": made["metadata"]["uid"]}  # fmt: skip
    config = {"requests": ["gpu"], "opaque": {"driver": CHANNEL_DRIVER, "parameters": parameters}}
    dra.a_template("channels", claim_spec(exactly(dra.namespace), config=[config]))
    dra.a_class(dra.namespace, f"device.driver == '{CHANNEL_DRIVER}'")
    return made


def _domains(dra: DraObjects) -> str:
    return f"/apis/{KIND.group}/{VERSION}/namespaces/{dra.namespace}/{KIND.plural}"


def join(dra: DraObjects, domain: Object, *nodes: str) -> None:
    """NVIDIA's daemons have started on these nodes; the first of them is ready."""
    joined = [
        {"name": name, "cliqueID": "b.1", "index": at, "status": "NotReady" if at else "Ready"}
        for at, name in enumerate(nodes)
    ]
    name = f"{_domains(dra)}/{domain['metadata']['name']}"
    status = {"status": {"status": "NotReady", "nodes": joined}}
    code, answer = dra.plane.api("PATCH", f"{name}/status", status, content_type=MERGE)
    assert code == 200, answer


def explained(pods: Pods, name: str) -> dict[str, Any]:
    command = [str(FAIRLEAD), "explain", f"{pods.namespace}/{name}", "--output", "json"]
    command += ["--kubeconfig", str(pods.plane.kubeconfig_for())]
    found = run(command, check=True)
    told: dict[str, Any] = json.loads(found.stdout)
    return told


def test_a_gang_with_channels_goes_to_one_clique_and_explain_names_the_domain(
    dra: DraObjects, pods: Pods, create_nodes: CreateNodes, running: Running
) -> None:
    prefix = dra.namespace[-30:].strip("-")
    nodes = {clique: create_nodes([f"{prefix}-{clique[0]}{at}" for at in range(count)],
                                  labels={CLIQUE: clique})
             for clique, count in (("a.1", 2), ("b.1", 2))}  # fmt: skip
    for name in (*nodes["a.1"], *nodes["b.1"]):
        dra.a_slice(name, [device("channel-0")], driver=CHANNEL_DRIVER)
    domain = a_domain(dra, 3)
    said = {"fairlead.dev/gang": "g", "fairlead.dev/gang-min": "3"}
    uses = [{"name": "channel", "resourceClaimTemplateName": "channels"}]
    for at in range(3):
        pods.create(f"g-{at}", metadata={"annotations": said}, resourceClaims=uses)
    for at in range(3):
        pods.wait_refused(f"g-{at}")
        # It may be refused before the controller has made its claim, without which no domain shows.
        eventually(lambda at=at: pods.get(f"g-{at}")["status"].get("resourceClaimStatuses"))

    (told,) = explained(pods, "g-0")["computeDomains"]
    assert (told["name"], told["status"]) == (f"{dra.namespace}/dom", "NotReady")
    assert (told["numNodes"], told["channels"]) == (3, 3)
    assert "at most 2 node(s) of one clique" in told["missing"][0]

    (third,) = create_nodes([f"{prefix}-b2"], labels={CLIQUE: "b.1"})
    dra.a_slice(third, [device("channel-0")], driver=CHANNEL_DRIVER)
    bound = pods.wait_bound("g-0", "g-1", "g-2")
    assert sorted(bound.values()) == sorted([*nodes["b.1"], third])

    join(dra, domain, *nodes["b.1"])
    eventually(lambda: explained(pods, "g-0")["computeDomains"][0]["nodesJoined"] == 2)
    (told,) = explained(pods, "g-0")["computeDomains"]
    assert [node["ready"] for node in told["nodes"]] == [True, False]
    assert told["missing"] == []
