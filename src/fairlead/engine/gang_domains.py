"""Domains for gangs whose pods must be near each other by their own affinity terms.

The first pod decides on the domain, and by itself it would go where the others do not fit.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement

#: Domains that are tried.
_MOST = 16


def masks(
    pods: list[Pod], placements: Mapping[str, Placement], cluster: Cluster
) -> Iterator[NodeMask]:
    """Domains with room for the pods of the first that has such a term, the fullest first."""
    pod = next((pod for pod in pods if pod.request.required_affinity), None)
    if pod is None:
        return
    placement, key = placements[pod.scheduler], pod.request.required_affinity[0].topology_key
    count = sum(one.request == pod.request for one in pods)
    room = placement.copies(placement.request(pod), count)
    rows: dict[str, list[int]] = {}
    for row in cluster.row_of.values():
        domain = cluster.node_at(row).labels.get(key)
        if domain is not None:
            rows.setdefault(domain, []).append(row)
    sums = {domain: int(room[found].sum()) for domain, found in rows.items()}
    enough = sorted((total, domain) for domain, total in sums.items() if total >= count)
    for _, domain in enough[:_MOST]:
        mask = np.zeros(len(room), dtype=np.bool_)
        mask[rows[domain]] = True
        yield mask
