"""Paths of API objects.

Names are taken from objects that others wrote, so each becomes exactly one segment of a path.
"""

import re
from urllib.parse import quote

_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")


def segment(name: str) -> str:
    """The name, percent-encoded. Raises ValueError for what would lead to another path.

    >>> segment("a b/c")
    'a%20b%2Fc'
    """
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} cannot be the name of an object")
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")


def named(folder: str, name: str) -> str:
    """The object of this name among those of the folder, such as `/api/v1/nodes`."""
    return f"{folder}/{segment(name)}"


def in_namespace(root: str, namespace: str, kind: str) -> str:
    """All objects of one kind in one namespace; `root` is such as `/api/v1`."""
    return f"{root}/namespaces/{segment(namespace)}/{kind}"


def pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{segment(namespace)}/pods/{segment(name)}"


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{segment(name)}"
