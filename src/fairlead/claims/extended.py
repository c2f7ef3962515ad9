"""The claim for the extended resources of a pod: what it requests, and for which container.

As in kube-scheduler: containers that run as long as the pod have a request each. Init containers
use those of the containers that start after them, and share one request for what they need beyond.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fairlead.model.claims import DeviceNeed, DeviceRequest
from fairlead.model.extended import ContainerAsk
from fairlead.model.sizes import remembered

Classes = tuple[tuple[str, str], ...]


class RequestMapping(NamedTuple):
    """A container gets the devices of a request for its resource."""

    container: str
    resource: str
    request: str


class ExtendedRequests(NamedTuple):
    requests: tuple[DeviceRequest, ...]
    mappings: tuple[RequestMapping, ...]


@remembered(4 << 20)
def extended_requests(containers: tuple[ContainerAsk, ...], classes: Classes) -> ExtendedRequests:
    """For the resources of these classes, which are sorted by resource."""
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource, class_name in classes:
        found = _of_resource(containers, resource, class_name)
        requests += found.requests
        mappings += found.mappings
    return ExtendedRequests(tuple(sorted(requests, key=_name)), tuple(mappings))


def _name(request: DeviceRequest) -> str:
    return request.name


def _of_resource(
    containers: Sequence[ContainerAsk], resource: str, class_name: str
) -> ExtendedRequests:  # fmt: skip
    mappings: list[RequestMapping] = []
    lasting: list[tuple[int, DeviceRequest]] = []
    for container in containers:
        if not container.is_brief:
            new, names = _of_container(container, resource, class_name, ())
            lasting += [(container.index, new)] if new else []
            mappings += _mapped(container, resource, names)
    most, brief = _of_brief(containers, resource, class_name, lasting)
    requests = [*([most] if most else []), *(request for _, request in lasting)]
    return ExtendedRequests(tuple(requests), (*mappings, *brief))


def _of_brief(
    containers: Sequence[ContainerAsk],
    resource: str,
    class_name: str,
    lasting: Sequence[tuple[int, DeviceRequest]],
) -> tuple[DeviceRequest | None, list[RequestMapping]]:
    """The largest request of an init container is there for all of them."""
    found: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for container in containers:
        if container.is_brief:
            later = [request for index, request in lasting if index >= container.index]
            new, names = _of_container(container, resource, class_name, later)
            found += [new] if new else []
            mappings += _mapped(container, resource, names)
    most = max(found, key=_count, default=None)
    own = {request.name for request in found}
    return most, [
        each._replace(request=most.name) if most and each.request in own else each
        for each in mappings
    ]


def _of_container(
    container: ContainerAsk, resource: str, class_name: str, usable: Iterable[DeviceRequest]
) -> tuple[DeviceRequest | None, list[str]]:
    """A request for what the usable ones lack, and the names of all that it uses."""
    asked = ((place, n) for name, place, n in container.resources if name == resource)
    place, count = next(asked, (0, 0))
    names: list[str] = []
    for request in usable if count else ():
        names.append(request.name)
        count -= _count(request)
        if count <= 0:
            return None, names
    if not count:
        return None, names
    name = f"container-{container.index}-request-{place}"
    return DeviceRequest(name, DeviceNeed(class_name, count=count)), [*names, name]


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly else 0


def _mapped(
    container: ContainerAsk, resource: str, names: Iterable[str]
) -> list[RequestMapping]:  # fmt: skip
    return [RequestMapping(container.name, resource, name) for name in names]
