"""A price sheet of OpenCost (CSV), read as it is.

Rows of the class `gpu` are the price of one GPU, which is added to that of the node. A row without
an id is for nodes of its instance type. Rows of volumes are for others.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from fairlead.model.node_figures import LABEL, NAME, PROVIDER_ID, FigureRule
from fairlead.telemetry.sources.api import SourceFault

_COLUMNS = ("InstanceID", "Region", "AssetClass", "InstanceIDField", "InstanceType")
_PRICE = "MarketPriceHourly"
_REGION, _TYPE = (
    f"{LABEL}topology.kubernetes.io/region", f"{LABEL}node.kubernetes.io/instance-type",
)  # fmt: skip
#: About 20,000 rows, which are read in one turn.
_MOST_BYTES = 2 << 20


def read_price_sheet(path: Path) -> tuple[list[tuple[FigureRule, str]], float]:
    """Rules, each with the text of its price, still to be checked; and when it was written."""
    try:
        found = path.stat()
        if found.st_size > _MOST_BYTES:
            raise SourceFault(f"{path} is larger than {_MOST_BYTES >> 20} MiB")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceFault(f"{path} cannot be read: {error}") from error
    rows = csv.DictReader(line for line in lines if line.strip() and line[0] != "#")
    try:
        if _PRICE not in (rows.fieldnames or ()):
            raise SourceFault(f"{path} is no price sheet: it has no column {_PRICE}")
        return list(_rules(rows)), found.st_mtime
    except csv.Error as error:
        raise SourceFault(f"{path} is no price sheet: {error}") from error


def _rules(rows: Iterator[Mapping[str, str | None]]) -> Iterator[tuple[FigureRule, str]]:
    for row in rows:
        identity, region, kind, field, type_ = ((row.get(name) or "").strip() for name in _COLUMNS)
        if kind == "pv":
            continue
        match = [(_REGION, region)] if region else []
        if identity:
            match.append((_property(field, per_gpu=kind == "gpu"), identity))
        elif type_:
            match.append((_TYPE, type_))
        price = (row.get(_PRICE) or "").strip()
        if identity or type_:
            yield FigureRule(tuple(match), 0.0, per_gpu=kind == "gpu"), price


def _property(field: str, *, per_gpu: bool) -> str:
    """Of GPUs, the field is a label; of nodes, a path in their object."""
    if per_gpu and not field.startswith("metadata."):
        return LABEL + field
    return field if field.startswith(LABEL) or field in (NAME, PROVIDER_ID) else (field or NAME)
