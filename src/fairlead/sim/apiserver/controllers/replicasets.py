"""ReplicaSets: as many pods as asked for."""

from typing import Any

from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller

Object = dict[str, Any]


class ReplicaSetController(Controller):
    resource = "replicasets.apps"

    async def sync(self, key: str) -> None:
        replicaset = self.api.find(self.resource, key)
        if replicaset is None or replicaset["metadata"].get("deletionTimestamp"):
            return
        await self._level(replicaset, self._active(replicaset))
        await self._report(replicaset, self._active(replicaset))

    def _active(self, replicaset: Object) -> list[Object]:
        owned = self.owners.pods(replicaset["metadata"]["uid"])
        return [pod for pod in owned if pods.is_active(pod)]

    def _going(self, replicaset: Object) -> int:
        owned = self.owners.pods(replicaset["metadata"]["uid"])
        return sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in owned)

    async def _level(self, replicaset: Object, active: list[Object]) -> None:
        metadata, wanted = replicaset["metadata"], replicaset["spec"].get("replicas", 1)
        for _ in range(wanted - len(active)):
            pod = pods.pod_from(replicaset["spec"]["template"], replicaset, "apps/v1", "ReplicaSet")
            pod["metadata"]["generateName"] = f"{metadata['name']}-"
            await pods.make(self.api, "pods", metadata["namespace"], pod)
        for pod in pods.least_needed(active)[: max(len(active) - wanted, 0)]:
            name = pod["metadata"]["name"]
            await pods.remove(self.api, "pods", metadata["namespace"], name)

    async def _report(self, replicaset: Object, active: list[Object]) -> None:
        ready = sum(pods.is_ready(pod) for pod in active)
        status: Object = {"replicas": len(active), "terminatingReplicas": self._going(replicaset)}
        if active:
            status["fullyLabeledReplicas"] = len(active)
        if ready:
            status |= {"readyReplicas": ready, "availableReplicas": ready}
        status["observedGeneration"] = replicaset["metadata"].get("generation", 1)
        await pods.set_status(self.api, self.resource, replicaset, status)
