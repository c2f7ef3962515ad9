"""The volumes of a pod that matter for its place, and in-tree volumes as CSI drivers know them."""

from collections.abc import Iterator

import msgspec

from fairlead.model.volumes import CsiVolume, Disk, PodVolumes, VolumeClaimUse


class VolumeClaimSource(msgspec.Struct, rename="camel", gc=False):
    claim_name: str = ""


class DiskSource(msgspec.Struct, gc=False):
    """What identifies a disk of any in-tree plugin; each has some of these."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    pd_name: str = msgspec.field(default="", name="pdName")
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None
    iqn: str = ""
    monitors: list[str] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool | None = msgspec.field(default=False, name="readOnly")


class InTree(msgspec.Struct, rename="camel", gc=False, kw_only=True):
    """The in-tree sources that a CSI driver may have taken over."""

    gce_persistent_disk: DiskSource | None = None
    aws_elastic_block_store: DiskSource | None = None
    azure_disk: DiskSource | None = None
    cinder: DiskSource | None = None
    portworx_volume: DiskSource | None = None


class ImageSource(msgspec.Struct, gc=False):
    reference: str = ""


class PodVolume(InTree, rename="camel", gc=False, kw_only=True):
    name: str = ""
    persistent_volume_claim: VolumeClaimSource | None = None
    ephemeral: msgspec.Raw = msgspec.Raw()
    iscsi: DiskSource | None = None
    rbd: DiskSource | None = None
    image: ImageSource | None = None


_ZONE = "topology.kubernetes.io/zone"
_OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def read_volumes(
    namespace: str, pod: str, uid: str, volumes: list[PodVolume] | None
) -> PodVolumes | None:
    """None for most pods: secrets and config maps go anywhere."""
    claims: list[VolumeClaimUse] = []
    disks: list[Disk] = []
    inline: list[CsiVolume] = []
    for volume in volumes or ():
        if volume.persistent_volume_claim is not None:
            claims.append(
                VolumeClaimUse(f"{namespace}/{volume.persistent_volume_claim.claim_name}")
            )
        elif len(bytes(volume.ephemeral)) > len(b"null"):
            name = f"{namespace}/{pod}-{volume.name}"
            claims.append(VolumeClaimUse(name, f"{namespace}/{pod}", uid))
        else:
            disks += _disks(volume)
            moved = as_csi(volume, {})
            inline += [moved] if moved else []
    if not (claims or disks or inline):
        return None
    return PodVolumes(tuple(claims), tuple(disks), tuple(inline))


def as_csi(source: InTree, labels: dict[str, str]) -> CsiVolume | None:
    """The volume as the driver that took over from its in-tree plugin knows it.

    `labels` are those of the PersistentVolume it belongs to, if it belongs to one.
    """
    if disk := source.aws_elastic_block_store:
        handle = disk.volume_id.removeprefix("aws://").strip("/").rpartition("/")[2]
        return CsiVolume("ebs.csi.aws.com", handle, "kubernetes.io/aws-ebs")
    if disk := source.gce_persistent_disk:
        place = _gce_place(labels.get(_OLD_ZONE) or labels.get(_ZONE) or "UNSPECIFIED")
        handle = f"projects/UNSPECIFIED/{place}/disks/{disk.pd_name}"
        return CsiVolume("pd.csi.storage.gke.io", handle, "kubernetes.io/gce-pd")
    if (disk := source.azure_disk) and (disk.kind or "Managed").lower() == "managed":
        return CsiVolume("disk.csi.azure.com", disk.disk_uri, "kubernetes.io/azure-disk")
    if disk := source.cinder:
        return CsiVolume("cinder.csi.openstack.org", disk.volume_id, "kubernetes.io/cinder")
    if disk := source.portworx_volume:
        return CsiVolume("pxd.portworx.com", disk.volume_id, "kubernetes.io/portworx-volume")
    return None


def _gce_place(zones: str) -> str:
    several = zones.split("__")
    if len(several) == 1:
        return f"zones/{zones}"
    return f"regions/{several[0].rpartition('-')[0]}"


def _disks(volume: PodVolume) -> Iterator[Disk]:
    """Disks as they conflict with each other; an EBS volume cannot even be read by two."""
    if disk := volume.gce_persistent_disk:
        yield Disk(f"gce/{disk.pd_name}", bool(disk.read_only))
    if disk := volume.aws_elastic_block_store:
        yield Disk(f"ebs/{disk.volume_id}")
    if disk := volume.iscsi:
        yield Disk(f"iscsi/{disk.iqn}", bool(disk.read_only))
    if disk := volume.rbd:
        for monitor in disk.monitors or ():
            yield Disk(f"rbd/{monitor}/{disk.pool}/{disk.image}", bool(disk.read_only))
