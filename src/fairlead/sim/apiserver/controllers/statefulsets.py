"""StatefulSets: numbered pods, in order by default."""

import copy
from typing import Any

from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller

Object = dict[str, Any]
_REVISION = "controller-revision-hash"


class StatefulSetController(Controller):
    resource = "statefulsets.apps"

    async def sync(self, key: str) -> None:
        statefulset = self.api.find(self.resource, key)
        if statefulset is None or statefulset["metadata"].get("deletionTimestamp"):
            return
        revision = f"{statefulset['metadata']['name']}-{_mark(statefulset)}"
        owned = self._owned(statefulset)
        await self._level(statefulset, owned, revision)
        await self._report(statefulset, self._owned(statefulset), revision)

    def _owned(self, statefulset: Object) -> dict[int, Object]:
        """Pods by their number."""
        found = {}
        for pod in self.owners.pods(statefulset["metadata"]["uid"]):
            number = pod["metadata"]["name"].rpartition("-")[2]
            if number.isdigit():
                found[int(number)] = pod
        return found

    async def _level(self, statefulset: Object, owned: dict[int, Object], revision: str) -> None:
        spec = statefulset["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        in_order = spec.get("podManagementPolicy") != "Parallel"
        for number in wanted:
            pod = owned.get(number)
            if pod is not None and pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
                await self._delete(pod)
            elif pod is None:
                await self._make(statefulset, number, revision)
            if in_order and (pod is None or not pods.is_ready(pod)):
                return  # the next one waits for this one
        extra = sorted((number for number in owned if number not in wanted), reverse=True)
        for number in extra[:1] if in_order else extra:
            if pods.is_active(owned[number]):
                await self._delete(owned[number])
        if not extra:
            await self._renew(statefulset, owned, revision)

    async def _renew(self, statefulset: Object, owned: dict[int, Object], revision: str) -> None:
        """Replaces one pod of an older template, the highest first."""
        update = statefulset["spec"].get("updateStrategy", {})
        if update.get("type") != "RollingUpdate":
            return
        lowest = update.get("rollingUpdate", {}).get("partition", 0)
        for number in sorted(owned, reverse=True):
            pod = owned[number]
            if not pods.is_active(pod):
                return
            if number >= lowest and pod["metadata"]["labels"].get(_REVISION) != revision:
                await self._delete(pod)
                return

    async def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        await pods.remove(self.api, "pods", metadata["namespace"], metadata["name"])

    async def _make(self, statefulset: Object, number: int, revision: str) -> None:
        metadata, spec = statefulset["metadata"], statefulset["spec"]
        name = f"{metadata['name']}-{number}"
        pod = pods.pod_from(spec["template"], statefulset, "apps/v1", "StatefulSet")
        pod["metadata"] |= {"name": name, "generateName": f"{metadata['name']}-"}
        pod["metadata"].setdefault("labels", {}).update(
            {
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(number),
                _REVISION: revision,
            }
        )
        pod["spec"]["hostname"] = name
        if spec.get("serviceName"):
            pod["spec"]["subdomain"] = spec["serviceName"]
        await self._claim(statefulset, pod, name)
        await pods.make(self.api, "pods", metadata["namespace"], pod)

    async def _claim(self, statefulset: Object, pod: Object, name: str) -> None:
        namespace = statefulset["metadata"]["namespace"]
        for template in statefulset["spec"].get("volumeClaimTemplates") or []:
            volume = template["metadata"]["name"]
            claim = f"{volume}-{name}"
            if not self.api.store.get("persistentvolumeclaims", f"{namespace}/{claim}"):
                made = {"metadata": {"name": claim}, "spec": copy.deepcopy(template["spec"])}
                await pods.make(self.api, "persistentvolumeclaims", namespace, made)
            pod["spec"].setdefault("volumes", []).append(
                {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            )

    async def _report(self, statefulset: Object, owned: dict[int, Object], revision: str) -> None:
        living = list(owned.values())
        ready = sum(pods.is_ready(pod) for pod in living)
        updated = sum(pod["metadata"]["labels"].get(_REVISION) == revision for pod in living)
        wanted = statefulset["spec"].get("replicas", 1)
        before = statefulset.get("status", {}).get("currentRevision", revision)
        done = updated == wanted == len(living) and ready == wanted
        status: Object = {
            "replicas": len(living), "availableReplicas": ready, "collisionCount": 0,
            "observedGeneration": statefulset["metadata"].get("generation", 1),
            "currentRevision": revision if done else before, "updateRevision": revision,
        }  # fmt: skip
        current = updated if done else (len(living) - updated or updated)
        counts = {"readyReplicas": ready, "updatedReplicas": updated, "currentReplicas": current}
        status |= {name: count for name, count in counts.items() if count}
        await pods.set_status(self.api, self.resource, statefulset, status)


def _mark(statefulset: Object) -> str:
    return pods.fingerprint(statefulset["spec"]["template"])
