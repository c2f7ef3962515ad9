"""Which devices are kept for a pod, as a condition in its status.

Users cannot write the status of pods, so the condition is as trustworthy as the nominated node. It
may be out of date all the same: who reads it keeps only what is still free.
"""

import re
from collections.abc import Iterable

import msgspec

from fairlead.model.kept_record import MOST_DEVICES, KeptClaim, KeptDevice, KeptRecord

DEVICES_KEPT = "fairlead.dev/DevicesKept"
REASON = "PodsEvicted"
#: Longer ones are neither written nor read.
LONGEST_BYTES = 16_384

_AMOUNT = re.compile(r"[0-9]{1,24}(/[1-9][0-9]{0,23})?")


class _Device(msgspec.Struct, omit_defaults=True):
    driver: str
    pool: str
    device: str
    share: str | None = None
    amounts: dict[str, str] = {}


class _Claim(msgspec.Struct):
    uid: str
    devices: list[_Device]


class _Record(msgspec.Struct, omit_defaults=True):
    evicted: int = 0
    claims: list[_Claim] = []
    devices: list[_Device] = []


_decoder = msgspec.json.Decoder(_Record)


def kept_text(record: KeptRecord | None) -> str:
    """The message of the condition; empty: there is none."""
    if record is None:
        return ""
    claims = [_Claim(each.uid, _written(each.devices)) for each in record.claims]
    wire = _Record(record.evicted, claims, _written(record.devices))
    text = msgspec.json.encode(wire)
    return text.decode() if len(text) <= LONGEST_BYTES else ""


def read_kept(text: str) -> KeptRecord | None:
    """None if that is no record of ours."""
    if not text or len(text) > LONGEST_BYTES:
        return None
    try:
        wire = _decoder.decode(text)
    except msgspec.MsgspecError:
        return None
    every = [*wire.devices, *(each for claim in wire.claims for each in claim.devices)]
    amounts = (amount for each in every for amount in each.amounts.values())
    if len(every) > MOST_DEVICES or not all(map(_AMOUNT.fullmatch, amounts)):
        return None
    claims = tuple(KeptClaim(each.uid, _read(each.devices)) for each in wire.claims[:MOST_DEVICES])
    return KeptRecord(wire.evicted, claims, _read(wire.devices))


def _written(devices: Iterable[KeptDevice]) -> list[_Device]:
    return [_Device(each.driver, each.pool, each.device, each.share, dict(each.amounts))
            for each in devices]  # fmt: skip


def _read(devices: Iterable[_Device]) -> tuple[KeptDevice, ...]:
    return tuple(
        KeptDevice(each.driver, each.pool, each.device, each.share, tuple(each.amounts.items()))
        for each in devices
    )
