"""The program's first step. Little is loaded yet, so a Ctrl-C simply ends it."""

import signal


def main() -> None:
    """Runs the command line; until that is loaded, an interrupt leaves no trace of Python."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fairlead.apps.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
