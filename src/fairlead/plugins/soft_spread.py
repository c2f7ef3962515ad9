"""How well a node serves the spreading that a pod would like (ScheduleAnyway)."""

import math

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores, PerNode
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest
from fairlead.model.selectors import SpreadRule
from fairlead.plugins.normalising import turned_round
from fairlead.plugins.spreading import Rules, has_all_keys, matching, welcome

_HOSTNAME = "kubernetes.io/hostname"


def rated(
    rules: Rules, request: PodRequest, nodes: Nodes, left: NodeMask, *, lenient: bool = False
) -> NodeScores:
    """The fewer pods there are in a node's domains the better.

    A node that lacks a key gets 0, or (lenient) is looked at by the other rules only.
    """
    keyed = nodes.all() if lenient else has_all_keys(rules, nodes)
    compared = left & keyed
    if not compared.any():
        return np.zeros(len(nodes))
    burden = np.zeros(len(nodes))
    for rule in rules:
        burden += _burden(rule, request, nodes, compared, keyed & nodes.present())
    return turned_round(_rounded(burden), compared)


def _burden(
    rule: SpreadRule, request: PodRequest, nodes: Nodes, compared: NodeMask, counted: NodeMask
) -> NodeScores:
    """Pods in the node's domain. A domain among many weighs more, and a lax rule less."""
    pods = matching(rule, request, nodes)
    if rule.topology_key == _HOSTNAME:
        # Each node is its own domain, whatever its label says, and counts without conditions.
        size = int(np.count_nonzero(compared))
    else:
        domains = nodes.domains(rule.topology_key)  # without the label a domain, too: only its
        # size matters, since nothing is counted there
        size = len(np.unique(domains[compared]))
        there = np.flatnonzero(counted & (domains >= 0) & welcome(rule, request, nodes))
        sums = np.bincount(domains[there], pods[there], minlength=int(domains.max()) + 2)
        pods = sums[domains].astype(np.int64)
    burden = pods.astype(np.float64) * math.log(size + 2) + float(rule.max_skew - 1)
    return np.where(nodes.has_label(rule.topology_key), burden, 0.0)


def _rounded(numbers: NodeScores) -> PerNode:
    """Halves go up."""
    whole = np.floor(numbers)
    rounded: PerNode = (whole + (numbers - whole >= 0.5)).astype(np.int64)
    return rounded
