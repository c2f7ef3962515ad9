"""The program's first step. Little is loaded yet, so a Ctrl-C simply ends it."""

import gc
import signal

#: Objects until garbage is looked for: what is loaded stays, so that looking finds nothing. Loading
#: the scheduler makes 200,000.
_OBJECTS = 250_000


def main() -> None:
    """Runs the command line; until that is loaded, an interrupt leaves no trace of Python."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(_OBJECTS, 4, 100)
    from fairlead.apps.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
