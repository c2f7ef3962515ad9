"""The JSON of claims, volumes, classes, CSI nodes, drivers, capacities and attachments."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
from msgspec import Raw

from fairlead.kube.pod_volumes import as_csi
from fairlead.kube.requests import (
    RequirementWire,
    read_requirements,
    read_selector,
    read_terms,
)
from fairlead.kube.storage_wire import (
    AttachmentWire,
    CapacityWire,
    ClassWire,
    CsiDriverWire,
    CsiNodeWire,
    RequestsWire,
    TopologyWire,
    VolumeClaimWire,
    VolumeWire,
)
from fairlead.model.pods import NodeTerm
from fairlead.model.quantities import amount
from fairlead.model.selectors import Requirement
from fairlead.model.storage import (
    Attachment,
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    StorageObject,
    Volume,
    VolumeClaim,
)
from fairlead.model.volumes import CsiVolume

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_STORAGE = "storage"

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION = "failure-domain.beta.kubernetes.io/region"
#: The label by which a CSI driver knows zones, for drivers that took over from in-tree plugins.
_ZONE_OF_DRIVER = {
    "ebs.csi.aws.com": "topology.ebs.csi.aws.com/zone",
    "pd.csi.storage.gke.io": "topology.gke.io/zone",
    "cinder.csi.openstack.org": "topology.cinder.csi.openstack.org/zone",
}


_claims = msgspec.json.Decoder(VolumeClaimWire)
_volumes = msgspec.json.Decoder(VolumeWire)
_classes = msgspec.json.Decoder(ClassWire)
_csi_nodes = msgspec.json.Decoder(CsiNodeWire)
_drivers = msgspec.json.Decoder(CsiDriverWire)
_capacities = msgspec.json.Decoder(CapacityWire)
_attachments = msgspec.json.Decoder(AttachmentWire)


def decode_volume_claim(raw: bytes | Raw) -> VolumeClaim:
    wire = _claims.decode(raw)
    meta, spec = wire.metadata, wire.spec
    size = ((spec.resources or RequestsWire()).requests or {}).get(_STORAGE)
    old_class = meta.annotation(_BETA_CLASS)
    owners = (owner.uid for owner in meta.owner_references or () if owner.controller)
    return VolumeClaim(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        storage_class=spec.storage_class_name or "" if old_class is None else old_class,
        volume=spec.volume_name,
        bind_completed=meta.annotation(BIND_COMPLETED) is not None,
        lost=wire.status.phase == "Lost",
        deleting=meta.deletion_timestamp is not None,
        selected_node=meta.annotation(SELECTED_NODE),
        size_bytes=None if size is None else amount(_STORAGE, size),
        access_modes=tuple(spec.access_modes or ()),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        selector=read_selector(spec.selector),
        owner=next(owners, ""),
    )


def decode_volume(raw: bytes | Raw) -> Volume:
    wire = _volumes.decode(raw)
    meta, spec = wire.metadata, wire.spec
    labels = meta.labels or {}
    old_class = meta.annotation(_BETA_CLASS)
    ref = spec.claim_ref
    required = spec.node_affinity.required if spec.node_affinity else None
    terms = None if required is None else _by_labels(read_terms(required))
    csi = CsiVolume(spec.csi.driver, spec.csi.volume_handle) if spec.csi else as_csi(spec, labels)
    return Volume(
        meta.name,
        meta.uid,
        meta.resource_version,
        storage_class=spec.storage_class_name if old_class is None else old_class,
        capacity_bytes=amount(_STORAGE, (spec.capacity or {}).get(_STORAGE, "0")),
        phase=wire.status.phase,
        deleting=meta.deletion_timestamp is not None,
        claim=f"{ref.namespace}/{ref.name}" if ref else "",
        claim_uid=ref.uid if ref else "",
        node_terms=terms,
        migrated_terms=_migrated(terms, labels, csi),
        labels=labels,
        access_modes=tuple(spec.access_modes or ()),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        csi=csi,
    )


def decode_class(raw: bytes | Raw) -> StorageClass:
    wire = _classes.decode(raw)
    meta = wire.metadata
    return StorageClass(
        meta.name,
        meta.uid,
        meta.resource_version,
        provisioner=wire.provisioner,
        waits=wire.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(_topology(found) for found in wire.allowed_topologies or ()),
    )


def decode_csi_node(raw: bytes | Raw) -> CsiNode:
    wire = _csi_nodes.decode(raw)
    meta, drivers = wire.metadata, wire.spec.drivers or ()
    limits = ((d.name, d.allocatable.count if d.allocatable else None) for d in drivers)
    plugins = meta.annotation(_MIGRATED_PLUGINS) or ""
    return CsiNode(
        meta.name,
        meta.uid,
        meta.resource_version,
        drivers=tuple(driver.name for driver in drivers),
        limits=tuple((name, count) for name, count in limits if count is not None),
        migrated=frozenset(filter(None, plugins.split(","))),
    )


def decode_csi_driver(raw: bytes | Raw) -> CsiDriver:
    wire = _drivers.decode(raw)
    meta, spec = wire.metadata, wire.spec
    return CsiDriver(
        meta.name,
        meta.uid,
        meta.resource_version,
        tracks_capacity=bool(spec.storage_capacity),
        must_be_installed=bool(spec.prevent_pod_scheduling_if_missing),
    )


def decode_capacity(raw: bytes | Raw) -> StorageCapacity:
    wire = _capacities.decode(raw)
    meta = wire.metadata
    return StorageCapacity(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        storage_class=wire.storage_class_name,
        topology=read_selector(wire.node_topology),
        capacity_bytes=_bytes(wire.capacity),
        largest_bytes=_bytes(wire.maximum_volume_size),
    )


def decode_attachment(raw: bytes | Raw) -> Attachment:
    wire = _attachments.decode(raw)
    meta, spec = wire.metadata, wire.spec
    return Attachment(
        meta.name,
        meta.uid,
        meta.resource_version,
        driver=spec.attacher,
        node=spec.node_name,
        volume=spec.source.persistent_volume_name or "",
    )


CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
#: Every kind that storage is made of: where it is listed, and who reads it.
STORAGE_KINDS: Mapping[str, Callable[[bytes | Raw], StorageObject]] = {
    CLAIMS: decode_volume_claim,
    VOLUMES: decode_volume,
    "/apis/storage.k8s.io/v1/storageclasses": decode_class,
    "/apis/storage.k8s.io/v1/csinodes": decode_csi_node,
    "/apis/storage.k8s.io/v1/csidrivers": decode_csi_driver,
    "/apis/storage.k8s.io/v1/csistoragecapacities": decode_capacity,
    "/apis/storage.k8s.io/v1/volumeattachments": decode_attachment,
}


def _bytes(text: str | None) -> int | None:
    return None if text is None else amount(_STORAGE, text)


def _topology(found: TopologyWire) -> NodeTerm:
    lines = found.match_label_expressions or ()
    return NodeTerm(
        read_requirements([RequirementWire(line.key, "In", line.values) for line in lines])
    )


def _by_labels(terms: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...]:
    """Volumes are matched with a node's labels only: as if the node had no name."""
    kept = []
    for term in terms:
        if all(field.operator == "NotIn" for field in term.fields):
            named = not term.labels and term.fields  # holds for every node
            lines = (Requirement("", "DoesNotExist"),) if named else term.labels
            kept.append(NodeTerm(lines))
    return tuple(kept)


def _migrated(
    terms: tuple[NodeTerm, ...] | None, labels: Mapping[str, str], csi: CsiVolume | None
) -> tuple[NodeTerm, ...] | None:
    """The terms in the words of the CSI driver; None when they stay as they are."""
    key = _ZONE_OF_DRIVER.get(csi.driver) if csi and csi.plugin else None
    if key is None:
        return None
    asked = {line.key for term in terms or () for line in term.labels}
    places: tuple[Mapping[str, object] | set[str], ...] = (asked, labels)
    zone = next((z for where in places for z in (_ZONE, _OLD_ZONE) if z in where), None)
    if zone is None:
        return None
    renamed = {zone: key} | ({_OLD_REGION: _REGION} if zone == _OLD_ZONE else {})
    if zone in asked:
        return tuple(_renamed(term, renamed) for term in terms or ())
    line = Requirement(key, "In", tuple(sorted(filter(None, labels[zone].split("__")))))
    return tuple(
        replace(term, labels=(*_renamed(term, renamed).labels, line))
        for term in terms or (NodeTerm(),)
    )


def _renamed(term: NodeTerm, names: Mapping[str, str]) -> NodeTerm:
    return NodeTerm(tuple(replace(line, key=names.get(line.key, line.key)) for line in term.labels))
