"""Which pods may be evicted for another pod: the one rule, for every search and every nomination.

The cluster has one rule for all of its pods (`Cluster.eviction_rule`). It is kept here, below
placement and queue, because nominations follow it, too: a pod leaves room for a nominated pod that
it may not evict.
"""

from collections.abc import Hashable
from typing import Protocol

from fairlead.model.pods import Pod


class EvictionRule(Protocol):
    """Answers from the two pods, and from facts that the rule itself keeps."""

    def may_evict(self, preemptor: Pod, pod: Pod) -> bool:
        """Whether the pod may be evicted so that the preemptor can run."""
        ...

    def priority_limit(self, preemptor: Pod) -> int | None:
        """The priority below which all pods may be evicted, and no others; None: it depends.

        With a limit, sums by priority are used, and filters can predict the effect of evictions
        on all nodes at once. Without one, pods are evaluated one by one.
        """
        ...

    def key(self, preemptor: Pod) -> Hashable:
        """Equal for preemptors that may evict the same pods."""
        ...


class ByPriority:
    """kube-scheduler's rule: pods of lower priority."""

    def may_evict(self, preemptor: Pod, pod: Pod) -> bool:
        return pod.priority < preemptor.priority

    def priority_limit(self, preemptor: Pod) -> int | None:
        return preemptor.priority

    def key(self, preemptor: Pod) -> Hashable:
        return preemptor.priority
