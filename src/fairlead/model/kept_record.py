"""Devices that are kept for a unit, as it is written on its pods: a scheduler that starts reads it.

The devices are kept for a unit for which pods were evicted; see `cluster/kept_devices.py`.
"""

from fairlead.model.lazy_dataclass import dataclass

#: Devices in the record of one pod. A gang has as many records as pods with a nominated node.
MOST_DEVICES = 64


@dataclass(frozen=True, slots=True)
class KeptDevice:
    """A device, or a share of one."""

    driver: str
    pool: str
    device: str
    #: Of a share: its id, and what it consumes, as whole numbers or fractions.
    share: str | None = None
    amounts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class KeptClaim:
    """A claim that is to be deallocated, and what it has until then."""

    uid: str
    devices: tuple[KeptDevice, ...]


@dataclass(frozen=True, slots=True)
class KeptRecord:
    #: How many pods were evicted for the unit.
    evicted: int = 0
    claims: tuple[KeptClaim, ...] = ()
    #: What is kept already.
    devices: tuple[KeptDevice, ...] = ()
