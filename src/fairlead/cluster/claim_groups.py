"""Claims of PodGroups: one for all pods of a group, and reserved for the group.

Which claims these are is said by the PodGroup and by its pods: both have an entry of the same name
for the same claim or template. Such a claim counts for one of the pods that have a node.
"""

from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import POD_GROUPS, SCHEDULING, ClaimUser, ResourceClaim
from fairlead.model.gangs import GangSpec, GroupClaims

#: The first part of the key of a gang that is a PodGroup of Kubernetes.
_NATIVE = "native/"


class ClaimGroups:
    """PodGroups with claims, by "namespace/name"."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupClaims] = {}
        #: Uids of pods with a node, by the key of a claim, in the order in which they came.
        self._pods: dict[str, dict[str, None]] = {}

    def put(self, spec: GangSpec) -> None:
        """The object of a gang was seen."""
        self.drop(spec.key)
        if spec.claims is not None:
            self._groups[spec.key.removeprefix(_NATIVE)] = spec.claims

    def drop(self, key: str) -> None:
        """The object of the gang is gone."""
        if key.startswith(_NATIVE):
            self._groups.pop(key.removeprefix(_NATIVE), None)

    def user_of(self, use: ClaimUse) -> ClaimUser | None:
        """The PodGroup that the claim is to be reserved for; None: the pod."""
        group = self._groups.get(use.group) if use.group else None
        if group is None:
            return None
        names = ("" if use.template else use.name, use.template)
        if all((use.entry, *names) != (e.entry, e.name, e.template) for e in group.entries):
            return None
        return ClaimUser(group.uid, use.group.partition("/")[2], POD_GROUPS, SCHEDULING)

    def owns(self, use: ClaimUse, claim: ResourceClaim) -> bool:
        """Whether the claim was made for the PodGroup of the pod, as a kubelet asks."""
        return bool(use.group) and claim.owner_group == use.group

    # -- pods that a claim of a group counts for ------------------------------------------------

    def came(self, uid: str, key: str) -> None:
        """A pod with a node uses the claim, which is or may come to be reserved for a group."""
        self._pods.setdefault(key, {})[uid] = None

    def users(self, claim: ResourceClaim) -> tuple[str, ...]:
        """Uids of these pods."""
        return tuple(self._pods.get(claim.key, ()))

    def left(self, uid: str, key: str) -> str | None:
        """The pod has no node any more; the pod that the claim counts for instead, if any."""
        pods = self._pods.get(key)
        if pods is None or uid not in pods:
            return None
        was_first = next(iter(pods)) == uid
        del pods[uid]
        if not pods:
            del self._pods[key]
            return None
        return next(iter(pods)) if was_first else None

    def pays(self, uid: str, claim: ResourceClaim) -> bool:
        """Whether the claim counts for this pod."""
        return next(iter(self._pods.get(claim.key, ())), uid) == uid

    def is_counted(self, claim: ResourceClaim) -> bool:
        """Whether the claim counts for any pod."""
        return claim.key in self._pods
