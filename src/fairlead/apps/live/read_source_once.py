"""Asking a source once, for programs that look at a cluster and are done."""

from fairlead.cluster.cluster import Cluster
from fairlead.model.readings import NodeReadings
from fairlead.telemetry.sources import ReadCounts, Source, SourceFault
from fairlead.telemetry.sources.alnair import Annotations


async def take_once(source: Source, cluster: Cluster) -> tuple[list[NodeReadings], str]:
    """Its readings of the nodes of the cluster, and what went wrong, if anything did."""
    nodes = [cluster.node_at(row) for row in cluster.row_of.values()]
    if isinstance(source, Annotations):
        for node in nodes:
            source.put(node.name, node.annotations)
    counts, taken = ReadCounts(), list[NodeReadings]()
    try:
        async for readings in source.take({node.name: node.address for node in nodes}, counts):
            taken.append(readings)
    except SourceFault as fault:
        return [], f"{source.name}: {fault}"
    return taken, f"{source.name}: {counts.problem}" if counts.problem else ""
