"""Images without a registry: a docker-archive written by hand."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

PAUSE = "localhost/pause:test"


def write_pause(program: Path, archive: Path) -> None:
    """The image of a pod's sandbox: one program that waits."""
    layer = _layer(program)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as out:
        _add(out, "config.json", json.dumps(config).encode())
        _add(out, "layer.tar", layer)
        _add(out, "manifest.json", json.dumps(manifest).encode())


def _layer(program: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        _add(out, "pause", program.read_bytes(), mode=0o755)
    return buffer.getvalue()


def _add(out: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    out.addfile(entry, io.BytesIO(content))
