"""Column definitions, written short: `Name Status Node*` (a star: only with -o wide)."""

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
Cells = list[Any]
Printer = tuple[list[Object], Callable[[Object], Cells]]


def columns(*names: str, **types: str) -> list[Object]:
    """Definitions for columns of text; `types` names those that are not."""
    return [_column(name, types) for name in names]


def _column(name: str, types: dict[str, str]) -> Object:
    wide, name = name.endswith("*"), name.rstrip("*")
    key = name.lower().replace(" ", "_").replace("-", "_")
    return {
        "name": name,
        "type": types.get(key, "string"),
        "format": "name" if name == "Name" else "",
        "description": "",
        "priority": 1 if wide else 0,
    }


def container_cells(spec: Object) -> tuple[str, str]:
    containers = spec.get("containers") or []
    return (
        ",".join(each.get("name", "") for each in containers),
        ",".join(each.get("image", "") for each in containers),
    )


def conditions(obj: Object) -> dict[str, str]:
    """Type -> status."""
    listed = obj.get("status", {}).get("conditions") or []
    return {each["type"]: each.get("status", "") for each in listed}
