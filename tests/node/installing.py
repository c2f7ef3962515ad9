"""The plain manifests on the cluster with a real node."""

from clusters import RealCluster
from fairleads import eventually
from manifests import FAIRLEAD, NAMESPACE, kubectl
from webhooks import injects


class Manifests:
    """deploy/fairlead.yaml, which is there or not."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        self._there = False

    def install(self) -> None:
        """Returns when both programs are available, and the API server asks the webhook."""
        if self._there:
            return
        self._there = True
        kubectl(self._cluster.plane, f"apply -f {FAIRLEAD}")
        for name in ("fairlead", "fairlead-webhook"):
            eventually(lambda name=name: self._cluster.available(name), what=f"{name} is available")
        eventually(lambda: injects(self._cluster.plane, "default"), what="the webhook is asked")

    def remove(self) -> None:
        if self._there:
            kubectl(self._cluster.plane, f"delete --wait=false -f {FAIRLEAD}")
            self._cluster.remove_namespace(NAMESPACE)
            self._there = False
