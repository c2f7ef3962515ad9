"""What programs load in another way, so that they start sooner."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Where OpenSSL looks for the authorities that a system trusts.
_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def load_structlog() -> None:
    """Without rich, which it loads for tracebacks that `apps.logs` does not draw.

    That takes about a tenth of the time in which a command starts.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


def load_aiohttp() -> None:
    """Without the authorities that the system trusts, which it reads while it is loaded.

    That takes about a tenth of the time, too. Each connection by TLS names the authorities that it
    trusts: by default, aiohttp then trusts none.
    """
    if "aiohttp" in sys.modules:
        return
    with _without_authorities():
        import aiohttp  # noqa: F401


@contextmanager
def _without_authorities() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _AUTHORITIES}
    os.environ.update(dict.fromkeys(_AUTHORITIES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
