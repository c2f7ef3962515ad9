"""Does our copy still equal the cluster's? A watch that lost an event looks perfectly healthy."""

from collections.abc import Collection, Mapping

from fairlead.kube.mirror.changes import T
from fairlead.kube.mirror.mirror import Mirror
from fairlead.kube.mirror.wire import ObjectIdentity


def mismatches(
    mirror: Mirror[T], listed: Mapping[str, ObjectIdentity], version: str, removed: Collection[str]
) -> list[str]:
    """Keys that we hold wrongly, given a list taken at `version` some seconds ago.

    The mirror may have moved on since: what it holds in a newer version, or has seen deleted
    (`removed`), is no mismatch.
    """
    held = {key: (obj.uid, obj.version) for key, obj in mirror.objects.items()}
    held |= {key: (bad.uid, bad.version) for key, bad in mirror.unreadable.items()}
    missed = (
        key
        for key, theirs in listed.items()
        if not (_agrees(held[key], theirs) if key in held else key in removed)
    )
    ghosts = (
        key for key, (_, ours) in held.items() if key not in listed and not _is_newer(ours, version)
    )
    return sorted((*missed, *ghosts))


def _agrees(ours: tuple[str, str], theirs: ObjectIdentity) -> bool:
    return ours == (theirs.uid, theirs.version) or _is_newer(ours[1], theirs.version)


def _is_newer(version: str, other: str) -> bool:
    """Whether one resourceVersion is later; versions that are no numbers are never later."""
    try:
        return int(version) > int(other)
    except ValueError:
        return True
