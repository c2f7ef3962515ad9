"""`fairlead top --by claims`: which claims have which devices, and what they are reserved for."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.text import Text

from fairlead.apps.live.live_cluster import list_objects
from fairlead.apps.top.selection import Selection
from fairlead.apps.top.table import Column, lines
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.kinds import CLAIMS, GROUP
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import in_namespace
from fairlead.model.claims import Allocation, ClaimUser, ResourceClaim
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.rightsizing import span

_VERSION = CLAIMS.versions[0]
_NAME_FIELD = "metadata.name"


@dataclass(frozen=True, slots=True)
class ClaimRow:
    claim: str
    #: pending, allocated, or deleting.
    state: str
    node: str
    drivers: list[str]
    devices: list[str]
    reserved_for: list[str]
    #: Since it was allocated; None: not known.
    held_s: float | None


_SORTS: dict[str, Callable[[ClaimRow], Any]] = {
    "name": lambda row: row.claim,
    "booked": lambda row: -len(row.devices),
}


async def claim_rows(client: Client, selection: Selection) -> list[ClaimRow]:
    """In the order that was chosen; equal ones by name."""
    path = CLAIMS.path(_VERSION)
    if selection.namespace:
        path = in_namespace(f"/apis/{GROUP}/{_VERSION}", selection.namespace, CLAIMS.plural)
    now_s = time.time()
    listed = [_row(claim, now_s) async for claim in list_objects(client, path, decode_claim)]
    rows = [row for row in listed if selection.node in ("", row.node)]
    order = _SORTS[selection.sort or "name"]
    return sorted(rows, key=lambda row: (order(row), row.claim))


def _row(claim: ResourceClaim, now_s: float) -> ClaimRow:
    held = claim.allocation
    state = "deleting" if claim.deleting else "allocated" if held else "pending"
    devices = held.devices if held else ()
    since = held.allocated_at if held else None
    return ClaimRow(
        claim.key,
        state,
        _node(held) if held else "",
        sorted({each.driver for each in devices}),
        [each.device for each in devices],
        [_named(user) for user in claim.reserved_for],
        None if since is None else max(0.0, now_s - since),
    )


def _named(user: ClaimUser) -> str:
    """Pods by their name alone."""
    return user.name if user.resource == "pods" else f"{user.resource}/{user.name}"


def _node(held: Allocation) -> str:
    """The one node where it can be used; else its pools."""
    fields = [field for term in held.node_terms or () for field in term.fields]
    names = [name for field in fields if field.key == _NAME_FIELD for name in field.values]
    return ",".join(names or sorted({each.pool for each in held.devices}))


def claim_lines(rows: Sequence[ClaimRow], width: int | None) -> list[Text]:
    devices = sum(len(row.devices) for row in rows)
    head = f"claims {len(rows)}   allocated {sum(bool(row.devices) for row in rows)}"
    top = [Text(f"{head}   devices {devices}", "bold"), Text()]
    if not rows:
        return [*top, Text("nothing to show: there is no claim, or the filters exclude all")]
    return [*top, *lines(_columns(rows), width)]


def _columns(rows: Sequence[ClaimRow]) -> list[Column]:
    return [
        Column("CLAIM", [row.claim for row in rows]),
        Column("STATE", [row.state for row in rows], leaves=4),
        Column("NODE", [row.node or "-" for row in rows]),
        Column("DRIVER", [_joined(row.drivers) for row in rows], leaves=6),
        Column("DEVICES", [_joined(row.devices) for row in rows]),
        Column("HELD FOR", [_held(row) for row in rows], right=True, leaves=5),
        Column("RESERVED FOR", [_joined(row.reserved_for) for row in rows]),
    ]


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names) or "-"


def _held(row: ClaimRow) -> str:
    return "-" if row.held_s is None else span(row.held_s)
