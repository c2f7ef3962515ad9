"""Where each value of the chart shows."""

from typing import Any

SCHEDULER, WEBHOOK = "Deployment/fairlead", "Deployment/fairlead-webhook"
CONFIGURATIONS = tuple(
    f"{kind}WebhookConfiguration/fairlead" for kind in ("Mutating", "Validating")
)
ASSIGNMENTS = "ValidatingAdmissionPolicy/fairlead-assignments"
PEER = {"ipBlock": {"cidr": "10.0.0.1/32"}}
POD, CONTAINER = "spec.template.spec", "spec.template.spec.containers.0"

#: Value, what is said, the object in which it shows, where, and what stands there.
SHOWN: list[tuple[str, Any, str, str, Any]] = [
    ("image.repository", "r.example/f", SCHEDULER, f"{CONTAINER}.image", "r.example/f:0.2.0"),
    ("image.tag", "9", WEBHOOK, f"{CONTAINER}.image", "fairlead:9"),
    ("image.pullPolicy", "Always", WEBHOOK, f"{CONTAINER}.imagePullPolicy", "Always"),
    ("imagePullSecrets", [{"name": "s"}], WEBHOOK, f"{POD}.imagePullSecrets", [{"name": "s"}]),
    ("replicaCount", 3, SCHEDULER, "spec.replicas", 3),
    (
        "scheduler.name",
        "mine",
        SCHEDULER,
        f"{CONTAINER}.env",
        [{"name": "SCHEDULER_NAME", "value": "mine"}],
    ),
    ("scheduler.authenticate", False, SCHEDULER, f"{CONTAINER}.args.3", "--no-authenticate"),
    (
        "reservations.image",
        "r.example/sh:1",
        SCHEDULER,
        f"{CONTAINER}.args.6",
        "--reservation-image=r.example/sh:1",
    ),
    ("reservations.grace", "1m", SCHEDULER, f"{CONTAINER}.args.8", "--reservation-grace=1m"),
    ("logLevel", "debug", WEBHOOK, f"{CONTAINER}.env", [{"name": "LOG_LEVEL", "value": "debug"}]),
    (
        "resources.limits",
        {"memory": "2Gi"},
        SCHEDULER,
        f"{CONTAINER}.resources.limits.memory",
        "2Gi",
    ),
    ("resources.requests", {"cpu": "1"}, SCHEDULER, f"{CONTAINER}.resources.requests.cpu", "1"),
    (
        "livenessProbe",
        {"periodSeconds": 7},
        SCHEDULER,
        f"{CONTAINER}.livenessProbe.periodSeconds",
        7,
    ),
    (
        "readinessProbe",
        {"periodSeconds": 7},
        SCHEDULER,
        f"{CONTAINER}.readinessProbe.periodSeconds",
        7,
    ),
    ("volumes", [{"name": "v"}], SCHEDULER, f"{POD}.volumes", [{"name": "v"}]),
    ("volumeMounts", [{"name": "v"}], SCHEDULER, f"{CONTAINER}.volumeMounts", [{"name": "v"}]),
    (
        "serviceAccount.annotations",
        {"a": "b"},
        "ServiceAccount/fairlead",
        "metadata.annotations",
        {"a": "b"},
    ),
    ("service.type", "NodePort", "Service/fairlead", "spec.type", "NodePort"),
    ("service.port", 9, "Service/fairlead", "spec.ports.0.port", 9),
    ("service.targetPort", 8080, "Service/fairlead", "spec.ports.0.targetPort", 8080),
    (
        "rbac.defaultSpreading",
        True,
        "ClusterRole/fairlead-default-spreading",
        "kind",
        "ClusterRole",
    ),
    (
        "env",
        [{"name": "A", "value": "b"}],
        WEBHOOK,
        f"{CONTAINER}.env",
        [{"name": "A", "value": "b"}],
    ),
    ("podAnnotations", {"a": "b"}, WEBHOOK, "spec.template.metadata.annotations", {"a": "b"}),
    ("podLabels", {"a": "b"}, WEBHOOK, "spec.template.metadata.labels.a", "b"),
    ("priorityClassName", "p", WEBHOOK, f"{POD}.priorityClassName", "p"),
    ("nodeSelector", {"a": "b"}, WEBHOOK, f"{POD}.nodeSelector", {"a": "b"}),
    ("tolerations", [{"key": "k"}], WEBHOOK, f"{POD}.tolerations", [{"key": "k"}]),
    ("affinity", {"nodeAffinity": {}}, WEBHOOK, f"{POD}.affinity", {"nodeAffinity": {}}),
    ("podSecurityContext", {"runAsUser": 7}, WEBHOOK, f"{POD}.securityContext.runAsUser", 7),
    (
        "securityContext",
        {"privileged": False},
        WEBHOOK,
        f"{CONTAINER}.securityContext.privileged",
        False,
    ),
    ("webhook.replicaCount", 5, WEBHOOK, "spec.replicas", 5),
    ("webhook.failurePolicy", "Ignore", CONFIGURATIONS[1], "webhooks.0.failurePolicy", "Ignore"),
    ("webhook.gpuResources", "all", WEBHOOK, f"{CONTAINER}.args.5", "--gpu-resources=all"),
    ("webhook.clientCA", "ca", WEBHOOK, f"{POD}.volumes.1.configMap.name", "ca"),
    ("webhook.caBundle", "YQ==", CONFIGURATIONS[0], "webhooks.0.clientConfig.caBundle", "YQ=="),
    (
        "webhook.serviceAccount.annotations",
        {"a": "b"},
        "ServiceAccount/fairlead-webhook",
        "metadata.annotations",
        {"a": "b"},
    ),
    (
        "webhook.resources.limits",
        {"memory": "1Gi"},
        WEBHOOK,
        f"{CONTAINER}.resources.limits.memory",
        "1Gi",
    ),
    (
        "webhook.resources.requests",
        {"cpu": "1"},
        WEBHOOK,
        f"{CONTAINER}.resources.requests.cpu",
        "1",
    ),
    (
        "policies.inject",
        True,
        "MutatingAdmissionPolicy/fairlead-inject",
        "kind",
        "MutatingAdmissionPolicy",
    ),
    (
        "networkPolicy.schedulerFrom",
        [PEER],
        "NetworkPolicy/fairlead",
        "spec.ingress.0.from",
        [PEER],
    ),
    (
        "networkPolicy.webhookFrom",
        [PEER],
        "NetworkPolicy/fairlead-webhook",
        "spec.ingress.0.from",
        [PEER],
    ),
    (
        "networkPolicy.egress",
        [{"to": [PEER]}],
        "NetworkPolicy/fairlead",
        "spec.egress",
        [{"to": [PEER]}],
    ),
    ("createNamespace", True, "Namespace/fairlead-system", "kind", "Namespace"),
    ("staticPod", True, "Pod/fairlead", "metadata.namespace", "kube-system"),
    ("prometheusRule.enabled", True, "PrometheusRule/fairlead", "kind", "PrometheusRule"),
    (
        "grafanaDashboard.enabled",
        True,
        "ConfigMap/fairlead-dashboard",
        "metadata.labels.grafana_dashboard",
        "1",
    ),
]
AGENT = "DaemonSet/fairlead-agent"
#: The same of the agent, which is there when it is switched on.
SHOWN_OF_AGENT: list[tuple[str, Any, str, str, Any]] = [
    ("agent.runtimeClassName", "gpu", AGENT, f"{POD}.runtimeClassName", "gpu"),
    ("agent.interval", "9s", AGENT, f"{CONTAINER}.args.1", "--interval=9s"),
    ("agent.unassigned", "report", AGENT, f"{CONTAINER}.args.2", "--unassigned=report"),
    ("agent.podMetrics", True, AGENT, f"{CONTAINER}.args.3", "--pod-metrics"),
    ("agent.hostPID", True, AGENT, f"{POD}.hostPID", True),
    ("agent.mig.enabled", True, AGENT, f"{CONTAINER}.args.3", "--mig=all"),
    ("agent.mps.enabled", True, AGENT, f"{CONTAINER}.args.3", "--mps=all"),
    (
        "agent.podResources.enabled",
        True,
        AGENT,
        f"{CONTAINER}.args.3",
        "--pod-resources=/var/lib/kubelet/pod-resources/kubelet.sock",
    ),
    ("agent.resourceSlices", "mig", AGENT, f"{CONTAINER}.args.3", "--resource-slices=mig"),
    ("agent.gpuResources", "parts", AGENT, f"{CONTAINER}.args.3", "--gpu-resources=parts"),
    ("agent.nodeSelector", {"a": "b"}, AGENT, f"{POD}.nodeSelector.a", "b"),
    ("agent.tolerations", [{"key": "k"}], AGENT, f"{POD}.tolerations", [{"key": "k"}]),
    ("agent.affinity", {"nodeAffinity": {}}, AGENT, f"{POD}.affinity", {"nodeAffinity": {}}),
    (
        "agent.serviceAccount.annotations",
        {"a": "b"},
        "ServiceAccount/fairlead-agent",
        "metadata.annotations",
        {"a": "b"},
    ),
    (
        "agent.resources.limits",
        {"memory": "1Gi"},
        AGENT,
        f"{CONTAINER}.resources.limits.memory",
        "1Gi",
    ),
    ("agent.resources.requests", {"cpu": "1"}, AGENT, f"{CONTAINER}.resources.requests.cpu", "1"),
    (
        "networkPolicy.agentFrom",
        [PEER],
        "NetworkPolicy/fairlead-agent",
        "spec.ingress.0.from",
        [PEER],
    ),
]
SWITCHED_OF_AGENT = {
    "agent.enabled": {AGENT, "Service/fairlead-agent", "NetworkPolicy/fairlead-agent"},
    "agent.serviceAccount.create": {"ServiceAccount/fairlead-agent"},
    "policies.inventory": {
        "ValidatingAdmissionPolicy/fairlead-inventory",
        "ValidatingAdmissionPolicy/fairlead-resource-slices",
    },
}
#: Switched off, these are gone.
SWITCHED = {
    "webhook.enabled": {WEBHOOK, *CONFIGURATIONS, "NetworkPolicy/fairlead-webhook"},
    "policies.assignments": {ASSIGNMENTS},
    "policies.spelling": {"ValidatingAdmissionPolicy/fairlead-spelling"},
    "policies.epoch": {"ValidatingAdmissionPolicy/fairlead-epoch"},
    "policies.reservations": {"ValidatingAdmissionPolicy/fairlead-reservations"},
    "reservations.enabled": {"ValidatingAdmissionPolicy/fairlead-reservations"},
    "crds.install": {
        "CustomResourceDefinition/schedulerepochs.fairlead.dev",
        "CustomResourceDefinition/queues.fairlead.dev",
        "CustomResourceDefinition/reservations.fairlead.dev",
        "CustomResourceDefinition/countedresources.fairlead.dev",
    },
    "networkPolicy.enabled": {"NetworkPolicy/fairlead", "NetworkPolicy/fairlead-webhook"},
    "podDisruptionBudget.enabled": {
        "PodDisruptionBudget/fairlead", "PodDisruptionBudget/fairlead-webhook",
    },
    "serviceAccount.create": {"ServiceAccount/fairlead"},
    "webhook.serviceAccount.create": {"ServiceAccount/fairlead-webhook"},
}  # fmt: skip
#: Those that have a test of their own below.
TOLD_APART = {
    "nameOverride", "fullnameOverride", "config", "files", "serviceAccount.name", "autoscaling",
    "webhook.serviceAccount.name", "webhook.certManager.enabled", "webhook.certManager.issuerRef",
    "webhook.clientNames", "extender.enabled", "extender.profile", "extender.certSecret",
    "extender.clientCA", "extender.clientNames", "extender.resources.limits",
    "extender.resources.requests", "networkPolicy.extenderFrom",
    "policies.schedulers", "policies.devicePluginNamespaces", "policies.creatorNamespaces",
    "agent.mig.gpus", "agent.mig.stateDir", "agent.podResources.directory",
    "agent.mps.gpus", "agent.mps.processes",
    "agent.serviceAccount.name", "agent.pools",
    "prometheusRule.labels", "prometheusRule.waitSeconds", "grafanaDashboard.labels",
    "decisionLog.enabled", "decisionLog.size", "decisionLog.volume",
}  # fmt: skip
