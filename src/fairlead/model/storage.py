"""What storage is made of, as far as placing pods is concerned.

The version takes no part in comparisons: objects that differ in nothing else are the same to us.
"""

from collections.abc import Mapping
from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import LabelSelector
from fairlead.model.volumes import CsiVolume

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
AVAILABLE = "Available"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    storage_class: str = ""
    #: The volume it is bound to, or is to be bound to.
    volume: str = ""
    #: Both sides are bound to each other: nothing remains to be done.
    bind_completed: bool = False
    lost: bool = False
    deleting: bool = False
    #: The node for which it is to be provisioned; None while it is not selected.
    selected_node: str | None = None
    #: None when it does not say how much it needs.
    size_bytes: int | None = None
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    selector: LabelSelector | None = None
    #: Uid of the object that controls it.
    owner: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def bound(self) -> bool:
        return bool(self.volume) and self.bind_completed


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume."""

    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    storage_class: str = ""
    capacity_bytes: int = 0
    phase: str = ""
    deleting: bool = False
    #: Key and uid of the claim it belongs to; the uid may not be known yet.
    claim: str = ""
    claim_uid: str = ""
    #: None: any node will do. Empty: no node can.
    node_terms: tuple[NodeTerm, ...] | None = None
    #: The same where the in-tree plugin has been moved to CSI; None where that changes nothing.
    migrated_terms: tuple[NodeTerm, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    csi: CsiVolume | None = None

    @property
    def key(self) -> str:
        return self.name

    def belongs_to(self, claim: VolumeClaim) -> bool:
        return self.claim == claim.key and self.claim_uid in ("", claim.uid)


@dataclass(frozen=True, slots=True)
class StorageClass:
    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    provisioner: str = ""
    #: WaitForFirstConsumer: a claim is bound when a pod that uses it is placed.
    waits: bool = False
    #: Where it can provision; without any term everywhere.
    topologies: tuple[NodeTerm, ...] = ()

    @property
    def key(self) -> str:
        return self.name

    @property
    def provisions(self) -> bool:
        return self.provisioner not in ("", NO_PROVISIONER)


@dataclass(frozen=True, slots=True)
class CsiNode:
    """What a node's kubelet says of its CSI drivers. It has the node's name."""

    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    drivers: tuple[str, ...] = ()
    #: How many volumes of a driver the node can hold, for drivers that say so.
    limits: tuple[tuple[str, int], ...] = ()
    #: In-tree plugins whose volumes are served by CSI drivers here.
    migrated: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CsiDriver:
    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    #: It publishes how much it can provision where (`storageCapacity`).
    tracks_capacity: bool = False
    #: Pods with its volumes must not go to nodes without it (from 1.37 on).
    must_be_installed: bool = False

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class StorageCapacity:
    """How much a driver can provision of one class on some nodes."""

    namespace: str
    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    storage_class: str = ""
    #: The nodes; None for none.
    topology: LabelSelector | None = None
    capacity_bytes: int | None = None
    largest_bytes: int | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def most_bytes(self) -> int | None:
        """The size of the largest volume; None when the driver does not say."""
        return self.capacity_bytes if self.largest_bytes is None else self.largest_bytes

    def holds(self, size_bytes: int) -> bool:
        return self.most_bytes is not None and self.most_bytes >= size_bytes


@dataclass(frozen=True, slots=True)
class Attachment:
    """A VolumeAttachment: a volume that is, or is to be, attached to a node."""

    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    driver: str = ""
    node: str = ""
    volume: str = ""

    @property
    def key(self) -> str:
        return self.name


StorageObject = (
    VolumeClaim | Volume | StorageClass | CsiNode | CsiDriver | StorageCapacity | Attachment
)


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """What must be bound or provisioned before a pod can be bound to a node.

    The objects are those that were decided on: the writes require that they have not changed.
    """

    bindings: tuple[tuple[VolumeClaim, Volume], ...] = ()
    provisions: tuple[VolumeClaim, ...] = ()

    @property
    def claims(self) -> tuple[VolumeClaim, ...]:
        return (*(claim for claim, _ in self.bindings), *self.provisions)
