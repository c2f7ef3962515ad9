"""In which domains room is looked for: those that a gang's required topology names."""

from collections.abc import Iterator, Mapping

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.placement.place import Placement
from fairlead.queue.units import Gang, Unit

#: Domains that are looked at: those with the most room first.
_MOST = 16


def domains_of(
    unit: Unit, cluster: Cluster, placements: Mapping[str, Placement]
) -> Iterator[NodeMask | None]:
    """Rows of each domain; None stands for all rows."""
    rule = None
    if isinstance(unit, Gang):
        rule = next((rule for rule in unit.spec.topology if rule.required), None)
    if rule is None:
        yield None
        return
    tree = cluster.topology.tree((rule.level,))
    level = tree.place(rule.level)
    if level is None:
        return
    codes, inside = tree.at(level)
    placement = placements[unit.pod.scheduler]
    room = placement.copies(placement.request(unit.pod), len(unit.pods))
    sums = np.bincount(codes[inside], weights=room[inside].astype(np.float64))
    for domain in np.argsort(-sums, kind="stable")[:_MOST]:
        mask: NodeMask = inside & (codes == domain)
        if mask.any():
            yield mask
