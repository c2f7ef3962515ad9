"""Which claims hold devices of a pool, and which pods with a node use a claim.

A claim is deallocated when the last pod that uses it has ended, so these are the pods to wait for.
"""

from collections.abc import Collection, Iterable

from fairlead.claims.pools import PoolKey
from fairlead.cluster.grouped import Grouped
from fairlead.model.claims import AllocatedDevice
from fairlead.model.pods import Pod


class ClaimHolders:
    def __init__(self) -> None:
        #: Uids of what holds devices: claims, what stands for them, and devices that are kept.
        self._in_pool: Grouped[PoolKey, None] = Grouped()
        #: Uids of pods, by the key of a claim; and the keys of the claims of each pod.
        self._pods: Grouped[str, None] = Grouped()
        self._claims: dict[str, tuple[str, ...]] = {}

    def hold(
        self, uid: str, old: Iterable[AllocatedDevice], new: Iterable[AllocatedDevice]
    ) -> None:
        """What it holds has changed."""
        before, after = _pools(old), _pools(new)
        for pool in before - after:
            self._in_pool.drop(pool, uid)
        for pool in after - before:
            self._in_pool.put(pool, uid, None)

    def in_pool(self, pool: PoolKey) -> Collection[str]:
        return self._in_pool.of(pool).keys()

    def came(self, pod: Pod) -> None:
        """The pod has a node, or uses other claims there than before."""
        self.left(pod.uid)
        keys = tuple(use.key for use in pod.request.claims if use.key)
        if keys:
            self._claims[pod.uid] = keys
        for key in keys:
            self._pods.put(key, pod.uid, None)

    def left(self, uid: str) -> None:
        """The pod has no node any more."""
        for key in self._claims.pop(uid, ()):
            self._pods.drop(key, uid)

    def pods_of(self, claim: str) -> Collection[str]:
        """Uids of the pods that use the claim "namespace/name"."""
        return self._pods.of(claim).keys()


def _pools(devices: Iterable[AllocatedDevice]) -> set[PoolKey]:
    return {(each.driver, each.pool) for each in devices}
