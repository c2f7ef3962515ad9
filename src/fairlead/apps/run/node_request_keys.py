"""Which requests for nodes are written and deleted next, and the keys of their objects."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, islice, zip_longest

from fairlead.engine.node_requests import NodeRequest
from fairlead.kube.provisioning import request_name


def request_key(request: NodeRequest) -> str:
    return f"{request.pods[0][0].namespace}/{request_name(request)}"


class RequestKeys:
    """Keys are computed once: there may be thousands of requests, which are compared often."""

    def __init__(self) -> None:
        #: By gang.
        self._known: dict[str, tuple[NodeRequest, str]] = {}

    def of(self, requests: Iterable[NodeRequest]) -> dict[str, NodeRequest]:
        """The requests by key."""
        known, self._known = self._known, {}
        for each in requests:
            kept = known.get(each.gang)
            same = kept is not None and kept[0] is each
            self._known[each.gang] = kept if kept and same else (each, request_key(each))
        return {key: each for each, key in self._known.values()}


def in_turn(keys: Iterable[str], most: int) -> list[str]:
    """So many of the keys, one of each namespace after another: none waits for all of another."""
    by_namespace: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        by_namespace[key.partition("/")[0]].append(key)
    turns = chain.from_iterable(zip_longest(*by_namespace.values()))
    return list(islice((key for key in turns if key is not None), most))
