"""The JSON of storage objects, as far as placing pods needs it."""

import msgspec

from fairlead.kube.pod_volumes import InTree
from fairlead.kube.requests import LabelSelectorWire, NodeSelectorWire


class OwnerWire(msgspec.Struct, rename="camel", gc=False):
    uid: str = ""
    controller: bool | None = None
    kind: str = ""
    name: str = ""
    api_version: str = ""


class MetaWire(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerWire] | None = None

    def annotation(self, key: str) -> str | None:
        return (self.annotations or {}).get(key)


class RequestsWire(msgspec.Struct, gc=False):
    requests: dict[str, str] | None = None


class VolumeClaimSpecWire(msgspec.Struct, rename="camel", gc=False):
    access_modes: list[str] | None = None
    selector: LabelSelectorWire | None = None
    resources: RequestsWire | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PhaseWire(msgspec.Struct, gc=False):
    phase: str = ""


class VolumeClaimWire(msgspec.Struct, gc=False):
    metadata: MetaWire
    spec: VolumeClaimSpecWire = msgspec.field(default_factory=VolumeClaimSpecWire)
    status: PhaseWire = msgspec.field(default_factory=PhaseWire)


class ClaimRefWire(msgspec.Struct, gc=False):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class AffinityWire(msgspec.Struct, gc=False):
    required: NodeSelectorWire | None = None


class CsiWire(msgspec.Struct, rename="camel", gc=False):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpecWire(InTree, rename="camel", gc=False, kw_only=True):
    access_modes: list[str] | None = None
    capacity: dict[str, str] | None = None
    claim_ref: ClaimRefWire | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: AffinityWire | None = None
    csi: CsiWire | None = None


class VolumeWire(msgspec.Struct, gc=False):
    metadata: MetaWire
    spec: VolumeSpecWire = msgspec.field(default_factory=VolumeSpecWire)
    status: PhaseWire = msgspec.field(default_factory=PhaseWire)


class TopologyLineWire(msgspec.Struct, gc=False):
    key: str
    values: list[str] | None = None


class TopologyWire(msgspec.Struct, rename="camel", gc=False):
    match_label_expressions: list[TopologyLineWire] | None = None


class ClassWire(msgspec.Struct, rename="camel", gc=False):
    metadata: MetaWire
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyWire] | None = None


class CountWire(msgspec.Struct, gc=False):
    count: int | None = None


class NodeDriverWire(msgspec.Struct, gc=False):
    name: str
    allocatable: CountWire | None = None


class NodeDriversWire(msgspec.Struct, gc=False):
    drivers: list[NodeDriverWire] | None = None


class CsiNodeWire(msgspec.Struct, gc=False):
    metadata: MetaWire
    spec: NodeDriversWire = msgspec.field(default_factory=NodeDriversWire)


class DriverSpecWire(msgspec.Struct, rename="camel", gc=False):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriverWire(msgspec.Struct, gc=False):
    metadata: MetaWire
    spec: DriverSpecWire = msgspec.field(default_factory=DriverSpecWire)


class CapacityWire(msgspec.Struct, rename="camel", gc=False):
    metadata: MetaWire
    storage_class_name: str = ""
    node_topology: LabelSelectorWire | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None


class SourceWire(msgspec.Struct, rename="camel", gc=False):
    persistent_volume_name: str | None = None


class AttachmentSpecWire(msgspec.Struct, rename="camel", gc=False):
    attacher: str = ""
    node_name: str = ""
    source: SourceWire = msgspec.field(default_factory=SourceWire)


class AttachmentWire(msgspec.Struct, gc=False):
    metadata: MetaWire
    spec: AttachmentSpecWire = msgspec.field(default_factory=AttachmentSpecWire)
