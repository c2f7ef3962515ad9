"""Metadata and conditions, as all kinds of objects have them."""

import msgspec


class _Owner(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class StatusConditionWire(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
