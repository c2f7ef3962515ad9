"""What the controllers of pods declare about run times, such as the deadline of a Job."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

from fairlead.model.consolidation import time_of
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunTime

#: Controllers that are kept.
MOST_OWNERS = 4096
#: A bound that has passed when the pod starts.
_SOON_S = 1.0
_NOTHING = RunTime()


class OwnerRunTimes:
    """By controller; the first that were seen go first."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, tuple[RunTime, str]] = OrderedDict()

    def put(self, owner: str, run_time: RunTime | None, started: str) -> None:
        """`started` is when the controller did, which its bound counts from; empty: it has not."""
        self._owners.pop(owner, None)
        if run_time is not None:
            self._owners[owner] = run_time, started
        if len(self._owners) > MOST_OWNERS:
            self._owners.popitem(last=False)

    def __iter__(self) -> Iterator[tuple[str, RunTime, str]]:
        """As they were put."""
        return ((owner, *declared) for owner, declared in self._owners.items())

    def declared(self, pod: Pod) -> RunTime:
        """What the pod and its controller declare, counted from the start of the pod."""
        said = pod.run_time or _NOTHING
        found = self._owners.get(owner_key(pod)) if self._owners and pod.controller else None
        return said if found is None else together(said, *found, pod)


def owner_key(pod: Pod) -> str:
    """The name of its controller in the cluster."""
    return f"{pod.namespace}/{pod.controller}"


def together(said: RunTime, owner: RunTime, started: str, pod: Pod) -> RunTime:
    """An estimate of the pod counts first, and of two bounds the one that ends it first."""
    bound_s = owner.bound_s
    if bound_s is not None:
        bound_s = max(_SOON_S, bound_s - _later_s(pod, started))
    if said.estimate_s is None and owner.estimate_s is not None:
        said = replace(said, estimate_s=owner.estimate_s, source=_both(said.source, owner.source))
    passes = bound_s is not None and (
        said.bound_s is None or (owner.enforced, -bound_s) > (said.enforced, -said.bound_s)
    )
    if not passes:
        return said
    source = _both("annotation" if said.estimate_s is not None else "", owner.source)
    return replace(said, bound_s=bound_s, source=source, enforced=owner.enforced)


def _both(first: str, second: str) -> str:
    return " and ".join(dict.fromkeys(each for each in (first, second) if each))


def _later_s(pod: Pod, started: str) -> float:
    """How long after its controller the pod started; 0 if it has not: the bound is longer then."""
    owner_s, pod_s = time_of(started), time_of(pod.started)
    return 0.0 if owner_s is None or pod_s is None else max(0.0, pod_s - owner_s)
