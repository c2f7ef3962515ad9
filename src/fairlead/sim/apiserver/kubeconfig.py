"""The kubeconfig that lets kubectl, and everything else, talk to the embedded server."""

import base64
import os
from pathlib import Path

import yaml

_NAME = "fairlead-embedded"


def kubeconfig(url: str, token: str, authority: bytes) -> str:
    data = base64.b64encode(authority).decode()
    cluster = {"server": url, "certificate-authority-data": data}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner may read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)
