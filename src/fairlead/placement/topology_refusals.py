"""What the best domain lacks for a gang whose topology rules cannot be kept now."""

from dataclasses import replace

import numpy as np

from fairlead.cluster.arrays import PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.topology_levels import DomainTree
from fairlead.model.gangs import TopologyRule
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.topology import short
from fairlead.placement.gang_part import GangPart
from fairlead.placement.gang_topology import GangPlans
from fairlead.placement.topology_solver import domain_room, domains_allowed, limits_of


@dataclass(frozen=True, slots=True)
class TopologyRefusal:
    message: str
    #: How long the gang will have waited when a rule with patience allows more; None if it would
    #: not fit then.
    next_s: float | None = None


def refusal_of(plans: GangPlans, cluster: Cluster) -> TopologyRefusal:
    """Call it when no plan worked out."""
    rules = tuple(plans.part.every_rule)
    later = [due for rule in rules if (due := _allows_more_s(rule, plans.waited_s)) is not None]
    next_s = min(later, default=None)
    message = next(
        filter(None, (_lacking(plans, part, cluster) for part in _parts(plans.part)[:_MOST_PARTS])),
        "",
    )
    message = "; ".join([message or _ANYWHERE, *plans.tree.topology.problems])
    if next_s is None or (plans.part.count <= _MOST_PARTS and not plans.fits_after(_FOR_EVER_S)):
        return TopologyRefusal(message)
    return TopologyRefusal(f"{message}; it waits until its patience ends", next_s)


#: Parts that are looked at, in turn: what they lack, and whether they would fit later.
_MOST_PARTS = 16
#: More than any patience, and few enough for whole numbers.
_FOR_EVER_S = 1e15
_ANYWHERE = "its groups do not fit together under their topology rules"


def _parts(part: GangPart) -> list[GangPart]:
    return [part, *(each for inner in part.parts for each in _parts(inner))]


def _allows_more_s(rule: TopologyRule, waited_s: float) -> float | None:
    """After which time the rule allows more domains than now."""
    if not rule.patience_s:
        return None
    if rule.required:
        return rule.patience_s * (1 + waited_s // rule.patience_s)
    return rule.patience_s if waited_s < rule.patience_s else None


def _lacking(plans: GangPlans, part: GangPart, cluster: Cluster) -> str:
    """About the narrowest level whose domains are limited; empty if that is not the reason."""
    limits = limits_of(part.rules, plans.tree, plans.waited_s)
    if not part.every_pod or not limits.most:
        return ""
    level = max(limits.most)
    rule = next(r for r in part.rules if plans.tree.place(r.level) == level)
    allowed = domains_allowed(rule, plans.waited_s) or 1
    _, inside = plans.tree.at(level)
    name = _level_name(plans.tree, level)
    if not inside.any():
        return f"no node has the label {_label(plans.tree, level)}"
    room = _room(plans, part, level)
    order = np.argsort(-room, kind="stable")
    best, pods = int(room[order[:allowed]].sum()), len(part.every_pod)
    if best >= pods:
        return ""
    if not best and not len(plans.bound(part)):
        return f"no {name} has room for any of its pods"
    where = _domain_name(plans.tree, level, int(order[0]), cluster)
    several = f"the best {allowed} {name}s have" if allowed > 1 else f"{name} {where} has"
    domains, _ = plans.tree.at(level)
    free_milli = int(plans.room.gpus_milli()[np.isin(domains, order[:allowed]) & inside].sum())
    short_of = _amount(plans, part, best, free_milli)
    more = f"{short_of} in {'one' if allowed == 1 else 'these'} {name}{'s' * (allowed > 1)}"
    fits = np.cumsum(room[order]) >= pods
    preferred = f"; it would fit in {int(np.argmax(fits)) + 1} {name}s" if fits.any() else ""
    return f"{several} room for {best} of {pods} pods; {more} would do{preferred}"


def _room(plans: GangPlans, part: GangPart, level: int) -> PerNode:
    """Pods that each domain has room for, each kind for itself."""
    _, inside = plans.tree.at(level)
    plans.room.given = {}
    bound = plans.bound(part)
    total: PerNode | None = None
    for pods in plans.classes(part.every_pod):
        question = replace(plans.question(part, pods), limits=limits_of((), plans.tree, 0.0))
        room = np.minimum(domain_room(question, level, (question.room > 0) & inside), len(pods))
        total = room if total is None else total + room
    assert total is not None
    bound = bound[inside[bound]]
    if len(bound):
        domains, _ = plans.tree.at(level)
        total = np.where(np.isin(np.arange(len(total)), domains[bound]), total, 0)
    return total


def _amount(plans: GangPlans, part: GangPart, fitting: int, free_milli: int) -> str:
    """What the other pods take: GPUs if too few are free, else places for pods."""
    more, sizes = len(part.every_pod) - fitting, {plans.gpus_of(pod) for pod in part.every_pod}
    if len(sizes) == 1 and (milli := sizes.pop()) and free_milli - fitting * milli < more * milli:
        gpus = (len(part.every_pod) * milli - free_milli) / WHOLE
        return f"{gpus:g} more GPU{'s' * (gpus != 1)}"
    return f"room for {more} more pod{'s' * (more != 1)}"


def _label(tree: DomainTree, level: int) -> str:
    return "kubernetes.io/hostname" if level == tree.depth else tree.topology.labels[level]


def _level_name(tree: DomainTree, level: int) -> str:
    if level == tree.depth:
        return "node"
    found = tree.topology.levels[level]
    return found.name or short(found.label)


def _domain_name(tree: DomainTree, level: int, domain: int, cluster: Cluster) -> str:
    """The value of its label; with those above if another domain has the same value."""
    domains, inside = tree.at(level)
    row = int(np.flatnonzero((domains == domain) & inside)[:1].sum())
    if level == tree.depth:
        node = cluster.columns.nodes[domain]
        return node.name if node else ""
    path = [_value(tree, each, row, cluster) for each in range(level + 1)]
    same = {
        int(domains[other])
        for other in np.flatnonzero(inside).tolist()
        if _value(tree, level, other, cluster) == path[-1]
    }
    return "/".join(filter(None, path)) if len(same) > 1 else path[-1]


def _value(tree: DomainTree, level: int, row: int, cluster: Cluster) -> str:
    label, node = tree.topology.labels[level], cluster.columns.nodes[row]
    if node is None:
        return ""
    members = tree.topology.members.get(label)
    return (node.labels if members is None else {label: members.get(node.name, "")}).get(label, "")
