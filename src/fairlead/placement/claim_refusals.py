"""What becomes of the claims of a pod that no node fits: one of them may be deallocated.

This is what kube-scheduler's plugin does before others are evicted. A claim that is allocated where
the pod cannot go is freed if no other pod uses it, one in each attempt.
"""

from dataclasses import replace

from fairlead.cluster.claim_outlook import claims_of, elsewhere, told
from fairlead.cluster.claim_search import AWAY
from fairlead.cluster.cluster import Cluster
from fairlead.model.claims import ResourceClaim
from fairlead.model.extended import extended_use
from fairlead.model.pods import Pod
from fairlead.placement.preempt import NEVER, NOT_HELPFUL
from fairlead.placement.scope import Scope
from fairlead.placement.verdicts import DELETED, FREED, NOT_FREED, Refused, unavailable
from fairlead.placement.views import View
from fairlead.plugins.dynamic_resources import DynamicResources


def with_claims(
    refused: Refused, pod: Pod, view: View, filters: int, cluster: Cluster, scope: Scope
) -> Refused:
    """The refusal of a pod with claims; `filters` come before that of claims."""
    if view.pre_filter_message:
        if not isinstance(view.pre_filter_rule, DynamicResources):
            return refused
        nodes = refused.nodes
        text = unavailable(nodes, {NOT_HELPFUL: nodes}) if pod.preempts else NEVER
        return replace(refused, no_eviction=text, behaviour=cluster.behaviour)
    if left := _leftover(pod, cluster):
        return replace(refused, frees=left, claim_note=DELETED)
    claim = _freed(pod, view, filters, cluster, scope)
    return replace(refused, frees=claim, claim_note=FREED if claim else NOT_FREED)


def _leftover(pod: Pod, cluster: Cluster) -> ResourceClaim | None:
    """A claim that an earlier attempt made for extended resources of the pod."""
    if extended_use(pod.request.claims) is None:
        return None
    return next(iter(cluster.claims.extended.claims_of(pod.key, pod.uid)), None)


def _freed(
    pod: Pod, view: View, filters: int, cluster: Cluster, scope: Scope
) -> ResourceClaim | None:
    """The first claim that is of no use on a node that would do otherwise."""
    nodes, uses = cluster.nodes, view.request.claims
    asked = scope.rows() & view.allowed[:filters].all(axis=0)
    away = nodes.only(asked & (told(uses, nodes) == AWAY))
    if not len(away):
        return None
    claims = claims_of(uses, cluster.claims) or ()
    unused = (each for each in claims if each.allocation and _is_unused(each, pod, cluster))
    return next((each for each in unused if elsewhere(each, away).any()), None)


def _is_unused(claim: ResourceClaim, pod: Pod, cluster: Cluster) -> bool:
    """No other pod uses it. A claim of a PodGroup may have pods that it does not name."""
    others = [user for user in claim.reserved_for if user.uid != pod.uid]
    groups = {use.group.partition("/")[2] for use in pod.request.claims if use.key == claim.key}
    if any(not user.is_group or user.name not in groups for user in others):
        return False
    return not (others and any(_uses(held.pod, claim) for held in cluster.holdings.values()))


def _uses(pod: Pod, claim: ResourceClaim) -> bool:
    return any(use.key == claim.key for use in pod.request.claims)
