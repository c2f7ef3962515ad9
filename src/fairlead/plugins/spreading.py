"""What hard and soft spreading have in common: whom to count, and where."""

from dataclasses import replace

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.pod_index import query_in_namespace
from fairlead.model.pods import PodRequest
from fairlead.model.selectors import SpreadRule
from fairlead.plugins.node_affinity import NodeAffinity
from fairlead.plugins.taint_toleration import TaintToleration

Rules = tuple[SpreadRule, ...]


def has_all_keys(rules: Rules, nodes: Nodes) -> NodeMask:
    found = nodes.all()
    nodes.prepare_labels([rule.topology_key for rule in rules])
    for rule in rules:
        found &= nodes.has_label(rule.topology_key)
    return found


def welcome(rule: SpreadRule, request: PodRequest, nodes: Nodes) -> NodeMask:
    """Nodes that count at all: those where the pod could go, as far as the rule looks at that."""
    allowed = nodes.all()
    if rule.honours_affinity:
        allowed &= NodeAffinity().allows(request, nodes)
    if rule.honours_taints:
        allowed &= TaintToleration().allows(request, nodes)
    return allowed


def matching(
    rule: SpreadRule, request: PodRequest, nodes: Nodes, below: int | None = None
) -> PerNode:
    """How many pods on each node the rule counts; of those below a priority, if one is given."""
    if rule.selector is None or not rule.selector.lines:
        # kube-scheduler counts no pod for an empty selector, although it selects the pod itself.
        return np.zeros(len(nodes), dtype=np.int64)
    query = query_in_namespace(request.namespace, rule.selector)
    return nodes.pods_meant(query if below is None else replace(query, below=below))
