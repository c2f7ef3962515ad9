"""The fair shares of all queues, level by level from the top, kept up to date.

What a queue asks for is what it uses and what its pending units request, at most its limit, and so
on up the tree. What the cluster has is divided among the queues at the top, the share of each among
its children. A queue that has children and units of its own divides its share among them all, its
own units counting as one more child of weight 1.

A change of one queue divides again only the levels above it, and only if the shares there can
change: a queue that asks for more than its share before and after changes none.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from fairlead.model.queues import GPUS, GPUS_OF_MODEL, QueueSpec, Sharing
from fairlead.queue.quotas import peer_shares
from fairlead.queue.quotas.fair_share import Division, QueueDemand, divide
from fairlead.queue.quotas.share_node import ShareNode
from fairlead.queue.quotas.sums import TreeSums, amount_of
from fairlead.queue.quotas.tree import QueueTree

#: Shares are compared with amounts that are whole numbers.
_NEAR = 1e-6
_OWN_UNITS = QueueSpec("")

_RULES: dict[Sharing, Division] = {
    Sharing.KAI: peer_shares.kai,
    Sharing.PROPORTION: peer_shares.proportion,
    Sharing.RUNTIME: peer_shares.runtime,
    Sharing.FIRST_COME: peer_shares.first_come,
}


class FairShares:
    """To be told what changes, and asked for shares. It divides when it is asked."""

    def __init__(self, tree: QueueTree, used: TreeSums, pending: TreeSums) -> None:
        self._tree, self._used, self._pending = tree, used, pending
        self.totals: dict[str, float] = {}
        #: Resources of them that are one model of GPUs.
        self._models: list[str] = []
        self._version = -1
        self._nodes: dict[str, ShareNode] = {}
        self._touched: set[str] = set()
        #: Those among whose children a resource is to be divided.
        self._undivided: set[ShareNode] = set()
        self.root = ShareNode(_OWN_UNITS, None)
        #: Queues whose shares have changed since this was last cleared.
        self.changed: set[str] = set()
        #: Grows when a share changes.
        self.moves = 0

    # -- what changes ------------------------------------------------------------------------

    def set_totals(self, totals: Mapping[str, float]) -> None:
        """What the cluster has for queues. Other resources are not divided."""
        if totals.keys() != self.totals.keys():
            self._version = -1
        self._mark(self.root, *(name for name in totals if totals[name] != self.totals.get(name)))
        self.totals = dict(totals)
        self._models = [name for name in totals if name.startswith(GPUS_OF_MODEL)]

    def set_past(self, key: str, fraction: float) -> None:
        """What the queue used in the past, as a fraction of the cluster."""
        node = self._nodes.get(key)
        if node is not None and node.parent is not None and node.past != fraction:
            node.past = fraction
            self._mark(node.parent, *self.totals)

    def touch(self, key: str) -> None:
        """What its own units use or ask for has changed."""
        self._touched.add(key)

    def spec_changed(self, key: str) -> None:
        """And not its parent."""
        node, spec = self._nodes.get(key), self._tree.get(key)
        if node is None or spec is None or node.parent is None:
            return
        node.put(spec)
        self._mark(node.parent, *self.totals)
        for resource in self.totals:
            self._raise(node, resource)

    # -- shares ------------------------------------------------------------------------------

    def of(self, key: str) -> dict[str, float]:
        """By resource. To be read, and not kept."""
        node = self.node(key)
        return node.shares if node else {}

    def node(self, key: str) -> ShareNode | None:
        """With shares that are up to date until the next change."""
        self.refresh()
        return self._nodes.get(key)

    def divided(self, key: str) -> ShareNode | None:
        """As of the last `refresh`."""
        return self._nodes.get(key)

    def refresh(self) -> None:
        """Divides what is to be divided again, from the top."""
        self.settle()
        while self._undivided:
            levels, self._undivided = self._undivided, set()
            for level in sorted(levels, key=lambda node: node.depth):
                for resource in level.dirty:
                    self._divide(level, resource)
                level.dirty.clear()

    def _mark(self, node: ShareNode, *resources: str) -> None:
        if resources and (node.children or node is self.root):
            node.dirty.update(resources)
            self._undivided.add(node)

    def settle(self) -> None:
        if self._version < 0:
            self._build()
        elif self._version != self._tree.version:
            self._follow_tree()
        if self._touched:
            for key in self._touched:
                node = self._nodes.get(key)
                if node is not None:
                    self._count(node)
            self._touched.clear()

    def _divide(self, parent: ShareNode, resource: str) -> None:
        total = self._total(parent, resource)
        fits = parent.asked(resource) <= total
        (parent.uncontended.add if fits else parent.uncontended.discard)(resource)
        nodes = [*parent.children.values()]
        for node, share in zip(nodes, _divided(total, parent, nodes, resource), strict=False):
            self._share(node, resource, share)

    def _total(self, parent: ShareNode, resource: str) -> float:
        if parent.parent is None:
            return self.totals.get(resource, 0)
        return parent.shares.get(resource, 0.0)

    def _share(self, node: ShareNode, resource: str, share: float) -> None:
        if node.shares.get(resource) != share:
            node.shares[resource] = share
            self._note(node)
            self._mark(node, resource)

    def _note(self, node: ShareNode) -> None:
        self.changed.add(node.key)
        self.moves += 1

    # -- what is asked -----------------------------------------------------------------------

    def _build(self) -> None:
        """From the tree as it is now."""
        self._version = self._tree.version
        self._touched.clear()
        past = {key: node.past for key, node in self._nodes.items()}
        self._nodes = {}
        self._undivided = set()
        self.root = ShareNode(_OWN_UNITS, None)
        for key in self._tree:
            spec, above = self._tree.get(key), self._tree.lineage(key)[1:]
            assert spec is not None
            parent = self._nodes[above[0]] if above else self.root
            node = self._nodes[key] = ShareNode(spec, parent)
            node.past = past.get(key, 0.0)
        self.changed.update(self._nodes)
        self.moves += 1
        for node in reversed([self.root, *self._nodes.values()]):
            self._mark(node, *self.totals)
            if node.parent is not None:
                node.own = self._asked(node.key)
                for resource in self.totals:
                    node.compute(resource)

    def _follow_tree(self) -> None:
        """Queues came, went, or have other parents."""
        moved = self._tree.moved_since(self._version)
        if moved is None:
            self._build()
            return
        self._version = self._tree.version
        for key in moved:
            if key in self._tree:
                self._follow(key)
        for key in moved:
            if key not in self._tree and key in self._nodes:
                self._move(self._nodes.pop(key), None)

    def _follow(self, key: str) -> None:
        """Those above it are as in the tree."""
        above = self._tree.lineage(key)[1:]
        parent = self._nodes[above[0]] if above else self.root
        node = self._nodes.get(key)
        if node is None:
            self._begin(key, parent)
            return
        if node.parent is not parent:
            self._move(node, parent)
        if node.spec is not self._tree.get(key):
            self.spec_changed(key)

    def _begin(self, key: str, parent: ShareNode) -> None:
        spec = self._tree.get(key)
        assert spec is not None
        self._nodes[key] = ShareNode(spec, parent)
        self._mark(parent, *self.totals)
        self._count(self._nodes[key])
        self._note(self._nodes[key])

    def _move(self, node: ShareNode, parent: ShareNode | None) -> None:
        before = node.parent
        node.move(parent)
        node.shares.clear()
        self._mark(node, *self.totals)
        for level in (before, parent):
            if level is not None:
                self._mark(level, *self.totals)
                for resource in self.totals:
                    self._raise(level, resource)
        self._note(node)

    def _asked(self, key: str) -> dict[str, int]:
        used, pending = self._used.own(key), self._pending.own(key)
        asked = {name: used.get(name, 0) + pending.get(name, 0) for name in self.totals}
        for name in self._models:
            asked[name] = amount_of(used, name) + amount_of(pending, name)
        return asked

    def _count(self, node: ShareNode) -> None:
        for resource, asked in self._asked(node.key).items():
            if asked != node.own.get(resource, 0):
                node.own[resource] = asked
                self._mark(node, resource)
                self._raise(node, resource)

    def _raise(self, node: ShareNode, resource: str) -> None:
        """Carries a change of what it asks for up the tree, then what follows from it down."""
        path: list[tuple[ShareNode, bool]] = []
        while node.parent is not None:
            most, promised = node.most.get(resource, 0.0), node.promised.get(resource, 0.0)
            if not node.compute(resource):
                break
            lacked = node.shares.get(resource, 0.0) + _NEAR < min(most, node.most[resource])
            path.append((node, lacked and promised == node.promised[resource]))
            node = node.parent
        for changed, has_no_effect in reversed(path):
            if not has_no_effect:
                self._divide_later(changed, resource)

    def _divide_later(self, node: ShareNode, resource: str) -> None:
        """Unless the level above has enough for all, and so each child has what it asks for."""
        parent = node.parent
        assert parent is not None
        if (
            resource not in parent.dirty
            and resource in parent.uncontended
            and parent.asked(resource) <= self._total(parent, resource)
            and parent.rule is Sharing.CONTINUOUS
        ):
            node.shares[resource] = node.most[resource]
            self._note(node)
        else:
            self._mark(parent, resource)


def _divided(
    total: float, parent: ShareNode, nodes: Sequence[ShareNode], resource: str
) -> list[float]:
    """By the rule of the children; by ours where they have different ones."""
    sharings = {node.spec.sharing for node in nodes}
    parent.rule = sharings.pop() if len(sharings) == 1 else Sharing.CONTINUOUS
    own = parent.own.get(resource, 0)
    if parent.rule is not Sharing.CONTINUOUS:
        demands = [node.demand(resource) for node in nodes]
        rule = _rule(parent.rule, resource)
        return rule(total, [*demands, QueueDemand(own)] if own else demands)
    most = [node.most.get(resource, 0) for node in nodes]
    promised = [node.promised.get(resource, 0) for node in nodes]
    weights = [node.weight(resource) for node in nodes]
    past = [node.past for node in nodes]
    if own:
        return divide(total, [*most, own], [*promised, 0.0], [*weights, 1.0], [*past, 0.0])
    return divide(total, most, promised, weights, past)


def _rule(sharing: Sharing, resource: str) -> Division:
    if sharing is Sharing.KAI and (resource == GPUS or resource.startswith(GPUS_OF_MODEL)):
        return partial(peer_shares.kai, unit=peer_shares.GPU_MILLI)
    return _RULES[sharing]
