"""Slices, classes and claims of the JSON that tests draw."""

import json
from dataclasses import replace
from typing import Any

import msgspec

from fairlead.kube.claims import claims, classes, slices
from fairlead.kube.claims.wire import AllocationWire
from fairlead.model.claims import AllocatedDevice, Allocation, ResourceClaim
from fairlead.model.devices import DeviceClass, ResourceSlice

Json = dict[str, Any]


def read_slice(seen: Json) -> ResourceSlice:
    return slices.decode_slice(_encoded(seen))


def read_class(seen: Json) -> DeviceClass:
    return classes.decode_device_class(_encoded(seen))


def read_claim(seen: Json) -> ResourceClaim:
    return claims.decode_claim(_encoded(seen))


def read_allocation(seen: Json) -> Allocation:
    """With shares as the allocator leaves them: without an identifier."""
    found = claims.allocation_of(msgspec.json.decode(_encoded(seen), type=AllocationWire))
    return replace(found, devices=tuple(_unnamed(each) for each in found.devices))


def _unnamed(device: AllocatedDevice) -> AllocatedDevice:
    return device if device.share_id is None else replace(device, share_id="")


def _encoded(seen: Json) -> bytes:
    return json.dumps(seen).encode()
