"""How many volumes of each CSI driver a node holds, and how many it can hold, as columns.

A volume counts once a node, however many pods there use it. What a pod's claim stands for changes
while it is bound, so a node is counted again when anything about it changed, but only at the next
query. A cluster without limits pays nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.grouped import Grouped
from fairlead.model.storage import Attachment, CsiNode, Volume, VolumeClaim
from fairlead.model.volumes import CsiVolume, PodVolumes

if TYPE_CHECKING:
    from fairlead.cluster.storage import Storage

#: Driver and handle.
VolumeIdentity = tuple[str, str]
NO_LIMIT = np.iinfo(np.int64).max
#: Drivers that pods ask about and that are kept as arrays.
_MOST_ARRAYS = 64

#: In-tree provisioners, and the CSI drivers that took over from them.
MIGRATED_DRIVERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


class _Columns:
    """One number a row by name, with the same number for rows of which nothing is said.

    A node may name any number of drivers, so only those that pods ask about become arrays.
    """

    def __init__(self, filler: int = 0) -> None:
        self._filler = filler
        self._values: dict[str, dict[int, int]] = {}
        self._arrays: dict[str, PerNode] = {}

    def put(self, name: str, row: int, value: int = 1) -> None:
        self._values.setdefault(name, {})[row] = value
        self._write(name, row, value)

    def clear(self, name: str, row: int) -> None:
        rows = self._values.get(name, {})
        if rows.pop(row, None) is not None and not rows:
            del self._values[name]
        self._write(name, row, self._filler)

    def first(self, name: str, rows: int) -> PerNode:
        found = self._arrays.get(name)
        if found is None or len(found) < rows:
            found = self._array(name, rows)
        return found[:rows]

    def at(self, name: str, row: int) -> int:
        return self._values.get(name, {}).get(row, self._filler)

    def _write(self, name: str, row: int, value: int) -> None:
        array = self._arrays.get(name)
        if array is not None and row < len(array):
            array[row] = value
        else:
            self._arrays.pop(name, None)

    def _array(self, name: str, rows: int) -> PerNode:
        array: PerNode = np.full(max(64, 2 * rows), self._filler, dtype=np.int64)
        for row, value in self._values.get(name, {}).items():
            array[row] = value
        if len(self._arrays) >= _MOST_ARRAYS:
            del self._arrays[next(iter(self._arrays))]
        self._arrays[name] = array
        return array


class AttachedVolumes:
    """Rows are those of the columns; what is known of a node waits for its row to come."""

    def __init__(self, storage: "Storage", row_of: dict[str, int]) -> None:
        self._storage = storage
        self._row_of = row_of
        self._csi_nodes: dict[str, CsiNode] = {}
        self._attachments: dict[str, Attachment] = {}
        self._attached_to: Grouped[str, Attachment] = Grouped()  # by node
        self._attached_as: Grouped[str, Attachment] = Grouped()  # by volume
        self._claims_on: Grouped[str, VolumeClaim] = Grouped()  # by volume
        self._pods_on: Grouped[str, PodVolumes] = Grouped()  # by node
        #: Nodes to be counted again at the next query.
        self._stale: set[str] = set()
        #: Of each node that was counted: its row, what its pods use, and the drivers concerned.
        self._counted: dict[
            str, tuple[int, frozenset[VolumeIdentity], CsiNode, frozenset[str]]
        ] = {}
        self._nodes_with: Grouped[VolumeIdentity, int] = Grouped()  # rows by node
        self._held = _Columns()  # by driver, as are the next two
        self._limits = _Columns(NO_LIMIT)
        self._installed = _Columns()
        self._migrated = _Columns()  # by in-tree plugin

    # -- asking ------------------------------------------------------------------------------

    def over_limit(self, wanted: Iterable[CsiVolume], rows: int) -> NodeMask:
        """True where the volumes would be more than a driver's limit."""
        self._count_stale()
        over: NodeMask = np.zeros(rows, dtype=np.bool_)
        for driver, need in self._needed(set(wanted), rows).items():
            left = self._limits.first(driver, rows) - self._held.first(driver, rows)
            over |= (need > 0) & (need > left)
        return over

    def over_limit_on(self, wanted: Iterable[CsiVolume], node: str, row: int) -> bool:
        """The same of one node, which is at the row."""
        self._count_stale()
        needs: Counter[str] = Counter()
        for volume in set(wanted):
            users = self._nodes_with.of((volume.driver, volume.handle))
            needs[volume.driver] += node not in users
        return any(
            need > self._limits.at(driver, row) - self._held.at(driver, row)
            for driver, need in needs.items()
            if need
        )

    def installed(self, driver: str, rows: int) -> NodeMask:
        """True where the node's kubelet knows the driver."""
        self._count_stale()
        found: NodeMask = self._installed.first(driver, rows) > 0
        return found

    def migrated(self, plugin: str, rows: int) -> NodeMask:
        """True where the in-tree plugin's volumes are served by a CSI driver."""
        self._count_stale()
        found: NodeMask = self._migrated.first(plugin, rows) > 0
        return found

    def of_pod(self, volumes: PodVolumes) -> Iterator[CsiVolume]:
        """The volumes of a pod that a node's limit could count; missing claims are left out."""
        yield from volumes.inline
        for use in volumes.claims:
            claim = self._storage.volume_claims.get(use.key)
            found = self._resolve(claim) if claim is not None else None
            if found is not None:
                yield found

    def _needed(self, wanted: Collection[CsiVolume], rows: int) -> dict[str, PerNode]:
        """How many more volumes of each driver each row would have."""
        counts = Counter(volume.driver for volume in wanted)
        needed: dict[str, PerNode] = {
            driver: np.full(rows, count, dtype=np.int64) for driver, count in counts.items()
        }
        for volume in wanted:
            if users := self._nodes_with.of((volume.driver, volume.handle)):
                needed[volume.driver][list(users.values())] -= 1
        return needed

    def _resolve(self, claim: VolumeClaim) -> CsiVolume | None:
        """What the claim is, or will be, to a CSI driver; None when it is not counted."""
        volume = self._storage.volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            return volume.csi
        found = self._storage.classes.get(claim.storage_class)
        if found is None or not found.provisioner:
            return None
        driver = MIGRATED_DRIVERS.get(found.provisioner, found.provisioner)
        return CsiVolume(driver, f"not bound yet: {claim.key}")

    # -- following ---------------------------------------------------------------------------

    def put(self, observed: CsiNode | Attachment) -> bool:
        if isinstance(observed, CsiNode):
            changed = self._csi_nodes.get(observed.name) != observed
            self._csi_nodes[observed.name] = observed
            self._look_again_at(observed.name)
            return changed
        changed = self._attachments.get(observed.name) != observed
        self.remove(observed)
        self._attachments[observed.name] = observed
        self._attached_to.put(observed.node, observed.name, observed)
        self._attached_as.put(observed.volume, observed.name, observed)
        self._look_again_at(observed.node)
        return changed

    def remove(self, gone: CsiNode | Attachment) -> bool:
        if isinstance(gone, CsiNode):
            self._look_again_at(gone.name)
            return self._csi_nodes.pop(gone.name, None) is not None
        old = self._attachments.pop(gone.name, None)
        if old is None:
            return False
        self._attached_to.drop(old.node, old.name)
        self._attached_as.drop(old.volume, old.name)
        self._look_again_at(old.node)
        return True

    def pod_came(self, uid: str, node: str, volumes: PodVolumes) -> None:
        self._pods_on.put(node, uid, volumes)
        self._look_again_at(node)

    def pod_went(self, uid: str, node: str) -> None:
        self._pods_on.drop(node, uid)
        self._look_again_at(node)

    def node_changed(self, name: str) -> None:
        """The node came to a row, or left it."""
        self._look_again_at(name)

    def look_again(self) -> None:
        """Anything may count differently now."""
        self._look_again_at(*self._pods_on.groups)

    def _look_again_at(self, *names: str) -> None:
        """A node without a row, and not counted, is looked at when it comes."""
        for name in names:
            if name in self._row_of or name in self._counted:
                self._stale.add(name)
            else:
                self._stale.discard(name)

    def volume_claim_changed(
        self, key: str, old: VolumeClaim | None, new: VolumeClaim | None
    ) -> None:
        self._look_again_at(*self._storage.users_of(key))
        if old is not None:
            self._claims_on.drop(old.volume, key)
        if new is not None and new.volume:
            self._claims_on.put(new.volume, key, new)

    def volume_changed(self, name: str, old: Volume | None, new: Volume | None) -> None:
        if old is not None and new is not None and old.csi == new.csi:
            return
        self._look_again_at(*(each.node for each in self._attached_as.of(name).values()))
        for claim in self._claims_on.of(name):
            self._look_again_at(*self._storage.users_of(claim))

    # -- counting ----------------------------------------------------------------------------

    def _count_stale(self) -> None:
        if not self._stale:
            return
        # A row may have gone from one of these nodes to another: first all leave, then all come.
        for name in self._stale:
            self._clear(name)
        for name in self._stale:
            row = self._row_of.get(name)
            if row is not None:
                self._count(name, row)
        self._stale.clear()

    def _clear(self, name: str) -> None:
        if name not in self._counted:
            return
        row, used, observed, held = self._counted.pop(name)
        for identity in used:
            self._nodes_with.drop(identity, name)
        for columns, names in (
            (self._held, held),
            (self._limits, [driver for driver, _ in observed.limits]),
            (self._installed, observed.drivers),
            (self._migrated, observed.migrated),
        ):
            for each in names:
                columns.clear(each, row)

    def _count(self, name: str, row: int) -> None:
        if not any(name in kept for kept in (self._csi_nodes, self._pods_on, self._attached_to)):
            return
        observed = self._csi_nodes.get(name) or CsiNode(name)
        for driver, limit in observed.limits:
            self._limits.put(driver, row, limit)
        for driver in observed.drivers:
            self._installed.put(driver, row)
        for plugin in observed.migrated:
            self._migrated.put(plugin, row)
        used = frozenset(self._used_on(name))
        for identity in used:
            self._nodes_with.put(identity, name, row)
        counts = Counter(driver for driver, _ in used.union(self._attached_on(name)))
        self._counted[name] = row, used, observed, frozenset(counts)
        for driver, count in counts.items():
            self._held.put(driver, row, count)

    def _used_on(self, name: str) -> Iterator[VolumeIdentity]:
        for volumes in self._pods_on.of(name).values():
            for volume in self.of_pod(volumes):
                yield volume.driver, volume.handle

    def _attached_on(self, name: str) -> Iterator[VolumeIdentity]:
        for attachment in self._attached_to.of(name).values():
            volume = self._storage.volumes.get(attachment.volume)
            if attachment.driver and volume and volume.csi and not volume.csi.plugin:
                yield attachment.driver, volume.csi.handle
