"""The rules of each kind."""

from functools import cache

from fairlead.sim.apiserver.kinds import Kind
from fairlead.sim.apiserver.strategy import (
    claims,
    cluster,
    devices,
    plain,
    pods,
    workloads,
)
from fairlead.sim.apiserver.strategy.base import Strategy

_BY_RESOURCE: dict[str, Strategy] = {
    "pods": pods.PodStrategy(),
    "nodes": cluster.NodeStrategy(),
    "namespaces": cluster.NamespaceStrategy(),
    "events": cluster.EventStrategy(),
    "priorityclasses.scheduling.k8s.io": cluster.PriorityClassStrategy(),
    "leases.coordination.k8s.io": cluster.LeaseStrategy(),
    "deployments.apps": workloads.DeploymentStrategy(),
    "replicasets.apps": workloads.ReplicaSetStrategy(),
    "statefulsets.apps": workloads.StatefulSetStrategy(),
    "daemonsets.apps": workloads.DaemonSetStrategy(),
    "jobs.batch": workloads.JobStrategy(),
    "cronjobs.batch": workloads.CronJobStrategy(),
    "poddisruptionbudgets.policy": workloads.BudgetStrategy(),
    "configmaps": plain.ConfigMapStrategy(),
    "secrets": plain.SecretStrategy(),
    "services": plain.ServiceStrategy(),
    "persistentvolumeclaims": plain.VolumeClaimStrategy(),
    "persistentvolumes": plain.VolumeStrategy(),
    "storageclasses.storage.k8s.io": plain.StorageClassStrategy(),
    "csinodes.storage.k8s.io": plain.StrictStrategy(),
    "csidrivers.storage.k8s.io": plain.CsiDriverStrategy(),
    "volumeattachments.storage.k8s.io": plain.VolumeAttachmentStrategy(),
    "roles.rbac.authorization.k8s.io": plain.RoleStrategy(),
    "clusterroles.rbac.authorization.k8s.io": plain.RoleStrategy(),
    "rolebindings.rbac.authorization.k8s.io": plain.RoleBindingStrategy(),
    "clusterrolebindings.rbac.authorization.k8s.io": plain.RoleBindingStrategy(),
    "runtimeclasses.node.k8s.io": plain.RuntimeClassStrategy(),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": plain.MutatingWebhookStrategy(),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": plain.WebhookStrategy(),
    "validatingadmissionpolicies.admissionregistration.k8s.io": plain.PolicyStrategy(),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": plain.PolicyStrategy(),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": plain.PolicyStrategy(),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": plain.PolicyStrategy(),
    "customresourcedefinitions.apiextensions.k8s.io": plain.DefinitionStrategy(),
    "resourceclaims.resource.k8s.io": claims.ClaimStrategy(),
    "resourceclaimtemplates.resource.k8s.io": claims.ClaimTemplateStrategy(),
    "resourceslices.resource.k8s.io": devices.SliceStrategy(),
    "deviceclasses.resource.k8s.io": devices.DeviceClassStrategy(),
}
_PLAIN = Strategy()


def strategy_for(kind: Kind) -> Strategy:
    if kind.custom:
        return _custom(kind.group_resource, kind)
    return _BY_RESOURCE.get(kind.store_name, _PLAIN)


@cache
def _custom(_name: str, kind: Kind) -> Strategy:
    return plain.CustomStrategy(kind.custom or {})
