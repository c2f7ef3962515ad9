"""What an explanation says about the ComputeDomains of a pod, as data and as text."""

from collections.abc import Iterator
from typing import Any

from fairlead.engine.compute_domains import DomainOutlook
from fairlead.engine.engine import Engine
from fairlead.model.pods import Pod

Answer = dict[str, Any]

#: Nodes that are listed one by one.
_MOST_LISTED = 100


def domains_answer(engine: Engine, pod: Pod, *, nodes: bool) -> Answer:
    """Nothing, unless the pod uses channels. `nodes`: whether nodes are named."""
    found = engine.domain_outlooks(pod)
    return {"computeDomains": [_told(each, nodes=nodes) for each in found]} if found else {}


def _told(found: DomainOutlook, *, nodes: bool) -> Answer:
    domain = found.domain
    if domain is None:
        return {"name": "", "missing": list(found.missing)}
    listed = domain.nodes[:_MOST_LISTED] if nodes else ()
    return {
        "name": domain.key,
        "status": "Ready" if domain.is_ready else "NotReady",
        "numNodes": domain.num_nodes,
        "channels": found.channels,
        "nodesJoined": len(domain.nodes),
        "nodesReady": sum(node.is_ready for node in domain.nodes),
        "nodes": [
            {"name": node.name, "clique": node.clique, "ready": node.is_ready} for node in listed
        ],
        "missing": list(found.missing),
    }


def domain_lines(domains: list[Answer]) -> Iterator[str]:
    """The answer as text."""
    for domain in domains:
        if domain["name"]:
            asked = f" of {domain['numNodes']}" if domain["numNodes"] else ""
            yield (
                f"ComputeDomain {domain['name']}: {domain['status']}, {domain['nodesReady']}{asked}"
                f" node(s) ready, {domain['nodesJoined']} joined"
            )
            for node in domain["nodes"]:
                state = "ready" if node["ready"] else "not ready"
                yield f"  node {node['name']}: {state}, clique {node['clique'] or '-'}"
        yield from (f"  missing: {each}" for each in domain["missing"])
