"""Gangs whose pods have channels of a ComputeDomain of NVIDIA: their nodes belong in one clique.

Pods exchange memory by such a channel only between nodes of one NVLink domain, which NVIDIA's
driver reports in a label of each node. A gang with topology rules of its own keeps to them alone.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.compute_domains import channels_of, domain_uid
from fairlead.model.compute_domains import CLIQUE, ComputeDomain
from fairlead.model.gangs import TopologyRule
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.gang_part import has_topology
from fairlead.placement.place import Placement
from fairlead.queue.units import Gang

#: This very tuple is the rule that is added here; an equal one is a rule of the gang itself.
_IN_ONE_CLIQUE = (TopologyRule(CLIQUE),)

_NO_DOMAIN = "its ComputeDomain does not exist; create it, and then the pod again"


def keep_in_clique(gang: Gang, cluster: Cluster) -> None:
    """The gang has the rule as long as nodes have cliques and a claim of it is for a channel."""
    if gang.spec.topology is _IN_ONE_CLIQUE:
        gang.spec = replace(gang.spec, topology=())
    if not cluster.claims.claims or not any(pod.request.claims for pod in gang.pods):
        return
    if has_topology(gang.spec) or not _has_cliques(cluster):
        return
    if any(_has_channel(pod, cluster) for pod in gang.pods):
        gang.spec = replace(gang.spec, topology=_IN_ONE_CLIQUE)


def _has_cliques(cluster: Cluster) -> bool:
    return bool(cluster.columns.label(CLIQUE).code_of)


def _has_channel(pod: Pod, cluster: Cluster) -> bool:
    return any(True for _ in channels_of(pod, cluster.claims))


@dataclass(frozen=True, slots=True)
class DomainOutlook:
    """What is known of the domain of a pod, and what is missing for its pods to exchange memory."""

    #: None: the domain of the channel does not exist.
    domain: ComputeDomain | None
    #: Claims for channels of the domain.
    channels: int
    missing: tuple[str, ...]


def domain_outlooks(
    pod: Pod, gang: Gang | None, cluster: Cluster, placement: Placement | None
) -> Sequence[DomainOutlook]:
    """One for each domain whose channels the pod uses; nothing changes."""
    found = {domain.key if domain else "": (use.key, domain)
             for use, domain in channels_of(pod, cluster.claims)}  # fmt: skip
    of_cliques = () if pod.node else tuple(_of_cliques(pod, gang, cluster, placement))
    return [_outlook(key, domain, pod, cluster, of_cliques) for key, domain in found.values()]


def _outlook(
    key: str,
    domain: ComputeDomain | None,
    pod: Pod,
    cluster: Cluster,
    of_cliques: tuple[str, ...],
) -> DomainOutlook:
    if domain is None:
        return DomainOutlook(None, 0, (_NO_DOMAIN,))
    named = (each for each in cluster.claims.claims.values() if each.namespace == pod.namespace)
    channels = sum(domain_uid(each) == domain.uid for each in named)
    has_claim = bool(key or pod.node)
    missing = (*_of_domain(domain, channels, has_claim=has_claim), *of_cliques)
    return DomainOutlook(domain, channels, missing)


def _of_domain(domain: ComputeDomain, channels: int, *, has_claim: bool) -> Iterator[str]:
    if domain.problem:
        yield domain.problem
    if domain.deleting:
        yield "it is being deleted"
    if not has_claim:
        yield (
            f"the claim for its channel is not made yet: NVIDIA's driver makes the template "
            f"{domain.template}, and kube-controller-manager the claim"
        )
    if channels < domain.num_nodes:
        yield (
            f"{domain.num_nodes} nodes are to join (numNodes), and {channels} pod(s) use its "
            "channels: create the others, or it does not become ready"
        )


def _of_cliques(
    pod: Pod, gang: Gang | None, cluster: Cluster, placement: Placement | None
) -> Iterator[str]:
    """Why the pods could be on nodes that exchange no memory, or find no such nodes."""
    if not _has_cliques(cluster):
        yield f"no node has the label {CLIQUE}: its pods may be placed on nodes without NVLink"
        return
    if gang is None:
        yield "the pod is in no gang: cliques are not considered for it"
        return
    if has_topology(gang.spec) and gang.spec.topology is not _IN_ONE_CLIQUE:
        yield "its gang has topology rules of its own: cliques are considered only if they say so"
        return
    if placement is None or gang.placed:
        return
    most, clique = _largest_clique(placement.view(pod).left, cluster)
    if most < gang.needed:
        where = f" ({clique})" if clique else ""
        yield f"at most {most} node(s) of one clique{where} fit, and {gang.needed} are needed"


def _largest_clique(fits: NodeMask, cluster: Cluster) -> tuple[int, str]:
    """How many of these nodes are in the clique that has most of them, and its name."""
    label = cluster.columns.label(CLIQUE)
    names = {code: name for name, code in label.code_of.items()}
    codes = label.codes(slice(0, len(fits)))[fits & cluster.nodes.present()]
    (code, most), *_ = Counter(codes[codes >= 0].tolist()).most_common(1) or [(-1, 0)]
    return most, names.get(code, "")
