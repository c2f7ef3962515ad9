"""Volume claims, volumes and other storage; the pods that use them; and bindings on their way.

What the API server shows and what rules see differ in one thing. When a pod is placed, the volumes
that it will bind and the node that it wants claims provisioned on are *assumed*: rules see them at
once, so that the next pod does not take the same volume. Whatever the API server tells about an
object replaces what was assumed of it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, assert_never

from fairlead.cluster.attached import AttachedVolumes
from fairlead.cluster.grouped import Grouped
from fairlead.cluster.open_volumes import OpenVolume, OpenVolumes
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.storage import (
    AVAILABLE,
    Attachment,
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    StorageObject,
    Volume,
    VolumeClaim,
    VolumePlan,
)
from fairlead.model.volumes import Disk, PodVolumes

if TYPE_CHECKING:
    from fairlead.cluster.volume_outlook import VolumeOutlook

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeenBefore:
    """What rules saw before a plan was assumed; None of what they did not see."""

    volumes: Mapping[str, Volume | None]
    volume_claims: Mapping[str, VolumeClaim | None]
    #: Volumes by the claim that they belong to, in their order.
    of_claim: Mapping[str, Mapping[str, Volume]]


class Storage:
    """What rules may ask about storage. `Cluster` puts objects, and pods on nodes."""

    def __init__(self, row_of: dict[str, int]) -> None:
        self.volume_claims: dict[str, VolumeClaim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CsiDriver] = {}
        self._capacities: dict[str, StorageCapacity] = {}
        self._observed_volume_claims: dict[str, VolumeClaim] = {}
        self._observed_volumes: dict[str, Volume] = {}
        #: Volumes that any claim of their class may take, and volumes that belong to a claim.
        self._open = OpenVolumes()
        self._of_claim: Grouped[str, Volume] = Grouped()
        self._capacity_of: Grouped[str, StorageCapacity] = Grouped()
        #: Node and volumes of pods, by uid; and pods by claim and by disk.
        self._pods: dict[str, tuple[str, PodVolumes]] = {}
        self._users: Grouped[str, str] = Grouped()
        self._disks: Grouped[str, str] = Grouped()
        self.attached = AttachedVolumes(self, row_of)
        #: What was last asked about all nodes, and the answer, until storage or a node changes.
        self.outlook: tuple[PodVolumes, VolumeOutlook] | None = None

    # -- asking ------------------------------------------------------------------------------

    def waits(self, claim: VolumeClaim) -> bool:
        """Is the claim to be bound only when a pod that uses it is placed?"""
        found = self.classes.get(claim.storage_class)
        return found is not None and found.waits and not claim.volume

    def open_volumes(self, storage_class: str) -> Sequence[OpenVolume]:
        """Volumes that any claim of the class may take, smallest first."""
        return self._open.of(storage_class)

    def volumes_of(self, claim: VolumeClaim) -> Iterator[Volume]:
        """Volumes of the claim's class that are meant for this claim and no other."""
        for volume in self._of_claim.of(claim.key).values():
            if volume.belongs_to(claim) and volume.storage_class == claim.storage_class:
                yield volume

    def capacities(self, storage_class: str) -> Iterable[StorageCapacity]:
        return self._capacity_of.of(storage_class).values()

    def in_use(self, claim: str) -> bool:
        """Does a pod that is on a node, or is being bound there, use the claim?"""
        return claim in self._users

    def conflicting_nodes(self, disk: Disk) -> set[str]:
        """Nodes where a pod uses the same disk in a way that does not go together."""
        return {
            node
            for uid, node in self._disks.of(disk.identity).items()
            if any(disk.conflicts(other) for other in self._pods[uid][1].disks)
        }

    def users_of(self, claim: str) -> Iterable[str]:
        """Nodes with pods that use the claim."""
        return self._users.of(claim).values()

    # -- what the API server shows -----------------------------------------------------------

    def put(self, observed: StorageObject) -> bool:
        """Takes in an object. False when it says nothing that rules could see."""
        self.outlook = None
        match observed:
            case VolumeClaim():
                self._observed_volume_claims[observed.key] = observed
                return self._see_volume_claim(observed.key, observed)
            case Volume():
                self._observed_volumes[observed.name] = observed
                return self._see_volume(observed.name, observed)
            case StorageClass():
                self.attached.look_again()
                return _put(self.classes, observed.name, observed)
            case CsiDriver():
                return _put(self.drivers, observed.name, observed)
            case StorageCapacity():
                self._drop_capacity(observed.key)
                self._capacity_of.put(observed.storage_class, observed.key, observed)
                return _put(self._capacities, observed.key, observed)
            case CsiNode() | Attachment():
                return self.attached.put(observed)
            case _:
                assert_never(observed)

    def remove(self, gone: StorageObject) -> bool:
        """Forgets an object. False if it was not known."""
        self.outlook = None
        match gone:
            case VolumeClaim():
                self._observed_volume_claims.pop(gone.key, None)
                return self._see_volume_claim(gone.key, None)
            case Volume():
                self._observed_volumes.pop(gone.name, None)
                return self._see_volume(gone.name, None)
            case StorageClass():
                self.attached.look_again()
                return self.classes.pop(gone.name, None) is not None
            case CsiDriver():
                return self.drivers.pop(gone.name, None) is not None
            case StorageCapacity():
                self._drop_capacity(gone.key)
                return self._capacities.pop(gone.key, None) is not None
            case CsiNode() | Attachment():
                return self.attached.remove(gone)
            case _:
                assert_never(gone)

    def _drop_capacity(self, key: str) -> None:
        old = self._capacities.get(key)
        if old is not None:
            self._capacity_of.drop(old.storage_class, key)

    # -- what is assumed ---------------------------------------------------------------------

    def assume(self, plan: VolumePlan, node: str) -> None:
        """Rules see the plan as carried out from now on."""
        self.outlook = None
        for claim, volume in plan.bindings:
            taken = replace(volume, claim=claim.key, claim_uid=claim.uid)
            self._see_volume(volume.name, taken)
        for claim in plan.provisions:
            self._see_volume_claim(claim.key, replace(claim, selected_node=node))

    def settle(self, plan: VolumePlan) -> None:
        """The plan is done, or has failed: rules see what the API server showed last."""
        self.outlook = None
        for _, volume in plan.bindings:
            self._see_volume(volume.name, self._observed_volumes.get(volume.name))
        for claim in plan.provisions:
            self._see_volume_claim(claim.key, self._observed_volume_claims.get(claim.key))

    def before(self, plan: VolumePlan) -> SeenBefore:
        """What rules see of everything that the plan is about."""
        volumes = {volume.name: self.volumes.get(volume.name) for _, volume in plan.bindings}
        owners = {claim.key for claim, _ in plan.bindings}
        owners.update(volume.claim for volume in volumes.values() if volume is not None)
        return SeenBefore(
            volumes,
            {claim.key: self.volume_claims.get(claim.key) for claim in plan.provisions},
            {owner: dict(self._of_claim.of(owner)) for owner in owners},
        )

    def restore(self, before: SeenBefore) -> None:
        """Rules see again what they saw before a plan was assumed."""
        self.outlook = None
        for name, volume in before.volumes.items():
            self._see_volume(name, volume)
        for key, claim in before.volume_claims.items():
            self._see_volume_claim(key, claim)
        for owner, volumes in before.of_claim.items():
            self._of_claim.replace(owner, volumes)

    def _see_volume_claim(self, key: str, claim: VolumeClaim | None) -> bool:
        old = self.volume_claims.get(key)
        changed = _replace(self.volume_claims, key, claim)
        if changed:
            self.attached.volume_claim_changed(key, old, claim)
        return changed

    def _see_volume(self, name: str, volume: Volume | None) -> bool:
        old = self.volumes.get(name)
        if old is not None:
            self._open.drop(old)
            self._of_claim.drop(old.claim, name)
        if volume is not None and volume.claim:
            self._of_claim.put(volume.claim, name, volume)
        elif volume is not None and volume.phase == AVAILABLE and not volume.deleting:
            self._open.put(volume)
        changed = _replace(self.volumes, name, volume)
        if changed:
            self.attached.volume_changed(name, old, volume)
        return changed

    # -- pods on nodes -----------------------------------------------------------------------

    def node_changed(self, name: str) -> None:
        """The node came to a row, or left it, or has other labels."""
        self.outlook = None
        self.attached.node_changed(name)

    def use(self, uid: str, node: str, volumes: PodVolumes) -> None:
        """A pod with volumes is on the node, or is being bound there."""
        self._pods[uid] = node, volumes
        for claim in volumes.claims:
            self._users.put(claim.key, uid, node)
        for disk in volumes.disks:
            self._disks.put(disk.identity, uid, node)
        self.attached.pod_came(uid, node, volumes)

    def leave(self, uid: str) -> None:
        found = self._pods.pop(uid, None)
        if found is None:
            return
        node, volumes = found
        for claim in volumes.claims:
            self._users.drop(claim.key, uid)
        for disk in volumes.disks:
            self._disks.drop(disk.identity, uid)
        self.attached.pod_went(uid, node)


def _put(table: dict[str, T], key: str, new: T) -> bool:
    changed = table.get(key) != new
    table[key] = new
    return changed


def _replace(table: dict[str, T], key: str, new: T | None) -> bool:
    if new is not None:
        return _put(table, key, new)
    return table.pop(key, None) is not None
