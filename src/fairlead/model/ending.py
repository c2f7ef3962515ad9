"""Nodes that end soon, or are not there yet, by what autoscalers and clouds write on them.

A taint keeps away only pods that do not tolerate it, and many GPU pods tolerate all taints. So
these signals count whatever a pod tolerates.
"""

from collections.abc import Iterable, Mapping

from fairlead.model.pods import Effect, Taint

#: Keys of taints, whatever their value and effect (except that soft ones only advise).
TAINTS = frozenset({
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "karpenter.sh/unregistered",
    "ToBeDeletedByClusterAutoscaler",
    "cloud.google.com/impending-node-termination",
    "remediator.kubernetes.azure.com/unschedulable",
    "node.kubernetes.io/out-of-service",
})  # fmt: skip
#: The AWS Node Termination Handler has a taint for each kind of event.
TAINT_PREFIX = "aws-node-termination-handler/"
#: A label with this value.
LABELS = (("cloud.google.com/active-node-maintenance", "ONGOING"),)
#: An annotation, whatever its value.
ANNOTATIONS = ("karpenter.sh/nodeclaim-termination-timestamp",)


def ending_sign(
    taints: Iterable[Taint], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> str:
    """The taint, label or annotation that says that a node ends; empty if none does."""
    for taint in taints:
        is_known = taint.key in TAINTS or taint.key.startswith(TAINT_PREFIX)
        if is_known and taint.effect != Effect.PREFER_NO_SCHEDULE:
            return f"taint {taint.key}"
    for key, value in LABELS:
        if labels.get(key) == value:
            return f"label {key}={value}"
    return next((f"annotation {key}" for key in ANNOTATIONS if key in annotations), "")
