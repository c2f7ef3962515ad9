"""Publishes what the DRA drivers of the simulated machines would, over the API like any driver."""

import asyncio
from collections.abc import Sequence

import msgspec

from fairlead.apps.live.live_cluster import list_objects
from fairlead.apps.up.created_objects import create_object
from fairlead.kube.http.client import Client
from fairlead.sim.dra import shapes
from fairlead.sim.machines import Machine

_ROOT = "/apis/resource.k8s.io/v1"
_AT_ONCE = 16


class _Meta(msgspec.Struct):
    name: str
    uid: str


class _Node(msgspec.Struct):
    metadata: _Meta


_nodes = msgspec.json.Decoder(_Node)


async def publish(client: Client, machines: Sequence[Machine]) -> None:
    """Classes, then the slices of all machines. What is there from an earlier run stays."""
    for each in shapes.classes():
        await create_object(client, f"{_ROOT}/deviceclasses", each)
    listed = list_objects(client, "/api/v1/nodes", _nodes.decode)
    uids = {node.metadata.name: node.metadata.uid async for node in listed}
    turns = asyncio.Semaphore(_AT_ONCE)

    async def of_machine(machine: Machine) -> None:
        async with turns:
            for each in shapes.slices(machine, uids[machine.name]):
                await create_object(client, f"{_ROOT}/resourceslices", each)

    await asyncio.gather(*(of_machine(each) for each in machines if each.name in uids))
