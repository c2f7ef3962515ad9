"""How many equal pods could be placed at most: a bound that needs no trial."""

import numpy as np

from fairlead.cluster.arrays import PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.model.quantities import PODS
from fairlead.placement.views import View


def copies(view: View, cluster: Cluster, most: int) -> PerNode:
    """For each row, how many pods of the view's request its amounts allow, up to `most`.

    Rules that pods of one gang break among themselves are left out, so there may be fewer.
    """
    if view.pre_filter_message:
        return np.zeros(len(view.left), dtype=np.int64)
    found = np.where(view.left, most, 0)
    for name, amount in ((PODS, 1), *view.request.resources):
        if amount > 0:
            found = np.minimum(found, np.maximum(cluster.nodes.free(name), 0) // amount)
    return found
