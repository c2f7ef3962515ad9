"""Required affinity, asked about all nodes at once.

Each question may be asked about things as they are, or (`below` a priority) as they would be on
each node if the pods below that priority had left this node and no other.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.pod_index import PodQuery
from fairlead.model.pods import PodRequest
from fairlead.model.selectors import PodTerm


def affinity_matches(request: PodRequest, nodes: Nodes, below: int | None = None) -> NodeMask:
    """Each term's domain must hold a pod that all the terms mean."""
    keyed, found = nodes.all(), nodes.all()
    if not request.required_affinity:
        return found
    query = PodQuery(request.required_affinity)
    meant = nodes.pods_meant(query)
    gone = None if below is None else nodes.pods_meant(replace(query, below=below))
    counted = nodes.none()
    for key in dict.fromkeys(term.topology_key for term in request.required_affinity):
        has_key = nodes.has_label(key)
        keyed &= has_key
        found &= in_domain(key, meant, nodes, gone)
        counted |= has_key
    if gone is None and found.any():  # so a pod that is meant is somewhere
        return keyed & found
    anywhere = meant[counted].sum() - (0 if gone is None else np.where(counted, gone, 0))
    # The first of its kind could never start if it had to wait for another.
    if nodes.means_itself(request, request.required_affinity):
        found |= anywhere <= 0
    return keyed & found


def anti_affinity_matches(request: PodRequest, nodes: Nodes, below: int | None = None) -> NodeMask:
    found = nodes.none()
    for key, terms in by_key(request.anti_affinity).items():
        counts = meant_by_any(terms, nodes)
        gone = None if below is None else meant_by_any(terms, nodes, below)
        found |= in_domain(key, counts, nodes, gone)
    return found


def existing_anti_affinity_matches(
    request: PodRequest, nodes: Nodes, below: int | None = None
) -> NodeMask:
    found = nodes.none()
    gone: dict[str, PerNode] = {}
    holders = nodes.existing_anti_affinity_by_key(request)
    if below is not None:
        gone = {key: np.zeros(len(nodes), dtype=np.int64) for key in holders}
        for term, row in nodes.holding(
            {term for term, _ in nodes.existing_anti_affinity(request)}, below
        ):
            gone[term.topology_key][row] += 1
    for key, counts in holders.items():
        found |= in_domain(key, counts, nodes, gone.get(key))
    return found


def by_key(terms: Iterable[PodTerm]) -> dict[str, list[PodTerm]]:
    found: dict[str, list[PodTerm]] = {}
    for term in terms:
        found.setdefault(term.topology_key, []).append(term)
    return found


def meant_by_any(terms: list[PodTerm], nodes: Nodes, below: int | None = None) -> PerNode:
    """Pods on each node, each counted once for every term that means it."""
    queries = [PodQuery((term,), below=below) for term in terms]
    nodes.prepare_counts(queries)
    if len(queries) == 1:
        return nodes.pods_meant(queries[0])
    counts = np.zeros(len(nodes), dtype=np.int64)
    for query in queries:
        counts += nodes.pods_meant(query)
    return counts


def in_domain(key: str, counts: PerNode, nodes: Nodes, gone: PerNode | None = None) -> NodeMask:
    """True where the node's domain holds at least one of the pods counted.

    Those that are gone from the node itself do not count for it.
    """
    domains = nodes.domains(key)
    if gone is not None:
        return (domains >= 0) & (sum_of_domain(key, counts, nodes) > gone)
    taken = np.zeros(int(domains.max(initial=-1)) + 2, dtype=np.bool_)
    taken[domains[counts > 0]] = True
    taken[-1] = False  # nodes without the label are in no domain
    found: NodeMask = taken[domains]
    return found


def sum_of_domain(key: str, counts: PerNode, nodes: Nodes) -> PerNode:
    """For each node the sum over its domain; 0 without the label."""
    domains = nodes.domains(key)
    keyed = domains >= 0
    sums = np.bincount(domains[keyed], counts[keyed], minlength=int(domains.max(initial=-1)) + 2)
    found: PerNode = np.where(keyed, sums[domains], 0).astype(np.int64)
    return found
