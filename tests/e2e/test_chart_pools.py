"""The agents of node pools: one DaemonSet for each pool, and never two agents on one node."""

import json
import re
from typing import Any

import pytest

from chart_tables import POD
from charts import Helm, Object
from fairlead.sim.controlplane import ControlPlane
from manifests import ROOT
from test_chart import enforcing
from test_chart_values import at, by_name
from yaml_texts import yaml_of

PRESENT = {"nvidia.com/gpu.present": "true"}
MPS = {"name": "inference", "nodeSelector": {"pool": "inference"}, "runtimeClassName": "",
       "mps": {"enabled": True, "processes": 2}}  # fmt: skip
MIG = {"name": "training", "nodeSelector": {"pool": "training"}, "tolerations": [],
       "mig": {"enabled": True, "stateDir": "/srv/x"},
       "podResources": {"enabled": True}}  # fmt: skip
ADVISORY = {"name": "1", "nodeSelector": {"pool": ""}, "interval": "9s"}
POOLS = [MPS, MIG, ADVISORY]


def agents(charts: Helm, *pools: dict[str, Any], **shared: Any) -> dict[str, Object]:
    """The DaemonSets, by name."""
    found = charts.rendered({"agent": {"enabled": True, "pools": list(pools), **shared}})
    return {one["metadata"]["name"]: one for one in found if one["kind"] == "DaemonSet"}


def test_each_pool_has_an_agent_with_its_own_values(charts: Helm) -> None:
    found = agents(charts, *POOLS)
    assert list(found) == [f"fairlead-agent-{name}" for name in ("inference", "training", "1")]
    inference, training, plain = (at(one, POD) for one in found.values())
    both = ["--interval=5s", "--unassigned=withhold"]

    assert at(inference, "containers.0.args") == ["agent", *both, "--mps=all", "--mps-processes=2"]
    assert at(training, "containers.0.args") == [
        "agent", *both, "--mig=all", "--state=/var/lib/fairlead",
        "--pod-resources=/var/lib/kubelet/pod-resources/kubelet.sock",
    ]  # fmt: skip
    assert at(plain, "containers.0.args") == ["agent", "--interval=9s", both[1]]
    capabilities = "containers.0.securityContext.capabilities"
    assert at(inference, capabilities) == {"drop": ["ALL"], "add": ["SYS_ADMIN", "KILL"]}
    assert at(training, capabilities) == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert at(plain, capabilities) == {"drop": ["ALL"]}
    assert [one.get("hostPID") for one in (inference, training, plain)] == [True, None, None]
    assert [one.get("runtimeClassName") for one in (inference, training, plain)] == [
        None, "nvidia", "nvidia",
    ]  # fmt: skip
    assert [len(one.get("tolerations", [])) for one in (inference, training, plain)] == [2, 0, 2]
    assert "volumes" not in plain


def test_each_pool_selects_its_own_nodes_and_pods(charts: Helm) -> None:
    found = agents(charts, *POOLS)

    assert [at(one, POD)["nodeSelector"] for one in found.values()] == [
        {**PRESENT, **one["nodeSelector"]} for one in POOLS
    ]
    selectors = [one["spec"]["selector"]["matchLabels"] for one in found.values()]
    assert len({json.dumps(one) for one in selectors}) == len(POOLS)
    for one, selector in zip(found.values(), selectors, strict=True):
        assert at(one, "spec.template.metadata.labels") == selector


def test_the_rest_is_shared(charts: Helm) -> None:
    alone = by_name(charts.rendered({"agent": {"enabled": True}}))
    values = {"agent": {"enabled": True, "pools": POOLS}, "createNamespace": True}
    found = by_name(charts.rendered(values))
    namespace = found.pop("Namespace/fairlead-system")

    assert at(namespace, "metadata.labels")["pod-security.kubernetes.io/enforce"] == "privileged"
    del alone["DaemonSet/fairlead-agent"]
    assert {name: one for name, one in found.items() if one["kind"] != "DaemonSet"} == alone
    service = at(found["Service/fairlead-agent"], "spec.selector")
    for name in ("inference", "training", "1"):
        labels = at(found[f"DaemonSet/fairlead-agent-{name}"], "spec.template.metadata.labels")
        assert service.items() <= labels.items()


def test_a_pool_can_switch_off_what_all_others_have(charts: Helm) -> None:
    without = {**ADVISORY, "mps": {"enabled": False}}
    other = {"name": "other", "nodeSelector": {"pool": "other"}}
    found = agents(charts, without, other, mps={"enabled": True, "processes": 3})

    arguments = [at(one, f"{POD}.containers.0.args") for one in found.values()]
    assert ["--mps-processes=3" in one for one in arguments] == [False, True]


def test_without_pools_there_is_one_agent_for_all(charts: Helm) -> None:
    assert list(agents(charts)) == ["fairlead-agent"]


def test_the_pools_in_the_docs_are_taken(charts: Helm) -> None:
    page = (ROOT / "docs" / "devices.md").read_text()
    (block,) = re.findall(r"^```yaml\n(agent:.*?)^```", page, re.DOTALL | re.MULTILINE)

    found = by_name(charts.rendered(yaml_of(block)))

    assert "DaemonSet/fairlead-agent-inference" in found


@pytest.mark.parametrize(
    ("pools", "complaint"),
    [
        ([{"name": "a"}], "at '/agent/pools/0': missing property 'nodeSelector'"),
        ([{"name": "a", "nodeSelector": {}}], "at '/agent/pools/0/nodeSelector': minProperties"),
        ([{"nodeSelector": {"a": "b"}}], "at '/agent/pools/0': missing property 'name'"),
        ([{**MPS, "name": "A_b"}], "at '/agent/pools/0/name'"),
        ([{**MPS, "enabled": True}], "at '/agent/pools/0': additional properties 'enabled'"),
        ([{**MPS, "mps": {"processes": 0}}], "at '/agent/pools/0/mps/processes'"),
        ([MPS, {**MIG, "name": "inference"}], "two pools have the name inference"),
        ([MPS, {**MPS, "name": "b"}], "a node could be in both inference and b"),
        (
            [MPS, ADVISORY, {"name": "b", "nodeSelector": {"other": "x"}}],
            "give both nodeSelectors the same label with different values",
        ),
    ],
    ids=str,
)
def test_pools_that_could_share_a_node_are_refused(
    charts: Helm, pools: list[dict[str, Any]], complaint: str
) -> None:
    assert complaint in charts.complaint({"agent": {"enabled": True, "pools": pools}})


@pytest.mark.parametrize(
    ("pool", "level", "admitted"),
    [
        (ADVISORY, "restricted", True),
        (MPS, "baseline", False),
        (MPS, "privileged", True),
        (MIG, "baseline", False),
        (MIG, "privileged", True),
    ],
    ids=lambda one: one["name"] if isinstance(one, dict) else str(one),
)
def test_the_api_server_takes_the_agents_of_pools(
    charts: Helm, control_plane: ControlPlane, pool: dict[str, Any], level: str, admitted: bool
) -> None:
    agent = agents(charts, *POOLS)[f"fairlead-agent-{pool['name']}"]
    strict = "?dryRun=All&fieldValidation=Strict"
    del agent["metadata"]["namespace"]
    path = f"/apis/apps/v1/namespaces/default/daemonsets{strict}"
    status, answer = control_plane.api("POST", path, agent)
    assert status == 201, answer

    pod = agent["spec"]["template"]
    pod["metadata"]["name"] = "p"
    del pod["spec"]["serviceAccountName"]
    pod["spec"].pop("runtimeClassName", None)
    with enforcing(control_plane, level) as path:
        status, answer = control_plane.api("POST", f"{path}{strict}", pod)
    assert (status == 201) == admitted, answer
