"""Devices and resource claims when nodes come or go: those that drivers publish for one node."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairlead.apps.live.claim_templates import with_made_claims
from fairlead.engine.events import ClaimObjectSeen, Event
from fairlead.model.claims import ResourceClaim
from fairlead.model.device_gpus import UUIDS
from fairlead.model.devices import AttributeValue, Device, DeviceNodes, ResourceSlice
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.sim.virtual.claims import without_users


def copied_devices(events: Iterable[Event], like: str, copies: Iterable[Node]) -> list[Event]:
    """The devices of a node once for each copy, in pools and with UUIDs of their own.

    What the name of a copy has more than that of the node is added to each of these.
    """
    slices = [part for part in _slices(events) if part.nodes.node_name == like]
    return [
        ClaimObjectSeen(_copy(part, node.name, node.name.removeprefix(like)))
        for node in copies
        for part in slices
    ]


def _slices(events: Iterable[Event]) -> Iterable[ResourceSlice]:
    for event in events:
        if isinstance(event, ClaimObjectSeen) and isinstance(event.seen, ResourceSlice):
            yield event.seen


def _copy(part: ResourceSlice, node: str, end: str) -> ResourceSlice:
    devices = tuple(_renamed(device, end) for device in part.devices)
    return replace(part, name=part.name + end, uid=part.uid + end, pool=part.pool + end,
                   nodes=DeviceNodes(node), devices=devices)  # fmt: skip


def _renamed(device: Device, end: str) -> Device:
    named = ((name, _with_end(name, value, end)) for name, value in device.attributes)
    return replace(device, attributes=tuple(named))


def _with_end(name: str, value: AttributeValue, end: str) -> AttributeValue:
    return value + end if name in UUIDS and isinstance(value, str) else value


def without_devices(
    events: Sequence[Event], nodes: Iterable[str], gone: Iterable[Pod]
) -> list[Event]:
    """Without the devices of these nodes and the claims of pods that were there.

    Pods that are created again have claims of their own again. `gone`: as they were on the nodes.
    """
    pods = {pod.uid: pod for pod in gone}
    removed, kept = set(nodes), list[Event]()
    templates: dict[str, ResourceClaim] = {}
    for event in events:
        seen = event.seen if isinstance(event, ClaimObjectSeen) else None
        if isinstance(seen, ResourceClaim) and seen.owner in pods:
            templates |= dict.fromkeys(_templates(pods[seen.owner], seen), seen)
        elif isinstance(seen, ResourceClaim) and pods:
            kept.append(ClaimObjectSeen(without_users(seen, pods)))
        elif not (isinstance(seen, ResourceSlice) and seen.nodes.node_name in removed):
            kept.append(event)
    return with_made_claims(kept, templates) if templates else kept


def _templates(pod: Pod, claim: ResourceClaim) -> list[str]:
    uses = (use for use in pod.request.claims if use.key == claim.key and use.template)
    return [f"{pod.namespace}/{use.template}" for use in uses]
