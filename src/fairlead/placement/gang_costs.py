"""What a gang costs on its nodes by the goals of its profile, level by level."""

from collections.abc import Iterable, Mapping
from math import inf

from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.solver import CostLevel
from fairlead.placement.place import Placement
from fairlead.plugins.goals import GoalLevel


def levels_of(placement: Placement) -> tuple[GoalLevel, ...]:
    return placement.profile.goals.levels if placement.profile.goals else ()


def cost_levels(levels: Iterable[GoalLevel], pods: int) -> tuple[CostLevel, ...]:
    """For so many pods together."""
    return tuple(CostLevel(level.tolerance, level.slack * pods) for level in levels)


def gang_costs(
    placed: Iterable[tuple[Pod, str]], cluster: Cluster, placements: Mapping[str, Placement]
) -> tuple[float, ...]:
    """What pods cost together on these nodes as they are, by level of the first one's goals."""
    rows_of: dict[PodRequest, list[int]] = {}
    levels: tuple[GoalLevel, ...] | None = None
    for pod, node in placed:
        levels = levels_of(placements[pod.scheduler]) if levels is None else levels
        request = placements[pod.scheduler].request(pod)
        rows_of.setdefault(request, []).append(cluster.row_of[node])
    found = []
    for level in levels or ():
        total, first = 0.0, dict[int, float]()
        for request, rows in rows_of.items():
            each, once = level.by_pod_and_node(request, cluster.nodes)
            total += float(each[rows].sum())
            for row in rows:
                first[row] = min(first.get(row, inf), float(once[row]))
        found.append(total + sum(first.values()))
    return tuple(found)
