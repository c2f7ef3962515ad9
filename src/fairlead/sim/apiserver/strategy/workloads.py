"""Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and PodDisruptionBudgets."""

from typing import Any, ClassVar

from fairlead.base.names import label_problems
from fairlead.sim.apiserver.selectors import matches
from fairlead.sim.apiserver.status import Cause, forbidden_field, invalid, required, unsupported
from fairlead.sim.apiserver.strategy.base import SpecStrategy, immutable
from fairlead.sim.apiserver.strategy.podspec import (
    canonical_quantities,
    default_spec,
    validate_spec,
)

Object = dict[str, Any]


class WorkloadStrategy(SpecStrategy):
    """A kind that makes pods from a template."""

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        template = spec.setdefault("template", {})
        template.setdefault("metadata", {})
        pod = template.setdefault("spec", {})
        canonical_quantities(pod)
        default_spec(pod)
        self.default_workload(spec)

    def default_workload(self, spec: Object) -> None:
        spec.setdefault("replicas", 1)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = self.validate_meta(obj)
        if spec.get("replicas", 0) < 0:
            why = "must be greater than or equal to 0"
            causes.append(invalid("spec.replicas", spec["replicas"], why))
        return causes + self._validate_template(spec)

    def _validate_template(self, spec: Object) -> list[Cause]:
        selector = spec.get("selector")
        causes = []
        labels = spec["template"]["metadata"].get("labels") or {}
        if selector is None:
            causes.append(required("spec.selector"))
        if selector == {}:
            why = "empty selector is invalid for " + self.what
            causes.append(invalid("spec.selector", selector, why))
        elif not matches(selector, labels):
            why = "`selector` does not match template `labels`"
            causes.append(invalid("spec.template.metadata.labels", labels, why))
        causes += validate_spec(spec["template"]["spec"], "spec.template.spec")
        policy = spec["template"]["spec"].get("restartPolicy")
        if policy in ("OnFailure", "Never"):
            causes.append(unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
        return causes

    what = "deployment"

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return immutable(new, old, "spec.selector")


class DeploymentStrategy(WorkloadStrategy):
    def default_workload(self, spec: Object) -> None:
        super().default_workload(spec)
        strategy = spec.setdefault("strategy", {})
        strategy.setdefault("type", "RollingUpdate")
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)


class ReplicaSetStrategy(WorkloadStrategy):
    what = "replicaset"
    first_status: ClassVar[Object] = {"replicas": 0}


class StatefulSetStrategy(WorkloadStrategy):
    what = "statefulset"
    first_status: ClassVar[Object] = {"replicas": 0, "availableReplicas": 0}
    _FREE = frozenset(
        {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
         "persistentVolumeClaimRetentionPolicy", "minReadySeconds"}
    )  # fmt: skip

    def default_workload(self, spec: Object) -> None:
        super().default_workload(spec)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        update = spec.setdefault("updateStrategy", {})
        update.setdefault("type", "RollingUpdate")
        if update["type"] == "RollingUpdate":
            update.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("serviceName", "")
        policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        policy.setdefault("whenDeleted", "Retain")
        policy.setdefault("whenScaled", "Retain")
        for claim in spec.get("volumeClaimTemplates", []):
            claim.update(kind="PersistentVolumeClaim", apiVersion="v1")
            claim["spec"].setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {"phase": "Pending"})

    def name_problems(self, name: str) -> list[str]:
        return label_problems(name)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        before = {name: value for name, value in old["spec"].items() if name not in self._FREE}
        after = {name: value for name, value in new["spec"].items() if name not in self._FREE}
        if before == after:
            return []
        why = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden"
        )
        return [forbidden_field("spec", why)]


class DaemonSetStrategy(WorkloadStrategy):
    what = "daemonset"
    first_status: ClassVar[Object] = {
        "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
        "numberReady": 0,
    }  # fmt: skip

    def default_workload(self, spec: Object) -> None:
        update = spec.setdefault("updateStrategy", {})
        update.setdefault("type", "RollingUpdate")
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["metadata"].setdefault("annotations", {})[
            "deprecated.daemonset.template.generation"
        ] = "1"


class JobStrategy(SpecStrategy):
    """Jobs generate their selector unless `manualSelector` is set."""

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_job(spec)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        spec, uid = obj["spec"], obj["metadata"]["uid"]
        if spec.get("manualSelector"):
            return
        labels = spec["template"]["metadata"].setdefault("labels", {})
        name = obj["metadata"]["name"]
        labels |= {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector["batch.kubernetes.io/controller-uid"] = uid
        obj["metadata"].setdefault("labels", dict(labels))

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj["spec"]
        causes = self.validate_meta(obj)
        for name in ("parallelism", "completions", "backoffLimit"):
            if spec.get(name, 0) < 0:
                why = "must be greater than or equal to 0"
                causes.append(invalid(f"spec.{name}", spec[name], why))
        if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
            why = "when completion mode is Indexed"
            causes.append(required("spec.completions", why))
        causes += validate_spec(spec["template"]["spec"], "spec.template.spec")
        policy = spec["template"]["spec"].get("restartPolicy")
        if policy == "Always":
            wanted = ("OnFailure", "Never")
            causes.append(
                Cause(
                    "spec.template.spec.restartPolicy",
                    "FieldValueRequired",
                    f'Required value: valid values: "{wanted[0]}", "{wanted[1]}"',
                )
            )
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = immutable(new, old, "spec.selector") + immutable(new, old, "spec.completionMode")
        if not old["spec"].get("suspend"):
            causes += immutable(new, old, "spec.template")
        if new["spec"].get("completionMode") != "Indexed":
            causes += immutable(new, old, "spec.completions")
        return causes


def default_job(spec: Object) -> None:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod = template.setdefault("spec", {})
    canonical_quantities(pod)
    default_spec(pod)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


class CronJobStrategy(SpecStrategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        job = template.setdefault("spec", {})
        pod = job.setdefault("template", {"metadata": {}, "spec": {}})
        default_spec(pod.setdefault("spec", {}))


class BudgetStrategy(SpecStrategy):
    """PodDisruptionBudgets."""

    allows_blind_update = False

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        zero = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
        obj["status"] = dict.fromkeys(zero, 0)

    def validate(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes = self.validate_meta(obj)
        if "minAvailable" in spec and "maxUnavailable" in spec:
            why = "minAvailable and maxUnavailable cannot be both set"
            causes.append(invalid("spec", spec, why))
        for name in ("minAvailable", "maxUnavailable"):
            if isinstance(spec.get(name), int) and spec[name] < 0:
                why = "must be greater than or equal to 0"
                causes.append(invalid(f"spec.{name}", spec[name], why))
        return causes
