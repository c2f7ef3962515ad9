"""Which device class stands in for an extended resource, and the claims that were made for it."""

from collections.abc import Mapping
from dataclasses import replace

from fairlead.cluster.grouped import Grouped
from fairlead.model.claims import ResourceClaim
from fairlead.model.devices import DeviceClass
from fairlead.model.extended import IMPLICIT, UNNAMED, ContainerAsk, ExtendedUse, extended_use
from fairlead.model.pods import Pod
from fairlead.model.sizes import remembered


class ExtendedClasses:
    """Classes by the resource that they name, and the claims made by schedulers by their pod."""

    def __init__(self, classes: Mapping[str, DeviceClass]) -> None:
        self._classes = classes
        self._by_resource: Grouped[str, DeviceClass] = Grouped()
        self._claims: Grouped[tuple[str, str], ResourceClaim] = Grouped()

    def put(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """A class came, changed or went."""
        if old is not None and old.extended_resource:
            self._by_resource.drop(old.extended_resource, old.name)
        if new is not None and new.extended_resource:
            self._by_resource.put(new.extended_resource, new.name, new)

    def class_of(self, resource: str) -> str:
        """The newest class with the resource, of equals the first by name; "": there is none."""
        if resource.startswith(IMPLICIT):
            name = resource.removeprefix(IMPLICIT)
            return name if name in self._classes else ""
        found = self._by_resource.of(resource).values()
        newest = max((each.created for each in found), default="")
        return min((each.name for each in found if each.created == newest), default="")

    def put_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A claim came, changed or went."""
        if old is not None and old.for_extended_resources and old.owner:
            self._claims.drop((old.namespace, old.owner), old.name)
        if new is not None and new.for_extended_resources and new.owner:
            self._claims.put((new.namespace, new.owner), new.name, new)

    def claims_of(self, pod: str, uid: str) -> list[ResourceClaim]:
        """Claims that were made for the extended resources of the pod "namespace/name"."""
        return list(self._claims.of((pod.partition("/")[0], uid)).values())

    def settled(self, use: ExtendedUse) -> ExtendedUse:
        """One for all pods that ask for the same."""
        leftover = bool(self.claims_of(use.pod, use.owner))
        containers = _nameless(use.containers)
        return ExtendedUse("", "", containers=containers, classes=use.classes, is_leftover=leftover)

    def use_of(self, pod: Pod) -> ExtendedUse | None:
        """What the pod needs where no device plugin offers its resources."""
        asked = {name for each in pod.request.extended for name, _, _ in each.resources}
        pairs = ((name, self.class_of(name)) for name in sorted(asked))
        classes = tuple((name, found) for name, found in pairs if found)
        if not classes:
            return None
        asking = pod.request.extended
        return ExtendedUse(UNNAMED, "", pod.key, pod.uid, containers=asking, classes=classes)


@remembered(4 << 20)
def _nameless(containers: tuple[ContainerAsk, ...]) -> tuple[ContainerAsk, ...]:
    return tuple(replace(each, name="") for each in containers)


def with_classes(pod: Pod, extended: ExtendedClasses) -> Pod:
    """The pod with a use of the claim that its extended resources need, as classes are now."""
    uses = pod.request.claims
    old, new = extended_use(uses), extended.use_of(pod)
    if old == new:
        return pod
    others = uses[:-1] if old is not None else uses
    claims = others if new is None else (*others, new)
    return replace(pod, request=replace(pod.request, claims=claims))


def in_flight_uid(pod_uid: str) -> str:
    """In place of the uid of the claim of a pod that is not made yet."""
    return f"{UNNAMED} {pod_uid}"


def extended_owner(uid: str) -> str:
    """The uid of the pod, if this stands for the uid of a claim that is not made yet; else ""."""
    return uid.removeprefix(f"{UNNAMED} ") if uid.startswith(UNNAMED) else ""
