"""Which resource claims a pod uses: entries of its spec, and what its status says about them."""

import msgspec

from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.errors import FairleadError
from fairlead.model.nodes import GPU


class _Entry(msgspec.Struct, rename="camel", gc=False):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _EntryStatus(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    #: None: the pod needs no claim for this entry.
    resource_claim_name: str | None = None


class _Mapping(msgspec.Struct, rename="camel", gc=False):
    resource_name: str = ""


class _ExtendedStatus(msgspec.Struct, rename="camel", gc=False):
    request_mappings: list[_Mapping] | None = None


_extended = msgspec.json.Decoder(_ExtendedStatus | None)
_entries = msgspec.json.Decoder(list[_Entry] | None)
_statuses = msgspec.json.Decoder(list[_EntryStatus] | None)


def read_pod_claims(
    namespace: str, name: str, uid: str, entries: bytes, statuses: bytes, group: str | None = None
) -> tuple[ClaimUse, ...]:
    """In the order of the spec, without those that the pod does not need.

    `group` is the name of the PodGroup of the pod.
    """
    pod, part_of = f"{namespace}/{name}", f"{namespace}/{group}" if group else ""
    made = {each.name: each for each in (_statuses.decode(statuses) if statuses else None) or ()}
    found = []
    for entry in _entries.decode(entries) or ():
        if entry.resource_claim_name is not None:
            key = f"{namespace}/{entry.resource_claim_name}"
            found.append(ClaimUse(entry.name, key, group=part_of))
            continue
        template = entry.resource_claim_template_name
        if template is None:
            raise FairleadError(f"spec.resourceClaims: {entry.name} names no claim and no template")
        if (status := made.get(entry.name)) is None:
            found.append(ClaimUse(entry.name, "", pod, uid, template, part_of))
        elif status.resource_claim_name is not None:
            key = f"{namespace}/{status.resource_claim_name}"
            found.append(ClaimUse(entry.name, key, pod, uid, template, part_of))
    return tuple(found)


def serves_gpus(extended: bytes) -> bool:
    """Whether a claim has the GPUs of a bound pod, as its `extendedResourceClaimStatus` says."""
    if not extended:
        return False
    try:
        status = _extended.decode(extended)
    except UNREADABLE:
        return False  # its GPUs are counted as those of a device plugin
    mappings = (status.request_mappings if status else None) or ()
    return any(each.resource_name == GPU for each in mappings)
