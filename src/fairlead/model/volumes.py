"""What a pod says about its volumes, as far as placing it is concerned."""

from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class VolumeClaimUse:
    """A volume of a pod that is a claim."""

    #: "namespace/name" of the claim.
    key: str
    #: Key and uid of the pod that the claim must have been made for; empty when any pod may use it.
    pod: str = ""
    owner: str = ""

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    @property
    def ephemeral(self) -> bool:
        """The claim is made for this pod by the ephemeral volume controller."""
        return bool(self.owner)


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that a pod names without a claim; on one node it serves several only for reading."""

    identity: str
    read_only: bool = False

    def conflicts(self, other: "Disk") -> bool:
        return self.identity == other.identity and not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True)
class CsiVolume:
    """A volume as its CSI driver knows it: what a node's limit counts."""

    driver: str
    handle: str
    #: The in-tree plugin that it was made for, and that the driver took over from.
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes that matter; secrets, config maps, empty dirs and the like do not."""

    claims: tuple[VolumeClaimUse, ...] = ()
    disks: tuple[Disk, ...] = ()
    #: In-tree volumes without a claim that a CSI driver serves.
    inline: tuple[CsiVolume, ...] = ()
