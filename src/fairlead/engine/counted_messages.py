"""What is said about pods that wait for a counted resource.

Users of one namespace do not learn which others hold how many: these are one number.
"""

from heapq import nlargest

from fairlead.cluster.aspects import NOTHING
from fairlead.cluster.counted_book import CountedBook
from fairlead.engine.reasons import (
    COUNTED_RESOURCE_NOT_ALLOWED,
    COUNTED_RESOURCE_NOT_FOUND,
    WAITING_FOR_COUNTED_RESOURCE,
)
from fairlead.model.counted import CountedResource
from fairlead.queue.quota import QuotaRefusal

#: Layers that a message names.
_MOST_LAYERS = 3


def too_few(book: CountedBook, amount: int, namespace: str, key: str) -> QuotaRefusal:
    spec, total = book.spec, book.spec.total or 0
    free = max(0, book.free or 0)
    message = (
        f"counted resource {spec.name}: {_shown(spec, amount)} requested, {free} of {total} free; "
        f"{_holders(book, namespace)}"
    )
    return QuotaRefusal(
        WAITING_FOR_COUNTED_RESOURCE, message, NOTHING, key, spec.name, total, book.used, amount
    )


def too_few_on_layers(book: CountedBook, amount: int, namespace: str, key: str) -> QuotaRefusal:
    """No layer of the nodes that fit has enough left."""
    spec = book.spec
    names = nlargest(_MOST_LAYERS, book.layers.known(), key=book.left_on)
    left = ", ".join(f"{name} {max(0, book.left_on(name))}" for name in names) or "none"
    message = (
        f"counted resource {spec.name}: {_shown(spec, amount)} requested, and no node that fits "
        f"has a layer with so many left; most are left on: {left}; {_holders(book, namespace)}"
    )
    return QuotaRefusal(
        WAITING_FOR_COUNTED_RESOURCE, message, NOTHING, key, spec.name, asked=amount
    )


def not_counted(name: str, key: str) -> QuotaRefusal:
    message = (
        f"counted resource {name}: it was created or changed, and the pods that run are not all "
        "counted yet; the pod waits until they are"
    )
    return QuotaRefusal(WAITING_FOR_COUNTED_RESOURCE, message, NOTHING, key, name)


def not_found(name: str, key: str) -> QuotaRefusal:
    message = (
        f"the counted resource {name} does not exist; correct the annotation "
        "fairlead.dev/counted-resources, or ask an administrator to create it"
    )
    return QuotaRefusal(COUNTED_RESOURCE_NOT_FOUND, message, NOTHING, key, name)


def beyond_limit(name: str, key: str, most: int) -> QuotaRefusal:
    message = (
        f"the counted resource {name} has no effect, since there are {most} others; ask an "
        "administrator to delete one"
    )
    return QuotaRefusal(COUNTED_RESOURCE_NOT_FOUND, message, NOTHING, key, name)


def invalid(spec: CountedResource, key: str) -> QuotaRefusal:
    message = f"the counted resource {spec.name} is invalid: {spec.problem}"
    return QuotaRefusal(COUNTED_RESOURCE_NOT_FOUND, message, NOTHING, key, spec.name)


def not_allowed(name: str, namespace: str, key: str) -> QuotaRefusal:
    message = f"pods of namespace {namespace} may not use the counted resource {name}"
    return QuotaRefusal(COUNTED_RESOURCE_NOT_ALLOWED, message, NOTHING, key, name)


def _holders(book: CountedBook, namespace: str) -> str:
    own = book.by_namespace[namespace]
    outside = f", {book.outside} are used outside the cluster" if book.outside else ""
    return f"pods of namespace {namespace} hold {own}, those of others {book.used - own}{outside}"


def _shown(spec: CountedResource, amount: int) -> str:
    return f"{amount} {spec.unit}" if spec.unit else str(amount)
