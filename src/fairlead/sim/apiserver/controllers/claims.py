"""Resource claims: made from templates for pods, and freed when their pods have ended."""

from typing import Any

from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller
from fairlead.sim.apiserver.store import Change, StoredObject
from fairlead.sim.apiserver.updating import modify

Object = dict[str, Any]

CLAIMS = "resourceclaims.resource.k8s.io"
TEMPLATES = "resourceclaimtemplates.resource.k8s.io"
PROTECTION = "resource.kubernetes.io/delete-protection"
_ENTRY = "resource.kubernetes.io/pod-claim-name"
_LONGEST_PREFIX = 57


class ClaimMaker(Controller):
    """A claim for each entry of a pod that names a template, and its name in the pod's status."""

    resource = "pods"
    follows = frozenset({TEMPLATES})

    def concerns(self, resource: str, change: Change) -> list[str]:
        if resource == self.resource:
            return [change.entry.key] if _has_claims(change.entry) else []
        entries = self.api.store.collection("pods").entries.values()
        within = [each for each in entries if each.namespace == change.entry.namespace]
        return [each.key for each in within if _has_claims(each)]

    async def sync(self, key: str) -> None:
        entry = self.api.store.get("pods", key)
        if entry is None or not _has_claims(entry):
            return
        pod = entry.object()
        if not pods.is_active(pod):
            return
        known = {each["name"]: each for each in _statuses(pod)}
        for use in pod["spec"].get("resourceClaims") or ():
            template = use.get("resourceClaimTemplateName")
            if template and use["name"] not in known:
                made = await self._made(pod, use["name"], template)
                if made is None:
                    return  # the pod waits for the template
                known[use["name"]] = {"name": use["name"], "resourceClaimName": made}
        if list(known.values()) != _statuses(pod):
            status = {**pod["status"], "resourceClaimStatuses": list(known.values())}
            await pods.set_status(self.api, "pods", pod, status)

    async def _made(self, pod: Object, entry: str, template_name: str) -> str | None:
        """The name of the claim: one that was made before, or a new one."""
        metadata = pod["metadata"]
        for resource, owned in self.owners.dependents(metadata["uid"]):
            found = owned.object()["metadata"] if resource == CLAIMS else {}
            if (found.get("annotations") or {}).get(_ENTRY) == entry:
                return str(found["name"])
        template = self.api.find(TEMPLATES, f"{metadata['namespace']}/{template_name}")
        if template is None:
            return None
        wanted = template["spec"].get("metadata") or {}
        annotations = {**(wanted.get("annotations") or {}), _ENTRY: entry}
        claim = {
            "metadata": {
                "generateName": f"{metadata['name']}-{entry}"[: _LONGEST_PREFIX - 1] + "-",
                "labels": wanted.get("labels") or {},
                "annotations": annotations,
                "ownerReferences": [pods.owner_reference(pod, "v1", "Pod")],
            },
            "spec": template["spec"]["spec"],
        }
        made = await pods.make(self.api, CLAIMS, metadata["namespace"], claim)
        return made.name


class ClaimKeeper(Controller):
    """Takes pods that are gone out of `reservedFor`; with the last one the devices are free."""

    resource = CLAIMS
    follows = frozenset({"pods"})

    def concerns(self, resource: str, change: Change) -> list[str]:
        if resource == self.resource:
            return [change.entry.key]
        if not _has_claims(change.entry) or not self.api.store.collection(CLAIMS).entries:
            return []
        pod = change.entry.object()
        names = [use.get("resourceClaimName") for use in pod["spec"].get("resourceClaims") or ()]
        names += [each.get("resourceClaimName") for each in _statuses(pod)]
        extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
        names.append(extended.get("resourceClaimName"))
        return [f"{change.entry.namespace}/{name}" for name in names if name]

    async def sync(self, key: str) -> None:
        claim = self.api.find(CLAIMS, key)
        if claim is None:
            return
        is_over = bool(claim["metadata"].get("deletionTimestamp"))
        if self._freed(claim) != claim:
            # By what is stored then: a scheduler may write to it at the same time.
            await modify(self.api, self._call(claim, "status"), self._freed)
            claim = self.api.find(CLAIMS, key) or claim
            is_over = is_over or not claim.get("status")
        if self._is_done(claim):
            await pods.remove(self.api, CLAIMS, *key.split("/"))
        is_protected = PROTECTION in (claim["metadata"].get("finalizers") or ())
        if is_over and is_protected and not (claim.get("status") or {}).get("allocation"):
            await modify(self.api, self._call(claim), _unprotected)

    def _call(self, claim: Object, subresource: str = "") -> Call:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        return pods.call_for(self.api, CLAIMS, namespace, name, subresource)

    def _freed(self, claim: Object) -> Object:
        """Without the pods that are gone; with the last one, without devices."""
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        kept = [user for user in users if self._uses(claim, user)]
        is_unused = not kept and claim["metadata"].get("deletionTimestamp")
        if kept == users and not (is_unused and status):
            return claim
        return {**claim, "status": {**status, "reservedFor": kept} if kept else {}}

    def _uses(self, claim: Object, user: Object) -> bool:
        """Entries of other kinds stay: it is not known when they end."""
        if user.get("resource") != "pods":
            return True
        pod = self.api.find("pods", f"{claim['metadata']['namespace']}/{user['name']}")
        if pod is None or pod["metadata"]["uid"] != user["uid"]:
            return False
        bound = bool(pod["spec"].get("nodeName"))
        return _lives(pod) and (bound or not pod["metadata"].get("deletionTimestamp"))

    def _is_done(self, claim: Object) -> bool:
        """Made for a pod that has ended."""
        owners = claim["metadata"].get("ownerReferences") or ()
        names = [each["name"] for each in owners if each["kind"] == "Pod"]
        if not names or claim["metadata"].get("deletionTimestamp"):
            return False
        pod = self.api.find("pods", f"{claim['metadata']['namespace']}/{names[0]}")
        return pod is not None and not _lives(pod)


def _unprotected(claim: Object) -> Object:
    left = [each for each in claim["metadata"].get("finalizers") or () if each != PROTECTION]
    return {**claim, "metadata": {**claim["metadata"], "finalizers": left}}


def _has_claims(entry: StoredObject) -> bool:
    """Seen without decoding: most pods have none."""
    raw = entry.raw
    return b'"resourceClaims":[{"' in raw or b'"extendedResourceClaimStatus":{' in raw


def _statuses(pod: Object) -> list[Object]:
    return list((pod.get("status") or {}).get("resourceClaimStatuses") or ())


def _lives(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
