"""A failed build in words: what went wrong and what to do about it."""

import re
from pathlib import Path


class BuildError(Exception):
    """The build cannot go on; the message says what to do."""


_DISK_FULL = (
    "The disk is full: a first build needs about 6 GB. Free some, or point FAIRLEAD_CACHE, "
    "GOCACHE and GOMODCACHE at a larger disk, and run this again."
)
_ALTERED = (
    "A module differs from the one pinned in go.sum: restore controlplane/ with git checkout, "
    "and if it persists, do not trust the module proxy in GOPROXY."
)
_NO_MEMORY = (
    "The machine ran out of memory: a build needs about 3 GB. "
    "Run this again with GOFLAGS=-p=1, or on a larger machine."
)
_NO_NETWORK = (
    "A download failed: check the network, or set GOPROXY to a module proxy that this machine "
    "can reach, and run this again. What is downloaded already is kept."
)
_NETWORK_ERRORS = (
    "dial tcp|no such host|connection re(fused|set)|i/o timeout|TLS handshake|proxyconnect"
    "|certificate|module lookup disabled|unexpected EOF|40[0-9] |410 |429 |50[0-9] "
)

#: What the Go tool prints, and what its reader should do. The first that matches is the cause.
ADVICE = (
    ("no space left on device|disk quota exceeded", _DISK_FULL),
    ("checksum mismatch|SECURITY ERROR|missing go.sum entry|updates to go.mod", _ALTERED),
    ("signal: killed|cannot allocate memory|out of memory", _NO_MEMORY),
    (_NETWORK_ERRORS, _NO_NETWORK),
)


def explain(what: str, log: Path, tail_lines: int = 15) -> BuildError:
    """The failure of `what`: its cause where known, the end of the log, and where the log is."""
    tail = log.read_text(errors="replace").splitlines()[-tail_lines:]
    text = "\n".join(tail)
    advice = next((advice for pattern, advice in ADVICE if re.search(pattern, text)), "")
    indented = "\n".join(f"    {line}" for line in tail)
    return BuildError(f"{what} failed. The end of {log}:\n{indented}\n{advice}".rstrip())
