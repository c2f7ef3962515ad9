"""Files that only their owner can read."""

import os
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Written as a whole or not at all, and private from its first moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    partial.replace(path)
