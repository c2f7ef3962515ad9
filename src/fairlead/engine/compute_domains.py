"""Gangs whose pods have channels of a ComputeDomain of NVIDIA: their nodes belong in one clique.

Pods exchange memory by such a channel only between nodes of one NVLink domain, which NVIDIA's
driver reports in a label of each node. A gang with topology rules of its own keeps to them alone.
"""

from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.model.claims import ResourceClaim
from fairlead.model.gangs import TopologyRule
from fairlead.placement.gang_part import has_topology
from fairlead.queue.units import Gang

#: The NVLink domain of a node, and the clique in it.
CLIQUE = "nvidia.com/gpu.clique"
_DRIVER = "compute-domain.nvidia.com"
_CHANNEL = '"ComputeDomainChannelConfig"'


def keep_in_clique(gang: Gang, cluster: Cluster) -> None:
    """Adds the rule, where nodes have cliques and a claim of the gang is for a channel."""
    if not cluster.claims.claims or not any(pod.request.claims for pod in gang.pods):
        return
    if has_topology(gang.spec) or not _has_channel(gang, cluster):
        return
    if len(cluster.columns.label(CLIQUE).code_of):
        gang.spec = replace(gang.spec, topology=(TopologyRule(CLIQUE),))


def _has_channel(gang: Gang, cluster: Cluster) -> bool:
    uses = (use for pod in gang.pods for use in pod.request.claims)
    return any(claim is not None and _is_for_channel(claim)
               for claim in map(cluster.claims.claim_of, uses))  # fmt: skip


def _is_for_channel(claim: ResourceClaim) -> bool:
    return any(each.driver == _DRIVER and _CHANNEL in each.parameters for each in claim.configs)
