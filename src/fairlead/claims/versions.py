"""Versions that can surely be read."""

import re

_PLAIN = re.compile(r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}", re.ASCII)
#: Characters of a version whose numbers are surely small enough.
_LONGEST = 18


def is_plain_version(text: str) -> bool:
    """Surely a version: one that is not would be an error of every expression."""
    return len(text) <= _LONGEST and _PLAIN.fullmatch(text) is not None
