"""Extended resources that a pod requests, where a device class can stand in for a device plugin.

A class may have the name of such a resource, and has the name that begins with `IMPLICIT` in any
case. On a node where no device plugin offers the resource, the pod gets devices of the class. They
belong to a claim that the scheduler makes for the pod.
"""

from fairlead.model.claim_uses import ClaimUse
from fairlead.model.gpu_resources import GPU_PARTS
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.quantities import is_extended

#: Before the name of a class: a resource that every class has.
IMPLICIT = "deviceclass.resource.kubernetes.io/"
#: The name of the claim before it is made: no name of an object.
UNNAMED = "<extended-resources>"


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """The extended resources of one container."""

    name: str
    #: Among all containers of the pod, init containers first.
    index: int
    #: An init container that ends before the others run.
    is_brief: bool
    #: Each with its place among all names of the container's requests, and how many.
    resources: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class ExtendedUse(ClaimUse):
    """The claim that is made for a pod on nodes without a device plugin. It has no key."""

    containers: tuple[ContainerAsk, ...] = ()
    #: The class of each resource that has one, sorted by resource.
    classes: tuple[tuple[str, str], ...] = ()
    #: A claim of an earlier attempt is there, and must go first.
    is_leftover: bool = False


def may_have_class(resource: str) -> bool:
    return is_extended(resource) or resource.startswith(IMPLICIT)


def extended_use(uses: tuple[ClaimUse, ...]) -> ExtendedUse | None:
    """The one among the uses of a pod; it is the last."""
    last = uses[-1] if uses else None
    return last if isinstance(last, ExtendedUse) else None


def has_class(uses: tuple[ClaimUse, ...], resource: str) -> bool:
    """Whether devices of a class can stand in for the resource."""
    use = extended_use(uses)
    return use is not None and any(name == resource for name, _ in use.classes)


def may_be_unoffered(uses: tuple[ClaimUse, ...], resource: str) -> bool:
    """Whether a node that does not offer the resource can serve the pod all the same."""
    return resource in GPU_PARTS or (bool(uses) and has_class(uses, resource))
