"""Deployments: one ReplicaSet for each template, and a rolling change between them."""

import copy
from typing import Any

from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller
from fairlead.sim.apiserver.store import Change
from fairlead.sim.apiserver.updating import modify

Object = dict[str, Any]
_REVISION = "deployment.kubernetes.io/revision"
_SETS = "replicasets.apps"


class DeploymentController(Controller):
    resource = "deployments.apps"
    follows: frozenset[str] | None = frozenset({"replicasets.apps"})

    def concerns(self, resource: str, change: Change) -> list[str]:
        if resource == _SETS:
            return self.owners.keys_of_owners(self.resource, change.entry)
        return [change.entry.key] if resource == self.resource else []

    async def sync(self, key: str) -> None:
        deployment = self.api.find(self.resource, key)
        if deployment is None or deployment["metadata"].get("deletionTimestamp"):
            return
        sets = self._sets(deployment)
        current = await self._current(deployment, sets)
        old = [each for each in sets if each["metadata"]["uid"] != current["metadata"]["uid"]]
        if not deployment["spec"].get("paused"):
            await self._roll(deployment, current, old)
        await self._report(deployment, self._sets(deployment), current["metadata"]["uid"])

    def _sets(self, deployment: Object) -> list[Object]:
        owned = self.owners.dependents(deployment["metadata"]["uid"])
        return [entry.object() for name, entry in owned if name == _SETS]

    async def _current(self, deployment: Object, sets: list[Object]) -> Object:
        """The ReplicaSet of the present template; made when there is none yet."""
        template = deployment["spec"]["template"]
        mark = pods.fingerprint(template)
        for each in sets:
            if each["metadata"]["labels"].get("pod-template-hash") == mark:
                return each
        revisions = [_revision(each) for each in sets]
        made = _replicaset(deployment, mark, max(revisions, default=0) + 1)
        # A first ReplicaSet starts whole; later ones grow as the old ones shrink.
        made["spec"]["replicas"] = deployment["spec"]["replicas"] if not sets else 0
        entry = await pods.make(self.api, _SETS, deployment["metadata"]["namespace"], made)
        await self._note_revision(deployment, max(revisions, default=0) + 1)
        return entry.object()

    async def _note_revision(self, deployment: Object, revision: int) -> None:
        def change(obj: Object) -> Object:
            annotations = {**obj["metadata"].get("annotations", {}), _REVISION: str(revision)}
            return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}

        metadata = deployment["metadata"]
        call = pods.call_for(self.api, self.resource, metadata["namespace"], metadata["name"])
        await modify(self.api, call, change)

    async def _roll(self, deployment: Object, current: Object, old: list[Object]) -> None:
        wanted = deployment["spec"]["replicas"]
        strategy = deployment["spec"]["strategy"]
        running = [each for each in old if each["spec"]["replicas"]]
        if strategy["type"] == "Recreate":
            for each in running:
                await self._scale(each, 0)
            gone = not any(each.get("status", {}).get("replicas") for each in old)
            await self._scale(current, wanted if gone else 0)
            return
        rolling = strategy.get("rollingUpdate", {})
        surge = pods.absolute(rolling.get("maxSurge"), wanted, round_up=True)
        missing = pods.absolute(rolling.get("maxUnavailable"), wanted, round_up=False)
        others = sum(each["spec"]["replicas"] for each in running)
        allowed = max(min(wanted, wanted + surge - others), 0)
        grown = allowed if current["spec"]["replicas"] < wanted else wanted
        await self._scale(current, max(grown, min(current["spec"]["replicas"], wanted)))
        await self._shrink(running, current, wanted - (missing or (0 if surge else 1)))

    async def _shrink(self, running: list[Object], current: Object, least: int) -> None:
        """Takes from the old what is not needed to keep `least` pods available."""
        available = sum(
            each.get("status", {}).get("availableReplicas", 0) for each in [*running, current]
        )
        spare = available - least
        for each in running:
            status, replicas = each.get("status", {}), each["spec"]["replicas"]
            broken = replicas - status.get("availableReplicas", 0)
            cut = min(replicas, max(spare, 0) + broken)
            spare -= max(cut - broken, 0)
            if cut > 0:
                await self._scale(each, replicas - cut)

    async def _scale(self, replicaset: Object, replicas: int) -> None:
        if replicaset["spec"]["replicas"] == replicas:
            return
        metadata = replicaset["metadata"]
        call = pods.call_for(self.api, _SETS, metadata["namespace"], metadata["name"])
        replicaset["spec"]["replicas"] = replicas

        def change(obj: Object) -> Object:
            return {**obj, "spec": {**obj["spec"], "replicas": replicas}}

        await modify(self.api, call, change)

    async def _report(self, deployment: Object, sets: list[Object], current: str) -> None:
        def total(name: str, only_current: bool = False) -> int:
            return sum(
                each.get("status", {}).get(name, 0)
                for each in sets
                if not only_current or each["metadata"]["uid"] == current
            )

        wanted, available = deployment["spec"]["replicas"], total("availableReplicas")
        counts = {
            "replicas": total("replicas"), "updatedReplicas": total("replicas", only_current=True),
            "readyReplicas": total("readyReplicas"), "availableReplicas": available,
            "unavailableReplicas": max(wanted - available, 0),
        }  # fmt: skip
        status: Object = {name: count for name, count in counts.items() if count}
        status["terminatingReplicas"] = total("terminatingReplicas")
        status["observedGeneration"] = deployment["metadata"].get("generation", 1)
        names = [each["metadata"]["name"] for each in sets if each["metadata"]["uid"] == current]
        status["conditions"] = _conditions(deployment, counts, names[0] if names else "")
        fresh = self.api.find(self.resource, _key(deployment))
        if fresh is not None:
            await pods.set_status(self.api, self.resource, fresh, status)


def _key(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _revision(replicaset: Object) -> int:
    return int(replicaset["metadata"].get("annotations", {}).get(_REVISION, 0))


def _replicaset(deployment: Object, mark: str, revision: int) -> Object:
    metadata, spec = deployment["metadata"], copy.deepcopy(deployment["spec"])
    labels = {**spec["template"]["metadata"].get("labels", {}), "pod-template-hash": mark}
    spec["template"]["metadata"]["labels"] = labels
    selector = spec["selector"]
    selector["matchLabels"] = {**selector.get("matchLabels", {}), "pod-template-hash": mark}
    return {
        "metadata": {
            "name": f"{metadata['name']}-{mark}", "namespace": metadata["namespace"],
            "labels": labels, "annotations": _annotations(deployment, revision),
            "ownerReferences": [pods.owner_reference(deployment, "apps/v1", "Deployment")],
        },
        "spec": {"selector": selector, "template": spec["template"], "replicas": 0},
    }  # fmt: skip


def _annotations(deployment: Object, revision: int) -> dict[str, str]:
    wanted = deployment["spec"]["replicas"]
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    most = wanted + pods.absolute(rolling.get("maxSurge"), wanted, round_up=True)
    return {
        _REVISION: str(revision),
        "deployment.kubernetes.io/desired-replicas": str(wanted),
        "deployment.kubernetes.io/max-replicas": str(most),
    }


def _conditions(deployment: Object, counts: dict[str, int], name: str) -> list[Object]:
    wanted, moment = deployment["spec"]["replicas"], now_text()
    done = counts["updatedReplicas"] == wanted == counts["availableReplicas"] == counts["replicas"]
    enough = counts["availableReplicas"] >= wanted - pods.absolute(
        deployment["spec"]["strategy"].get("rollingUpdate", {}).get("maxUnavailable"), wanted, False
    )
    available = (
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        if enough
        else (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    )
    progress = (
        ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
        if done
        else ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
    )
    return [
        pods.condition(deployment, "Available", *available, moment),
        pods.condition(deployment, "Progressing", *progress, moment),
    ]
