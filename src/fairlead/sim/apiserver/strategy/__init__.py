"""The rules of each kind."""

from functools import cache

from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.strategy import cluster, plain, pods, workloads
from fairlead.sim.apiserver.strategy.base import Specified, Strategy

_BY_RESOURCE: dict[str, Strategy] = {
    "pods": pods.Pods(),
    "nodes": cluster.Nodes(),
    "namespaces": cluster.Namespaces(),
    "events": cluster.Events(),
    "priorityclasses.scheduling.k8s.io": cluster.PriorityClasses(),
    "leases.coordination.k8s.io": cluster.Leases(),
    "deployments.apps": workloads.Deployments(),
    "replicasets.apps": workloads.ReplicaSets(),
    "statefulsets.apps": workloads.StatefulSets(),
    "daemonsets.apps": workloads.DaemonSets(),
    "jobs.batch": workloads.Jobs(),
    "cronjobs.batch": workloads.CronJobs(),
    "poddisruptionbudgets.policy": workloads.Budgets(),
    "configmaps": plain.ConfigMaps(),
    "secrets": plain.Secrets(),
    "services": plain.Services(),
    "persistentvolumeclaims": plain.Claims(),
    "persistentvolumes": plain.Volumes(),
    "storageclasses.storage.k8s.io": plain.StorageClasses(),
    "csinodes.storage.k8s.io": plain.Strict(),
    "csidrivers.storage.k8s.io": plain.CsiDrivers(),
    "volumeattachments.storage.k8s.io": plain.Attachments(),
    "roles.rbac.authorization.k8s.io": plain.Roles(),
    "clusterroles.rbac.authorization.k8s.io": plain.Roles(),
    "rolebindings.rbac.authorization.k8s.io": plain.RoleBindings(),
    "clusterrolebindings.rbac.authorization.k8s.io": plain.RoleBindings(),
    "runtimeclasses.node.k8s.io": plain.RuntimeClasses(),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": plain.MutatingWebhooks(),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": plain.WebhookConfigurations(),
    "validatingadmissionpolicies.admissionregistration.k8s.io": plain.Policies(),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": plain.Policies(),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": plain.Policies(),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": plain.Policies(),
    "customresourcedefinitions.apiextensions.k8s.io": plain.Definitions(),
    "resourceclaims.resource.k8s.io": Specified(),
    "resourceslices.resource.k8s.io": plain.Strict(),
}
_PLAIN = Strategy()


def strategy_for(kind: Kind) -> Strategy:
    if kind.custom:
        return _custom(kind.group_resource, kind)
    return _BY_RESOURCE.get(kind.store_name, _PLAIN)


@cache
def _custom(_name: str, kind: Kind) -> Strategy:
    return plain.Custom(kind.custom or {})
