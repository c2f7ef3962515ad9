"""Objects that describe the topology, watched as long as their kinds are served."""

from collections.abc import Callable, Container
from functools import partial

import structlog

from fairlead.apps.run.served_kinds import KindWatch
from fairlead.engine import events
from fairlead.kube.gangs.topology_objects import (
    KINDS,
    VOLCANO,
    TopologyObject,
    decode_topology,
)
from fairlead.kube.mirror.changes import Change, Deleted, Undecodable, Upserted
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.topology import Topology

log = structlog.get_logger(__name__)


Feed = Callable[[events.Event], None]


def topology_watches(feed: Feed, dialects: Container[str]) -> list[KindWatch]:
    """The kinds of dialects that are on, and how the engine is fed what their objects describe."""
    return [
        KindWatch(
            f"topology {dialect}",
            kind,
            partial(decode_topology, dialect),
            partial(_on_change, feed, dialect),
            partial(_tell, feed, dialect, None),
        )
        for dialect, kind in KINDS.items()
        if dialect in dialects
    ]


def _on_change(feed: Feed, dialect: str, change: Change[TopologyObject]) -> None:
    match change:
        case Upserted(found):
            if found.problem:
                kind = KINDS[dialect].full_name
                log.warning(
                    "topology is not used", kind=kind, name=found.name, reason=found.problem
                )
            _tell(feed, dialect, found.described, found.name)
        case Deleted(found):
            _tell(feed, dialect, None, found.name)
        case Undecodable():
            log.error("topology cannot be read", name=change.key, error=change.error)
        case _:
            return


def _tell(feed: Feed, dialect: str, described: Topology | HyperNode | None, name: str) -> None:
    if dialect == VOLCANO:
        hyper_node = described if isinstance(described, HyperNode) else None
        feed(events.HyperNodeSeen(name, hyper_node))
    else:
        topology = described if isinstance(described, Topology) else None
        feed(events.TopologySeen(f"{dialect}/{name}", topology))
