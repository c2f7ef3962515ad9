"""For commands that are to answer within a second: what they load in another way."""

import sys


def load_structlog() -> None:
    """Without rich, which it loads for tracebacks that `apps.logs` does not draw.

    That takes about a tenth of the time in which such a command starts.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]
