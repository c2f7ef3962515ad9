"""The ConfigMap in which the scheduler of `fairlead up` keeps what it learns about run times."""

from fairlead.apps.live.learned import NAMESPACE, SUFFIX, LearnedPlace
from fairlead.apps.up.created_objects import create_object
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import in_namespace
from fairlead.kube.leadership.election import Terms

#: Pods run for seconds here.
_EVERY_S = 10.0


async def make_learned_place(client: Client) -> LearnedPlace:
    """As the chart makes it, so that `fairlead what-if` and others find it there."""
    lease = Terms().name
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await create_object(client, "/api/v1/namespaces", namespace)
    metadata = {"name": lease + SUFFIX, "namespace": NAMESPACE}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await create_object(client, in_namespace("/api/v1", NAMESPACE, "configmaps"), config_map)
    return LearnedPlace(NAMESPACE, lease, every_s=_EVERY_S)
