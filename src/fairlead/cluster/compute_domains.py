"""ComputeDomains as the API server shows them, and whose channels claims are for."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import ResourceClaim
from fairlead.model.compute_domains import CHANNEL_DRIVER, ComputeDomain
from fairlead.model.pods import Pod

if TYPE_CHECKING:
    from fairlead.cluster.device_claims import DeviceClaims

_CHANNEL = "ComputeDomainChannelConfig"


class ComputeDomains:
    """By uid, and by the template of their channels ("namespace/name")."""

    def __init__(self) -> None:
        self._by_uid: dict[str, ComputeDomain] = {}
        self._by_template: dict[str, ComputeDomain] = {}

    def __bool__(self) -> bool:
        return bool(self._by_uid)

    def put(self, seen: ComputeDomain) -> None:
        self.remove(seen)
        self._by_uid[seen.uid] = seen
        self._by_template[_template(seen)] = seen

    def remove(self, gone: ComputeDomain) -> None:
        known = self._by_uid.pop(gone.uid, None)
        if known is not None and self._by_template.get(_template(known)) is known:
            del self._by_template[_template(known)]

    def with_uid(self, uid: str) -> ComputeDomain | None:
        return self._by_uid.get(uid)

    def of_template(self, namespace: str, name: str) -> ComputeDomain | None:
        """The domain for whose channels the driver makes the template."""
        return self._by_template.get(f"{namespace}/{name}") if name else None


def is_for_channel(claim: ResourceClaim) -> bool:
    """Whether the claim is for a channel of a ComputeDomain."""
    return any(
        each.driver == CHANNEL_DRIVER and f'"{_CHANNEL}"' in each.parameters
        for each in claim.configs
    )


def domain_uid(claim: ResourceClaim) -> str:
    """The uid of the ComputeDomain that the claim is for a channel of; empty if of none."""
    for config in claim.configs:
        if config.driver == CHANNEL_DRIVER:
            try:
                said = json.loads(config.parameters)
            except (ValueError, RecursionError):
                continue
            if isinstance(said, dict) and said.get("kind") == _CHANNEL:
                uid = said.get("domainID")
                return uid if isinstance(uid, str) else ""
    return ""


def channels_of(pod: Pod, state: "DeviceClaims") -> Iterator[tuple[ClaimUse, ComputeDomain | None]]:
    """Channels that the pod uses, each with its domain; None: there is no such domain."""
    for use in pod.request.claims:
        claim = state.claim_of(use)
        domain = state.domains.of_template(pod.namespace, use.template)
        if claim is not None and is_for_channel(claim):
            yield use, state.domains.with_uid(domain_uid(claim)) or domain
        elif domain is not None:
            yield use, domain


def _template(domain: ComputeDomain) -> str:
    return f"{domain.namespace}/{domain.template}"
