"""kube-scheduler's scores told slowly: one node after another, one pod after another.

Each takes a scene and gives a whole number for every node that is left, as the specification has
it. None of it looks at the columns that the plugins work on.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

from fairlead.model.nodes import Node
from fairlead.model.pods import NodeTerm, Pod
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement, SpreadRule

MIB = 1 << 20
HOST = "kubernetes.io/hostname"


@dataclass
class Scene:
    nodes: dict[str, Node]
    pods: list[Pod]  # on these nodes
    asks: Pod
    left: set[str]
    namespaces: dict[str, dict[str, str]]
    default_selector: LabelSelector | None = None

    def on(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods if pod.node == name]


# -- normalising ---------------------------------------------------------------------------------


def largest_100(counts: dict[str, int], *, reverse: bool) -> dict[str, int]:
    most = max(counts.values())
    if most == 0:
        return dict.fromkeys(counts, 100 if reverse else 0)
    scaled = {name: 100 * count // most for name, count in counts.items()}
    return {name: 100 - score for name, score in scaled.items()} if reverse else scaled


# -- one node at a time --------------------------------------------------------------------------


def taints(scene: Scene) -> dict[str, int]:
    counts = {}
    for name in scene.left:
        counts[name] = 0
        for taint in scene.nodes[name].taints:
            if taint.effect == "PreferNoSchedule":
                tolerated = [t for t in scene.asks.request.tolerations if t.tolerates(taint)]
                counts[name] += not tolerated
    return largest_100(counts, reverse=True)


def node_affinity(scene: Scene) -> dict[str, int]:
    counts = {}
    for name in scene.left:
        node = scene.nodes[name]
        wishes = scene.asks.request.preferred
        counts[name] = sum(wish.weight for wish in wishes if term_holds(wish.term, node))
    return largest_100(counts, reverse=False)


def term_holds(term: NodeTerm, node: Node) -> bool:
    if not term.labels and not term.fields:
        return False
    named = {"metadata.name": node.name}
    return all(line_holds(line, dict(node.labels)) for line in term.labels) and all(
        len(line.values) == 1
        and line.operator in ("In", "NotIn")
        and line.holds(named)
        for line in term.fields
    )  # fmt: skip


def line_holds(line: Requirement, labels: dict[str, str]) -> bool:
    if line.operator not in ("Gt", "Lt"):
        return line.holds(labels)
    try:
        value, bound = int(labels[line.key]), int(line.values[0])
    except (KeyError, ValueError):
        return False
    return value > bound if line.operator == "Gt" else value < bound


# -- resources -----------------------------------------------------------------------------------


def used_and_there(scene: Scene, name: str, resource: str, *, small_for_none: bool):
    """What the node's pods and the asking one take, without and with it, and what there is."""
    there = dict(scene.nodes[name].allocatable).get(resource, 0)
    asked = scene.asks.request.amount(resource)
    if asked == 0 and "/" in resource:
        there = 0  # nobody cares
    taken = sum(dict(pod.usage).get(resource, 0) for pod in scene.on(name))
    if small_for_none and resource in ("cpu", "memory"):
        which = ("cpu", "memory").index(resource)
        taken = sum(pod.request.scored[which] for pod in scene.on(name))
        asked = scene.asks.request.scored[which]
    return taken, taken + asked, there


def allocation(scene: Scene, weights: dict[str, int], share) -> dict[str, int]:
    scores = {}
    for name in scene.left:
        total = weighed = 0
        for resource, weight in weights.items():
            _, used, there = used_and_there(scene, name, resource, small_for_none=True)
            if there:
                total += weight * share(used, there)
                weighed += weight
        scores[name] = total // weighed if weighed else 0
    return scores


def least(used: int, there: int) -> int:
    return 0 if used > there else (there - used) * 100 // there


def most(used: int, there: int) -> int:
    return min(used, there) * 100 // there


def ratio(scene: Scene, weights: dict[str, int], shape) -> dict[str, int]:
    scores = {}
    for name in scene.left:
        total = weighed = 0
        for resource, weight in weights.items():
            _, used, there = used_and_there(scene, name, resource, small_for_none=True)
            if there:
                score = on_shape(shape, 100 if used > there else used * 100 // there)
                if score > 0:
                    total += weight * score
                    weighed += weight
        scores[name] = math.floor(total / weighed + 0.5) if weighed else 0
    return scores


def on_shape(shape, percent: int) -> int:
    corners = [(point.utilization, point.score * 10) for point in shape]
    if percent <= corners[0][0]:
        return corners[0][1]
    for (x0, y0), (x1, y1) in pairwise(corners):
        if percent <= x1:
            return y0 + math.trunc((y1 - y0) * (percent - x0) / (x1 - x0))
    return corners[-1][1]


def balance(scene: Scene, resources: list[str]) -> dict[str, int]:
    if not any(scene.asks.request.amount(resource) for resource in resources):
        return dict.fromkeys(scene.left, 0)
    scores = {}
    for name in scene.left:
        facts = [used_and_there(scene, name, r, small_for_none=False) for r in resources]
        before = evenness([(taken, there) for taken, _, there in facts])
        after = evenness([(used, there) for _, used, there in facts])
        scores[name] = 50 + (50 + after - before) // 2
    return scores


def evenness(facts: list[tuple[int, int]]) -> int:
    shares = [min(1.0, used / there) for used, there in facts if there]
    if len(shares) < 2:
        return 100
    if len(shares) == 2:
        return int((1 - abs(shares[0] - shares[1]) / 2) * 100)
    mean = sum(shares) / len(shares)
    return int((1 - math.sqrt(sum((s - mean) * (s - mean) for s in shares) / len(shares))) * 100)


# -- other pods ----------------------------------------------------------------------------------


def means(scene: Scene, term: PodTerm, pod: Pod) -> bool:
    if term.selector is None or not term.selector.matches(pod.labels):
        return False
    if pod.namespace in term.namespaces:
        return True
    labels = scene.namespaces.get(pod.namespace, {})
    return term.namespace_selector is not None and term.namespace_selector.matches(labels)


def pod_affinity(scene: Scene, hard_weight: int, ignore: bool) -> dict[str, int]:
    me = scene.asks
    if ignore and not me.request.preferred_affinity:
        return dict.fromkeys(scene.left, 0)
    credited: dict[tuple[str, str], int] = {}

    def credit(node: Node, key: str, weight: int) -> None:
        if key in node.labels:
            place = key, node.labels[key]
            credited[place] = credited.get(place, 0) + weight

    for other in scene.pods:
        node = scene.nodes[other.node]
        for term, weight in me.request.preferred_affinity:
            if means(scene, term, other):
                credit(node, term.topology_key, weight)
        for term, weight in other.request.preferred_affinity:
            if means(scene, term, me):
                credit(node, term.topology_key, weight)
        for term in other.request.required_affinity:
            if means(scene, term, me):
                credit(node, term.topology_key, hard_weight)
    sums = {
        name: sum(credited.get(place, 0) for place in scene.nodes[name].labels.items())
        for name in scene.left
    }
    low, high = min(sums.values()), max(sums.values())
    return {name: int(100.0 * ((s - low) / (high - low))) if high > low else 0
            for name, s in sums.items()}  # fmt: skip


def soft_spread(scene: Scene, rules: tuple[SpreadRule, ...], *, all_keys: bool) -> dict[str, int]:
    if not rules:
        return dict.fromkeys(scene.left, 0)

    def keyed(node: Node) -> bool:
        return not all_keys or all(rule.topology_key in node.labels for rule in rules)

    compared = [name for name in scene.left if keyed(scene.nodes[name])]
    burdens = dict.fromkeys(compared, 0.0)
    for rule in rules:
        domains = {scene.nodes[name].labels.get(rule.topology_key, "") for name in compared}
        size = len(compared) if rule.topology_key == HOST else len(domains)
        counts = dict.fromkeys(domains, 0)
        for name, node in scene.nodes.items():
            domain = node.labels.get(rule.topology_key, "")
            if keyed(node) and domain in domains and counted(scene, rule, node):
                counts[domain] += spread_pods(scene, rule, name)
        for name in compared:
            domain = scene.nodes[name].labels.get(rule.topology_key)
            if domain is not None:
                pods = counts[domain]
                if rule.topology_key == HOST:
                    pods = spread_pods(scene, rule, name)
                burdens[name] += pods * math.log(size + 2) + (rule.max_skew - 1)
    whole = {name: math.floor(burden + 0.5) for name, burden in burdens.items()}
    low, high = min(whole.values(), default=0), max(whole.values(), default=0)
    return dict.fromkeys(scene.left, 0) | {
        name: 100 * (high + low - burden) // high if high else 100 for name, burden in whole.items()
    }


def system_spread(scene: Scene) -> dict[str, int]:
    own = scene.asks.request.soft_spread
    if own:
        return soft_spread(scene, own, all_keys=True)
    default_selector = scene.default_selector
    if default_selector is None:
        return dict.fromkeys(scene.left, 0)
    rules = (
        SpreadRule(HOST, 3, default_selector),
        SpreadRule("topology.kubernetes.io/zone", 5, default_selector),
    )
    return soft_spread(scene, rules, all_keys=False)


def counted(scene: Scene, rule: SpreadRule, node: Node) -> bool:
    """May the rule count the pods of this node?"""
    request = scene.asks.request
    if rule.honours_affinity:
        if any(node.labels.get(key) != value for key, value in request.node_selector):
            return False
        terms = request.node_terms
        if terms is not None and not any(term_holds(term, node) for term in terms):
            return False
    if rule.honours_taints:
        for taint in node.taints:
            hard = taint.effect in ("NoSchedule", "NoExecute")
            if hard and not any(t.tolerates(taint) for t in request.tolerations):
                return False
    return True


def spread_pods(scene: Scene, rule: SpreadRule, name: str) -> int:
    if rule.selector is None or not rule.selector.lines:
        return 0
    return sum(
        not pod.deleting
        and pod.namespace == scene.asks.namespace
        and rule.selector.matches(pod.labels)
        for pod in scene.on(name)
    )


# -- images --------------------------------------------------------------------------------------


def images(scene: Scene) -> dict[str, int]:
    def size(name: str, image: str) -> int:
        found = [i.size_bytes for i in scene.nodes[name].images if image in i.names]
        return max(found, default=0)

    scores = {}
    for name in scene.left:
        saved = 0
        for image in scene.asks.images:
            holders = [other for other in scene.nodes if size(other, image)]
            saved += int(size(name, image) * (len(holders) / len(scene.nodes)))
        most_bytes = 1000 * MIB * scene.asks.containers
        saved = min(max(saved, 23 * MIB), most_bytes)
        scores[name] = 100 * (saved - 23 * MIB) // (most_bytes - 23 * MIB)
    return scores
