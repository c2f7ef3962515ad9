"""The command: looks at the cluster twice, and reports the faults that both looks show."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from fairlead.apps.config.run_plan import RunOptions
from fairlead.apps.doctor.claim_checks import ClaimChecks
from fairlead.apps.doctor.device_checks import device_faults
from fairlead.apps.doctor.drivers import ClaimDrivers, DriverUse, advice
from fairlead.apps.doctor.faults import ClusterFault
from fairlead.apps.live import live_cluster
from fairlead.cluster.cluster import Cluster
from fairlead.engine.engine import Engine
from fairlead.engine.events import PodSeen
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.claims.kinds import CLAIM_KINDS
from fairlead.kube.gangs.discovery import served_versions
from fairlead.kube.http.client import Client
from fairlead.model.pods import Pod


async def examine(options: RunOptions, wait_s: float) -> list[ClusterFault]:
    """What is still wrong after the wait: much of it is normal for a moment."""
    client = Client(load_access(options.kubeconfig, options.context))
    try:
        found = await _look(client)
        if found and wait_s:
            await asyncio.sleep(wait_s)
            again = set(await _look(client))
            found = [each for each in found if each in again]
        return [*await _not_listed(client), *found]
    finally:
        await client.close()


async def _look(client: Client) -> list[ClusterFault]:
    engine, pods = Engine({}, reserves=True), []
    async for event in live_cluster.events(client, selectors=False):
        engine.handle(event, now=0.0)
        if isinstance(event, PodSeen):
            pods.append(event.pod)
    return list(faults(engine.cluster, pods))


def faults(cluster: Cluster, pods: Sequence[Pod]) -> Iterator[ClusterFault]:
    """All faults of a cluster whose unfinished pods are these."""
    yield from _shared_drivers(cluster, pods)
    yield from device_faults(cluster)
    yield from ClaimChecks(cluster.claims, {pod.uid: pod for pod in pods}).faults()


def _shared_drivers(cluster: Cluster, pods: Sequence[Pod]) -> Iterator[ClusterFault]:
    claims = cluster.claims
    published = frozenset(part.driver for part in claims.inventory.slices())
    use = DriverUse(claims.claims, ClaimDrivers(claims.classes, published))
    for pod in pods:
        use.note(pod)
    for each in use.shared():
        what = f"pods of several schedulers claim its devices: {each}"
        yield ClusterFault("driver-shared", f"driver {each.driver}", what, advice(each))


async def _not_listed(client: Client) -> list[ClusterFault]:
    """Kinds that are served, and that the user may not list: nothing is known of them."""
    found = []
    for kind, version in (await served_versions(client, CLAIM_KINDS)).items():
        if not version:
            continue
        reply = await client.request("GET", kind.path(version), params={"limit": "1"})
        if reply.status != 200:
            what = f"cannot be listed: {reply.message}"
            advice = f"get the permission to list {kind.plural}"
            found.append(ClusterFault("not-examined", kind.plural, what, advice))
    return found


def show(found: Sequence[ClusterFault], output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps([asdict(each) for each in found], indent=2) + "\n")
        return
    out.writelines(f"{each.about}: {each.what}\n  {each.kind}: {each.advice}\n" for each in found)
    out.write(f"{len(found)} faults found\n" if found else "no faults found\n")
