"""The program's first step. Little is loaded yet, so a Ctrl-C simply ends it."""

import gc
import signal

#: Objects until garbage is looked for: what is loaded stays, so that looking often finds nothing.
_OBJECTS = 50_000


def main() -> None:
    """Runs the command line; until that is loaded, an interrupt leaves no trace of Python."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(_OBJECTS, 20, 100)
    from fairlead.apps.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
