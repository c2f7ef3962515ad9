"""Requests for parts of GPUs in the pod spec, for autoscalers, kubelets and quotas.

They are in the first container: only the sum of a pod counts. Amounts of the author under these
names are replaced there.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Raw

from fairlead.kube.admission.review import Operation
from fairlead.model.errors import QuantityError
from fairlead.model.gpu_resources import part_amounts
from fairlead.model.pods import Pod
from fairlead.model.quantities import amount as quantity

#: Requests are added to no pods, to those with parts of GPUs, or also to those with whole GPUs.
Added = Literal["none", "parts", "all"]
CHOICES: tuple[Added, ...] = ("none", "parts", "all")
_FIRST = "/spec/containers/0/resources"


class _Resources(msgspec.Struct, gc=False):
    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, gc=False):
    resources: _Resources | None = None


class _Spec(msgspec.Struct, gc=False):
    containers: list[_Container] | None = None


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec


_pods = msgspec.json.Decoder(_Pod)
_encode = msgspec.json.Encoder().encode


def resource_steps(raw: bytes, pod: Pod, added: Added) -> Iterator[Operation]:
    """The steps that add the requests; none if they are there.

    Raises msgspec.MsgspecError if it is no pod.
    """
    asked = None if pod.problem else pod.request.gpu_request
    amounts = {} if added == "none" else part_amounts(asked, whole=added == "all")
    containers = _pods.decode(raw).spec.containers if amounts else None
    if not containers:
        return
    found = containers[0].resources
    if found is None:
        yield Operation("add", _FIRST, Raw(b"{}"))
    for field, said in _fields(found or _Resources()):
        yield from _steps(f"{_FIRST}/{field}", said, amounts)


def _fields(found: _Resources) -> list[tuple[str, dict[str, str | int | float] | None]]:
    """An extended resource must have equal limits and requests."""
    return [("limits", found.limits), ("requests", found.requests)]


def _steps(
    path: str, said: dict[str, str | int | float] | None, amounts: dict[str, int]
) -> Iterator[Operation]:
    if said is None:
        wanted = {name: str(amount) for name, amount in amounts.items()}
        yield Operation("add", path, Raw(_encode(wanted)))
        return
    for name, amount in amounts.items():
        if not _states(name, said.get(name), amount):
            yield Operation("add", f"{path}/{name.replace('/', '~1')}", Raw(_encode(str(amount))))


def _states(name: str, said: str | float | None, wanted: int) -> bool:
    """The API server writes 2000 as 2k."""
    try:
        return said is not None and quantity(name, str(said)) == wanted
    except QuantityError:
        return False
