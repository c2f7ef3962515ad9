"""Certificates into a TLS context. Clients import this: it needs no cryptography."""

import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

from fairlead.base.private_files import write_private


def load_chain(
    context: ssl.SSLContext,
    certificate: bytes,
    key: bytes,
    password: Callable[[], str] | None = None,
) -> None:
    """Loads a certificate by way of temporary files: `ssl` reads nothing else.

    Raises ssl.SSLError. `password` is called for a key that is encrypted.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        paths = Path(folder, "certificate"), Path(folder, "key")
        for path, content in zip(paths, (certificate, key), strict=True):
            write_private(path, content)
        context.load_cert_chain(*paths, password=password)
