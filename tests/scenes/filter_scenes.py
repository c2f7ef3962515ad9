"""What a scene of the filter table is."""

from dataclasses import dataclass, field

from tables import Body


@dataclass(frozen=True)
class Scene:
    """Nodes, namespaces (name and labels), pods there, and the pod that asks.

    It fits, and goes to one of the nodes named in `fits`; or it is refused in words that contain
    `refused`.
    """

    nodes: dict[str, Body]
    asks: Body
    fits: str = ""
    refused: str = ""
    there: tuple[Body, ...] = ()
    namespaces: dict[str, str] = field(default_factory=dict)
    #: What else there is: collection and body of each.
    objects: tuple[tuple[str, Body], ...] = ()
