"""What an explanation says about the counted resources of a pod, as data and as text."""

from collections.abc import Iterator
from typing import Any

from fairlead.cluster.counted_book import CountedBook
from fairlead.engine.engine import Engine
from fairlead.engine.reasons import (
    COUNTED_RESOURCE_NOT_ALLOWED,
    COUNTED_RESOURCE_NOT_FOUND,
    WAITING_FOR_COUNTED_RESOURCE,
)
from fairlead.model.pods import Pod

Answer = dict[str, Any]

#: Namespaces that are named.
_MOST_NAMED = 10

_HELP = {
    WAITING_FOR_COUNTED_RESOURCE: "wait until pods that hold it end, or raise the count of the "
    "CountedResource",
    COUNTED_RESOURCE_NOT_FOUND: "correct the annotation fairlead.dev/counted-resources, or create "
    "the CountedResource",
    COUNTED_RESOURCE_NOT_ALLOWED: "ask for your namespace to be listed in spec.namespaces of the "
    "CountedResource",
}


def counted_answer(engine: Engine, pod: Pod, *, pods: bool = True) -> Answer | None:
    """None for a pod without any. `pods`: whether other namespaces are named."""
    counted = engine.counted
    if not counted.is_active or pod.finished or not counted.books.concerns(pod):
        return None
    if pod.node:
        charges = counted.books.charges_of(pod.uid)
        held = [{"name": name, "amount": n, "layer": layer} for name, (n, layer) in charges]
        return {"held": sorted(held, key=lambda each: str(each["name"]))} if held else None
    needs = counted.books.needs(pod)
    told: Answer = {"resources": [_resource(book, n, pod, pods=pods) for book, n in needs if n]}
    refusal = counted.why(pod)
    if refusal is None:
        return told
    remedies = [_HELP[refusal.reason]]
    return told | {"reason": refusal.reason, "message": refusal.message, "remedies": remedies}


def _resource(book: CountedBook, amount: int, pod: Pod, *, pods: bool) -> Answer:
    own = book.by_namespace[pod.namespace]
    found: Answer = {
        "name": book.spec.name,
        "unit": book.spec.unit,
        "requested": amount,
        "total": book.spec.total,
        "free": book.free,
        "ownNamespace": own,
        "otherNamespaces": book.used - own,
        "outside": book.outside,
    }
    if pods:
        found["holders"] = dict(book.by_namespace.most_common(_MOST_NAMED))
    return found


def counted_lines(counted: Answer) -> Iterator[str]:
    """The answer as text."""
    for each in counted.get("held", ()):
        layer = f" of layer {each['layer']}" if each["layer"] else ""
        yield f"holds {each['amount']} of counted resource {each['name']}{layer}"
    for each in counted.get("resources", ()):
        unit = f" {each['unit']}" if each["unit"] else ""
        yield f"counted resource {each['name']}: {each['requested']}{unit} requested{_left(each)}"
        holders = ", ".join(f"{name} {n}" for name, n in each.get("holders", {}).items())
        if holders:
            yield f"  held by namespace: {holders}"
    yield from (f"what would help: {remedy}" for remedy in counted.get("remedies", ()))


def _left(each: Answer) -> str:
    if each["total"] is None:
        return ""
    outside = f", {each['outside']} used outside the cluster" if each["outside"] else ""
    return f", {max(0, each['free'])} of {each['total']} free{outside}"
