"""The ConfigMap in which the scheduler of `fairlead up` keeps what it learns about run times."""

import msgspec

from fairlead.apps.live.learned import NAMESPACE, SUFFIX, LearnedPlace
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import in_namespace
from fairlead.kube.leadership.election import Terms
from fairlead.model.errors import FairleadError

#: Pods run for seconds here.
_EVERY_S = 10.0


async def make_learned_place(client: Client) -> LearnedPlace:
    """As the chart makes it, so that `fairlead what-if` and others find it there."""
    lease = Terms().name
    await _post(client, "/api/v1/namespaces", "Namespace", {"name": NAMESPACE})
    path = in_namespace("/api/v1", NAMESPACE, "configmaps")
    await _post(client, path, "ConfigMap", {"name": lease + SUFFIX, "namespace": NAMESPACE})
    return LearnedPlace(NAMESPACE, lease, every_s=_EVERY_S)


async def _post(client: Client, path: str, kind: str, metadata: dict[str, str]) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
    reply = await client.request("POST", path, body=msgspec.json.encode(body))
    if reply.status not in (201, 409):
        raise FairleadError(f"the API server refused {path}: {reply.message}")
