"""Gangs whose claims have many alternatives, and pods that say which devices are kept for them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from claims import whole_gpus
from fairlead.apps.config.profiles import built_in, claiming
from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectSeen
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.kept_records import DEVICES_KEPT
from fairlead.model.devices import DeviceClass
from fairlead.model.kept_record import MOST_DEVICES
from hostile_cluster import GANG, PROFILE, SCHEDULER, Made, Shape, Size, a_pod, encoded, seen
from pods import Body

#: Devices that no other pod of the cluster has.
_DRIVER = "card.example.com"
_CLASS = DeviceClass("card", (f"device.driver == '{_DRIVER}'",))
#: More pods of a gang get the first alternatives.
_MOST_PODS = 100
#: With more, only the first alternatives are tried.
_KINDS = 8


def _cards(size: Size, nodes: int) -> Iterator[Made]:
    yield partial(ClaimObjectSeen, _CLASS)
    for number in range(nodes):
        cards = whole_gpus(size.node(number))
        yield partial(ClaimObjectSeen, replace(cards, driver=_DRIVER, name=f"cards-{number}"))


def _member(gang: str, number: int, pods: int, *needs: Body) -> Iterator[Made]:
    name = f"{gang}-{number}"
    claim = {
        "metadata": {"name": name, "namespace": "team-0", "uid": name, "resourceVersion": "1"},
        "spec": {"devices": {"requests": [{"name": "r", "firstAvailable": list(needs)}]}},
    }
    raw = encoded(claim)
    yield lambda: ClaimObjectSeen(decode_claim(raw))
    body = a_pod(name, resourceClaims=[{"name": "e", "resourceClaimName": name}], cpu="100m")
    body["metadata"]["annotations"] = {GANG: gang, f"{GANG}-min": str(pods)}
    yield seen(body)


def _need(count: int, **more: Any) -> Body:
    return {"name": f"s{count}", "deviceClassName": "card", "count": count, **more}


def gangs_with_alternatives(size: Size) -> Iterator[Made]:
    """Whatever they get, each node has room for one member, and half of the nodes are missing.

    Claims of one gang are of as many kinds as are tried, those of the other are equal.
    """
    pods = min(_MOST_PODS, 1 + size.nodes // 50)
    yield from _cards(size, pods // 2)
    for number in range(pods):
        other = {"tolerations": [{"key": f"k{number % _KINDS}", "operator": "Exists"}]}
        yield from _member("g", number, pods, *(_need(count, **other) for count in (8, 7, 6, 5)))
    for number in range(pods):
        yield from _member("h", number, pods, *(_need(count) for count in (8, 7, 6, 5)))


def kept_for_many(size: Size) -> Iterator[Made]:
    """As many devices as a record may have, most of which do not exist."""
    yield from _cards(size, size.nodes)
    for number in range(size.many):
        node = size.node(number)
        devices = [{"driver": _DRIVER, "pool": node, "device": f"gpu-{at}"}
                   for at in range(MOST_DEVICES)]  # fmt: skip
        condition = {"type": DEVICES_KEPT, "status": "True",
                     "message": json.dumps({"evicted": 1, "devices": devices})}  # fmt: skip
        body = a_pod(f"w{number}", cpu="100m")
        body["status"] = {"nominatedNodeName": node, "conditions": [condition]}
        yield seen(body)


def _trying_later() -> Engine:
    return Engine({SCHEDULER: claiming(built_in(PROFILE), tries_later=True)})


ALTERNATIVE_SHAPES: dict[str, Shape] = {
    "gangs, many alternatives of claims": gangs_with_alternatives,
    "devices kept for many pods": kept_for_many,
}
ALTERNATIVE_ENGINES: dict[str, Callable[[], Engine]] = {
    "gangs, many alternatives of claims": _trying_later,
}
