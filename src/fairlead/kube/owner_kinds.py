"""Kinds of controllers whose deadlines count, and which of them create each other's objects.

A pod names its controller by kind and name. A controller may itself be created by another one: a
Job of a JobSet of a TrainJob, or a RayCluster of a RayJob. The chart grants the right to get these.
"""

from collections.abc import Mapping

from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.object_kinds import ObjectKind

_V1 = ("v1",)
_KUBEFLOW = "kubeflow.org"
#: By kind.
OWNER_KINDS: Mapping[str, ObjectKind] = {
    each.kind: each
    for each in (
        ObjectKind("batch", _V1, "jobs", "Job"),
        ObjectKind("jobset.x-k8s.io", ("v1alpha2",), "jobsets", "JobSet"),
        ObjectKind("trainer.kubeflow.org", ("v1alpha1",), "trainjobs", "TrainJob"),
        ObjectKind("ray.io", _V1, "rayclusters", "RayCluster"),
        ObjectKind("ray.io", _V1, "rayjobs", "RayJob"),
        ObjectKind(_KUBEFLOW, ("v2beta1", "v1"), "mpijobs", "MPIJob"),
        ObjectKind(_KUBEFLOW, _V1, "pytorchjobs", "PyTorchJob"),
        ObjectKind(_KUBEFLOW, _V1, "tfjobs", "TFJob"),
        ObjectKind(_KUBEFLOW, _V1, "jaxjobs", "JAXJob"),
        ObjectKind(_KUBEFLOW, _V1, "paddlejobs", "PaddleJob"),
        ObjectKind(_KUBEFLOW, _V1, "xgboostjobs", "XGBoostJob"),
    )
}
#: Its kind is that of a Job of Kubernetes, which is read first.
VOLCANO_JOB = ObjectKind("batch.volcano.sh", ("v1alpha1",), "jobs", "Job")


def owner_paths(namespace: str, kind: str, name: str) -> list[str]:
    """Where the object may be; empty if the kind is none of these."""
    found = OWNER_KINDS.get(kind)
    if found is None:
        return []
    kinds = (found, VOLCANO_JOB) if kind == VOLCANO_JOB.kind else (found,)
    return [
        named(in_namespace(f"/apis/{each.group}/{version}", namespace, each.plural), name)
        for each in kinds
        for version in each.versions
    ]
