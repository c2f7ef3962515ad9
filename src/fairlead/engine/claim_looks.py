"""Units with resource claims: nodes are looked at for them before they are tried, turn by turn.

The first look at many devices takes long. What is found in a turn is kept, so the next one goes on.
"""

from collections.abc import Iterable, Mapping

from fairlead.claims.errors import LookUnfinished
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement


class ClaimLooks:
    """Looks, one slice for each turn."""

    def __init__(self, cluster: Cluster, placements: Mapping[str, Placement]) -> None:
        self._cluster, self._placements = cluster, placements

    def are_done(self, pods: Iterable[Pod]) -> bool:
        """Looks at more nodes for the claims of the pods; whether nothing is left to look at."""
        claims = self._cluster.claims
        asking = [pod for pod in pods if pod.request.claims and not pod.problem]
        if not asking:
            return True
        try:
            with claims.inventory.turn.limited():
                for pod in asking:
                    self._placements[pod.scheduler].view(pod)
        except LookUnfinished:
            return False
        except Exception:  # let the attempt itself fail, where it is reported
            return True
        return True
