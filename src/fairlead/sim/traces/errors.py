"""What can be wrong with a trace."""

from fairlead.model.errors import FairleadError


class TraceError(FairleadError):
    """A trace cannot be read; the text says which file and line, and why."""
