"""Every value of the chart does what values.yaml says, and no other is taken."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from audits import Permission, granted
from chart_tables import (
    ASSIGNMENTS,
    CONFIGURATIONS,
    CONTAINER,
    POD,
    SCHEDULER,
    SHOWN,
    SHOWN_OF_AGENT,
    SWITCHED,
    SWITCHED_OF_AGENT,
    TOLD_APART,
    WEBHOOK,
)
from charts import Helm, Object
from fairlead.kube.data_objects import DATA_KINDS
from fairlead.kube.gangs.api import GangDefaults, GangDialect
from fairlead.kube.gangs.registry import DIALECTS
from fairlead.kube.gangs.topology_objects import KINDS
from fairlead.kube.queues import registry as queues
from fairlead.kube.queues.api import QueueDialect
from manifests import CHART
from yaml_texts import yaml_of

VALUES = yaml_of(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def said(path: str, value: Any) -> dict[str, Any]:
    """`a.b` with a value, as nested values."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def at(found: Any, path: str) -> Any:
    for key in path.split("."):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def by_name(found: list[Object]) -> dict[str, Object]:
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        described = SCHEMA
        for step in f"{prefix}{key}".split("."):
            described = described["properties"][step]
        if described.get("properties") and "additionalProperties" in described:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def test_every_value_is_tried_out() -> None:
    tried = {value for value, *_ in SHOWN + SHOWN_OF_AGENT} | set(SWITCHED) | TOLD_APART
    tried |= set(SWITCHED_OF_AGENT)

    assert set(leaves(VALUES)) - tried == set()


def test_everything_in_the_schema_has_its_default_and_its_comment() -> None:
    assert set(SCHEMA["properties"]) - {"global"} == set(VALUES)


#: Nothing of the agent is there unless it is switched on.
WITH_AGENT = {"agent": {"enabled": True}}


def both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    keys = one.keys() | other.keys()
    return {key: {**one.get(key, {}), **other.get(key, {})} for key in keys}


@pytest.mark.parametrize("one", SHOWN + SHOWN_OF_AGENT, ids=lambda one: one[0])
def test_a_value_shows_where_it_should(charts: Helm, one: tuple[str, Any, str, str, Any]) -> None:
    value, told, name, path, expected = one
    of_agent = one in SHOWN_OF_AGENT
    by_default = by_name(charts.rendered(WITH_AGENT if of_agent else None)).get(name)
    values = both(WITH_AGENT, said(value, told)) if of_agent else said(value, told)

    assert at(by_name(charts.rendered(values))[name], path) == expected
    with pytest.raises((KeyError, IndexError, AssertionError)):
        assert at(by_default or {}, path) == expected


@pytest.mark.parametrize("value", SWITCHED)
def test_a_switch_takes_its_objects_away(charts: Helm, value: str) -> None:
    on, off = by_name(charts.rendered()), by_name(charts.rendered(said(value, False)))

    assert SWITCHED[value] <= set(on)
    assert SWITCHED[value] & set(off) == set()


@pytest.mark.parametrize("value", SWITCHED_OF_AGENT)
def test_a_switch_of_the_agent_takes_its_objects_away(charts: Helm, value: str) -> None:
    on = by_name(charts.rendered(WITH_AGENT))
    off = by_name(charts.rendered(both(WITH_AGENT, said(value, False))))

    assert SWITCHED_OF_AGENT[value] <= set(on)
    assert SWITCHED_OF_AGENT[value] & set(off) == set()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"agent": {"mig": {"gpus": "0,1"}}}, "at '/agent/mig/gpus'"),
        ({"replicas": 3}, "additional properties 'replicas' not allowed"),
        ({"webhook": {"failure": "Fail"}}, "at '/webhook': additional properties 'failure'"),
        ({"webhook": {"failurePolicy": "fail"}}, "at '/webhook/failurePolicy': value must be one"),
        ({"replicaCount": "two"}, "at '/replicaCount': got string, want integer"),
        ({"scheduler": {"name": "it's"}}, "at '/scheduler/name'"),
        ({"autoscaling": {"enabled": True}}, "leave it false and set replicaCount"),
        (
            {"config": {"leaderElection": {"leaderElect": False}}},
            "set policies.epoch to false as well",
        ),
        ({"files": {"p.py": "x"}}, "say in config which plugin comes from which file"),
        (
            {"webhook": {"caBundle": "YQ==", "certManager": {"enabled": True}}},
            "leave one of them out",
        ),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(
    charts: Helm, values: dict[str, Any], complaint: str
) -> None:
    assert complaint in charts.complaint(values)


def test_on_older_clusters_the_policy_cannot_inject(charts: Helm) -> None:
    command = ("template", "x", str(CHART), "--kube-version", "1.35.0")

    assert charts.run(*command).returncode == 0
    done = charts.run(*command, values={"policies": {"inject": True}})
    assert "use webhook.enabled here" in done.stderr


def _conditions(found: dict[str, Object]) -> set[str]:
    hooks = [found[name]["webhooks"][0] for name in CONFIGURATIONS]
    policy = found["MutatingAdmissionPolicy/fairlead-inject"]["spec"]
    return {one["matchConditions"][0]["expression"] for one in (*hooks, policy)}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({}, "['gpu-scheduler', 'toyscheduler']"),
        ({"scheduler": {"name": "mine"}}, "['mine']"),
        ({"config": {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]}}, "['a', 'b']"),
        ({"config": {"profiles": [{}]}}, "['default-scheduler']"),  # as kube-scheduler has it
    ],
)  # fmt: skip
def test_api_servers_ask_about_the_names_that_are_served(
    charts: Helm, values: dict[str, Any], names: str
) -> None:
    found = by_name(charts.rendered({**values, "policies": {"inject": True}}))

    (expression,) = _conditions(found)
    assert expression.endswith(f"object.spec.schedulerName in {names}")


def test_configuration_and_files_reach_both_programs(charts: Helm) -> None:
    config = {"profiles": [{"schedulerName": "a", "picker": "./p.py:P"}]}
    found = by_name(charts.rendered({"config": config, "files": {"p.py": "class P: ..."}}))

    data = found["ConfigMap/fairlead"]["data"]
    assert yaml_of(data["fairlead.yaml"]) == config
    assert data["p.py"].strip() == "class P: ..."
    sums = set()
    for name in (SCHEDULER, WEBHOOK):
        (container,) = at(found[name], f"{POD}.containers")
        assert "--config=/etc/fairlead/fairlead.yaml" in container["args"]
        assert "/etc/fairlead" in {mount["mountPath"] for mount in container["volumeMounts"]}
        sums.add(at(found[name], "spec.template.metadata.annotations")["checksum/config"])
    changed = by_name(charts.rendered({"config": config, "files": {"p.py": "class P: pass"}}))
    annotations = at(changed[SCHEDULER], "spec.template.metadata.annotations")
    assert annotations["checksum/config"] not in sums, "a change must start new pods"


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        ("fairlead", {}, "fairlead"),
        ("my-fairlead", {}, "my-fairlead"),
        ("gpus", {}, "gpus-fairlead"),
        ("gpus", {"nameOverride": "devices"}, "gpus-devices"),
        ("gpus", {"fullnameOverride": "devices"}, "devices"),
    ],
)
def test_all_names_hang_together(
    charts: Helm, release: str, values: dict[str, Any], name: str
) -> None:
    found = by_name(charts.rendered(values, release))
    scheduler, webhook = found[f"Deployment/{name}"], found[f"Deployment/{name}-webhook"]

    assert f"--leader-elect-resource-name={name}" in at(scheduler, f"{CONTAINER}.args")
    assert {f"Lease/{name}", f"ConfigMap/{name}-run-times"} <= set(found)
    assert {
        f"--service={name}-webhook", f"--configuration={name}", f"--cert-store={name}-webhook-tls",
    } <= set(at(webhook, f"{CONTAINER}.args"))  # fmt: skip
    assert {f"Service/{name}-webhook", f"Secret/{name}-webhook-tls"} <= set(found)
    hook = found[f"MutatingWebhookConfiguration/{name}"]["webhooks"][0]
    assert hook["clientConfig"]["service"]["name"] == f"{name}-webhook"
    binding = found[f"ValidatingAdmissionPolicyBinding/{name}-epoch"]["spec"]
    assert binding["paramRef"]["name"] == name
    # A kind has one name in the whole cluster.
    named = (one for one in found.values() if one["kind"] != "CustomResourceDefinition")
    assert all(name in one["metadata"]["name"] for one in named)


def test_policies_and_rights_go_by_the_service_account(charts: Helm) -> None:
    values = {
        "serviceAccount": {"create": False, "name": "theirs"},
        "webhook": {"serviceAccount": {"name": "hook"}},
        "policies": {
            "schedulers": ["system:kube-scheduler"], "devicePluginNamespaces": ["plugins"],
            "creatorNamespaces": [],
        },
    }  # fmt: skip
    found = by_name(charts.rendered(values))

    assert at(found[SCHEDULER], f"{POD}.serviceAccountName") == "theirs"
    assert at(found[WEBHOOK], f"{POD}.serviceAccountName") == "hook"
    for kind, role in (("ClusterRoleBinding", "fairlead"), ("RoleBinding", "fairlead")):
        assert at(found[f"{kind}/{role}"], "subjects.0.name") == "theirs"
        assert at(found[f"{kind}/{role}-webhook"], "subjects.0.name") == "hook"
    variables = {one["name"]: one["expression"] for one in found[ASSIGNMENTS]["spec"]["variables"]}
    ours = "system:serviceaccount:fairlead-system:theirs"
    assert variables["schedulers"] == f"['{ours}', 'system:kube-scheduler']"
    assert variables["creatorGroups"] == "[]"
    assert variables["pluginGroups"].endswith(": ['system:serviceaccounts:plugins'])")
    epoch = found["ValidatingAdmissionPolicy/fairlead-epoch"]["spec"]
    assert ours in epoch["matchConditions"][0]["expression"]


def test_nodes_can_be_requested_only_where_it_is_configured(charts: Helm) -> None:
    for said, resources in ((None, set()), ({}, {"provisioningrequests", "podtemplates"})):
        config = {"config": {"gangs": {"nodeRequests": said}}} if said is not None else {}
        rules = by_name(charts.rendered(config))["ClusterRole/fairlead-gangs"]["rules"]
        made = {each for rule in rules if "create" in rule["verbs"] for each in rule["resources"]}
        assert made == resources


def test_the_rights_on_gangs_are_those_of_the_dialects_that_are_on(charts: Helm) -> None:
    for off in ([], ["native"]):
        config = {"config": {"gangs": {"disabled": off}}} if off else {}
        role = by_name(charts.rendered(config))["ClusterRole/fairlead-gangs"]
        assert granted(role) == {
            right for each in DIALECTS if each.name not in off for right in _rights_of(each)
        }
    volcano = {"additionalSchedulerNames": ["volcano"]}
    role = by_name(charts.rendered({"config": volcano}))["ClusterRole/fairlead-gangs"]
    assert {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"],
            "verbs": ["create"]} in role["rules"]  # fmt: skip
    everything = {"gangs": {"disabled": [each.name for each in DIALECTS]}}
    assert "ClusterRole/fairlead-gangs" not in by_name(charts.rendered({"config": everything}))


def test_it_may_evict_pods_through_their_budgets(charts: Helm) -> None:
    role = by_name(charts.rendered({}))["ClusterRole/fairlead"]
    assert ("", "pods/eviction", "create") in granted(role)


def test_the_rights_on_queues_are_those_of_the_dialects_that_are_on(charts: Helm) -> None:
    role = by_name(charts.rendered({}))["ClusterRole/fairlead-queues"]
    assert granted(role) == {right for each in queues.DIALECTS for right in _rights_on(each)}
    for off in queues.NAMES:
        found = by_name(charts.rendered({"config": {"queues": {"disabled": [off]}}}))
        rights = granted(found["ClusterRole/fairlead-queues"]) if len(queues.NAMES) > 1 else set()
        assert rights == {
            right for each in queues.DIALECTS if each.name != off for right in _rights_on(each)
        }
    volcano = {"config": {"additionalSchedulerNames": ["volcano"]}}
    role = by_name(charts.rendered(volcano))["ClusterRole/fairlead-queues"]
    assert ("scheduling.volcano.sh", "queues/status", "patch") in granted(role)
    everything = {"config": {"queues": {"disabled": list(queues.NAMES)}}}
    assert "ClusterRole/fairlead-queues" not in by_name(charts.rendered(everything))


def test_the_config_map_of_a_forecast_may_be_read_where_it_is_configured(charts: Helm) -> None:
    source = {"window": "cheap", "kind": "configmap", "configMap": "kube-system/carbon-intensity"}
    found = by_name(charts.rendered({"config": {"goals": {"forecasts": [source]}}}))
    role = found["Role/fairlead-forecast-0"]
    assert role["metadata"]["namespace"] == "kube-system"
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["carbon-intensity"],
         "verbs": ["get"]},
    ]  # fmt: skip
    assert found["RoleBinding/fairlead-forecast-0"]["metadata"]["namespace"] == "kube-system"
    assert "Role/fairlead-forecast-0" not in by_name(charts.rendered({}))


def test_objects_about_data_may_be_read_where_a_profile_counts_the_time_to_fetch_it(
    charts: Helm,
) -> None:
    goals = {"order": [{"sum": ["FetchTime"]}]}
    profiles = [{"schedulerName": "gpu-scheduler", "goals": goals}]
    found = by_name(charts.rendered({"config": {"profiles": profiles}}))
    rights = granted(found["ClusterRole/fairlead-data"])
    assert {right for right in rights if right[0]} == {
        (kind.group, kind.plural, verb) for kind in DATA_KINDS for verb in ("get", "list", "watch")
    }
    assert "ClusterRole/fairlead-data" not in by_name(charts.rendered({}))


def test_the_config_map_of_yunikorn_may_be_read_where_it_is_configured(charts: Helm) -> None:
    place = {"yunikorn": {"configMap": "batch/yunikorn-configs"}}
    found = by_name(charts.rendered({"config": {"queues": place}}))
    role = found["Role/fairlead-yunikorn"]
    assert role["metadata"]["namespace"] == "batch"
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["yunikorn-configs"],
         "verbs": ["get", "list", "watch"]}
    ]  # fmt: skip
    assert found["RoleBinding/fairlead-yunikorn"]["metadata"]["namespace"] == "batch"
    off = {"config": {"queues": {**place, "disabled": ["yunikorn"]}}}
    assert "Role/fairlead-yunikorn" not in by_name(charts.rendered(off))
    assert "Role/fairlead-yunikorn" not in by_name(charts.rendered({}))


def _rights_on(dialect: QueueDialect) -> Iterator[Permission]:
    kind = dialect.kind
    if kind is None:
        return
    writes = dialect.written_by == ""
    yield "", f"/apis/{kind.group}/*", "get"
    for verb in ("list", "watch", *(("get",) if writes else ())):
        yield kind.group, kind.plural, verb
    if writes:
        yield kind.group, f"{kind.plural}/status", "patch"


def _rights_of(dialect: GangDialect) -> Iterator[Permission]:
    kind = dialect.kind
    if topology := KINDS.get(dialect.name):
        yield "", f"/apis/{topology.group}/*", "get"
        yield from ((topology.group, topology.plural, verb) for verb in ("list", "watch"))
    if kind is None:
        return
    writes = type(dialect).status is not GangDefaults.status
    written = f"{kind.plural}/status" if kind.has_status_subresource else kind.plural
    yield "", f"/apis/{kind.group}/*", "get"
    for verb in ("list", "watch", *(("get",) if writes else ())):
        yield kind.group, kind.plural, verb
    if writes:
        yield kind.group, written, "patch"


def test_the_webhook_is_told_who_may_ask_it(charts: Helm) -> None:
    here, pods = {"ipBlock": {"cidr": "10.0.0.10/32"}}, {"podSelector": {}}
    apart = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
    for peers, said in (
        ([here], ["--allow-from=10.0.0.10/32"]), ([here, pods], []), ([apart], []), ([], []),
    ):  # fmt: skip
        found = by_name(charts.rendered({"networkPolicy": {"webhookFrom": peers}}))
        arguments = at(found[WEBHOOK], f"{CONTAINER}.args")
        assert [one for one in arguments if one.startswith("--allow-from")] == said

    known = {"clientCA": "api-server-ca", "clientNames": ["kube-apiserver", "a: b"]}
    found = by_name(charts.rendered({"webhook": known}))
    assert {
        "--client-ca=/client-ca/ca.crt", "--client-name=kube-apiserver", "--client-name=a: b",
    } <= set(at(found[WEBHOOK], f"{CONTAINER}.args"))  # fmt: skip
    assert "set it as well" in charts.complaint({"webhook": {"clientNames": ["a"]}})


def test_certificates_of_others_need_no_rights(charts: Helm) -> None:
    manager = {"enabled": True, "issuerRef": {"kind": "ClusterIssuer", "name": "us"}}
    by_manager = by_name(charts.rendered({"webhook": {"certManager": manager}}))
    by_hand = by_name(charts.rendered({"webhook": {"caBundle": "YQ=="}}))

    for found in (by_manager, by_hand):
        assert "--cert-dir=/certs" in at(found[WEBHOOK], f"{CONTAINER}.args")
        mounted = {one["name"]: one for one in at(found[WEBHOOK], f"{POD}.volumes")}
        assert mounted["certificates"]["secret"]["secretName"] == "fairlead-webhook-tls"
        assert {"Role/fairlead-webhook", "ClusterRole/fairlead-webhook"} & set(found) == set()
        assert "Secret/fairlead-webhook-tls" not in found
    certificate = by_manager["Certificate/fairlead-webhook"]["spec"]
    assert certificate["secretName"] == "fairlead-webhook-tls"
    assert certificate["dnsNames"][0] == "fairlead-webhook.fairlead-system.svc"
    assert certificate["issuerRef"] == manager["issuerRef"]
    for name in CONFIGURATIONS:
        annotations = by_manager[name]["metadata"]["annotations"]
        assert annotations["cert-manager.io/inject-ca-from"] == "fairlead-system/fairlead-webhook"
    own = by_name(charts.rendered({"webhook": {"certManager": {"enabled": True}}}))
    assert own["Certificate/fairlead-webhook"]["spec"]["issuerRef"]["kind"] == "Issuer"
    assert own["Issuer/fairlead-webhook"]["spec"] == {"selfSigned": {}}


def test_values_of_the_scheduler_that_maps_came_from_are_taken(charts: Helm) -> None:
    theirs = {
        "replicaCount": 1,
        "image": {"repository": "gpu-scheduler", "pullPolicy": "IfNotPresent", "tag": "latest"},
        "imagePullSecrets": [],
        "nameOverride": "",
        "fullnameOverride": "",
        "scheduler": {"name": "gpu-scheduler"},
        "webhook": {"enabled": True, "caBundle": ""},
        "serviceAccount": {"create": True, "annotations": {}, "name": ""},
        "podAnnotations": {},
        "podSecurityContext": {"runAsNonRoot": True, "runAsUser": 1000},
        "securityContext": {"readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        "service": {"type": "ClusterIP", "port": 8080, "targetPort": 8080},
        "resources": {"limits": {"cpu": "500m", "memory": "512Mi"}},
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"operator": "Exists"}],
        "env": {},
        "volumes": [],
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
        "priorityClassName": "",
        "autoscaling": {"enabled": False, "minReplicas": 1, "maxReplicas": 3},
    }
    found = by_name(charts.rendered(theirs, "gpu-scheduler"))

    scheduler = found["Deployment/gpu-scheduler-fairlead"]
    assert at(scheduler, "spec.replicas") == 1
    assert {"name": "SCHEDULER_NAME", "value": "gpu-scheduler"} in at(scheduler, f"{CONTAINER}.env")


def test_the_decision_log_has_a_volume_of_its_own(charts: Helm) -> None:
    plain = by_name(charts.rendered({}))[SCHEDULER]
    assert not [arg for arg in at(plain, f"{CONTAINER}.args") if "decision-log" in arg]
    values: dict[str, Any] = {"decisionLog": {"enabled": True, "size": "1Gi"}}
    found = by_name(charts.rendered(values))[SCHEDULER]
    assert {"--decision-log=/var/log/fairlead", "--decision-log-size=1Gi"} <= set(
        at(found, f"{CONTAINER}.args")
    )
    mount = {"name": "decision-log", "mountPath": "/var/log/fairlead"}
    assert at(found, f"{CONTAINER}.volumeMounts") == [mount]
    assert at(found, f"{POD}.volumes") == [{"name": "decision-log", "emptyDir": {}}]
    claim = {"persistentVolumeClaim": {"claimName": "log"}}
    values["decisionLog"]["volume"] = claim
    kept = by_name(charts.rendered(values))[SCHEDULER]
    assert at(kept, f"{POD}.volumes") == [{"name": "decision-log", **claim}]
    assert "decisionLog" in charts.complaint({"decisionLog": {"size": "lots"}})
