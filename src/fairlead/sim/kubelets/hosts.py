"""The node side of the simulated kubelets: registration, heartbeat, failures."""

from collections.abc import Callable, ItemsView
from dataclasses import field
from typing import Any
from uuid import uuid4

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.clock import micro_text, now_text
from fairlead.sim.apiserver.store import Change
from fairlead.sim.kubelets import nodes
from fairlead.sim.kubelets.agenda import Agenda, Key, Step
from fairlead.sim.kubelets.gpus import NodeGpus, gpus_of, lot

Object = dict[str, Any]

LEASE_EVERY_S = 10.0


@dataclass(slots=True)
class Host:
    """A simulated node."""

    gpus: NodeGpus
    address: str
    uid: str
    down: bool = False
    lost: frozenset[int] = frozenset()
    #: Pods whose next step waits until the node is back.
    held: set[str] = field(default_factory=set)
    lease_metadata: Object = field(default_factory=dict)


class Hosts:
    """Every node there is, by name."""

    def __init__(
        self, api: ApiState, agenda: Agenda[Key, Step], clock: Callable[[], float]
    ) -> None:
        self._api, self._agenda, self._clock = api, agenda, clock
        self._nodes = api.kinds.plural("nodes")
        self._leases = api.kinds.plural("leases.coordination.k8s.io")
        self._known: dict[str, Host] = {}

    def get(self, name: str) -> Host | None:
        return self._known.get(name)

    def items(self) -> ItemsView[str, Host]:
        return self._known.items()

    def on_change(self, change: Change) -> None:
        """Plans only: a write is still in progress."""
        name = change.entry.name
        if change.type == "DELETED":
            self._forget(name)
            return
        node = change.entry.object()
        host = self._known.get(name) or self._welcome(name, node)
        wanted = nodes.should_be_down(node), nodes.lost_gpus(node)
        if wanted != (host.down, host.lost) or not nodes.is_ready_known(node):
            self._agenda.put(("node", name), self._clock(), Step.RECONCILE)

    def renew(self, name: str) -> None:
        """The heartbeat; a node that is down has none."""
        host = self._known.get(name)
        if host is None:
            return
        if not host.down:
            beat = nodes.lease(name, host.uid, micro_text())
            beat["metadata"] |= host.lease_metadata
            self._api.store.put(self._leases, _lease_key(name), beat)
        self._agenda.put(("lease", name), self._clock() + LEASE_EVERY_S, Step.RENEW)

    def reconcile(self, name: str) -> tuple[set[str], set[str]]:
        """Gives the node the failures that its annotations request.

        Returns the pods that lost a GPU by that, and those that can go on now.
        """
        entry, host = self._api.store.get("nodes", name), self._known.get(name)
        if entry is None or host is None:
            return set(), set()
        node = entry.object()
        host.down, host.lost = nodes.should_be_down(node), nodes.lost_gpus(node)
        wanted = nodes.with_failures(node, now_text())
        if wanted != node:
            self._api.store.put(self._nodes, name, wanted)
        going_on: set[str] = set()
        if not host.down:
            going_on, host.held = host.held, set()
        return host.gpus.lose(host.lost), going_on

    def annotate(self, name: str, key: str, value: str | None) -> None:
        """Sets the annotation of a node, or takes it off."""
        node = self._api.entry(self._nodes, name).object()
        annotations = node["metadata"].setdefault("annotations", {})
        annotations.pop(key, None)
        if value is not None:
            annotations[key] = value
        self._api.store.put(self._nodes, name, node)

    def lost_gpus(self, name: str) -> frozenset[int]:
        return nodes.lost_gpus(self._api.entry(self._nodes, name).object())

    def _welcome(self, name: str, node: Object) -> Host:
        annotations = node["metadata"].get("annotations") or {}
        gpus = NodeGpus(gpus_of(annotations, nodes.gpu_count(node)))
        host = Host(gpus, nodes.internal_address(node), node["metadata"]["uid"])
        old = self._api.find(self._leases.store_name, _lease_key(name))
        born = old["metadata"] if old else {"uid": str(uuid4()), "creationTimestamp": now_text()}
        host.lease_metadata = {key: born[key] for key in ("uid", "creationTimestamp")}
        self._known[name] = host
        # Spread over the whole period: a thousand nodes never beat at once.
        first = self._clock() + LEASE_EVERY_S * lot(name, "lease")
        self._agenda.put(("lease", name), first, Step.RENEW)
        return host

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._agenda.drop(("lease", name))
        self._agenda.drop(("node", name))
        if self._api.store.get(self._leases.store_name, _lease_key(name)):
            self._api.store.remove(self._leases, _lease_key(name))


def _lease_key(node: str) -> str:
    return f"kube-node-lease/{node}"
