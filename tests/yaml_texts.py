"""YAML, read with the loader in C where there is one: fifteen times as fast."""

from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def yaml_of(text: str | Path) -> Any:
    """The document in a text or file."""
    return yaml.load(_read(text), Loader=_LOADER)


def yamls_of(text: str | Path) -> list[Any]:
    """Its documents, without the empty ones."""
    return [each for each in yaml.load_all(_read(text), Loader=_LOADER) if each]


def _read(text: str | Path) -> str:
    return text.read_text() if isinstance(text, Path) else text
