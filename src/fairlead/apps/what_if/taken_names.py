"""Pods of manifests whose names are taken in the cluster: they are looked at as more pods."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from fairlead.apps.what_if.workload import ManifestPods
from fairlead.engine.events import Event, PodSeen
from fairlead.model.errors import ConfigError
from fairlead.model.pods import Pod


def with_free_names(work: ManifestPods, events: Iterable[Event]) -> ManifestPods:
    """Its pods under names that no pod of the cluster has, such as `train-2` beside `train`.

    Raises ConfigError for a gang that the cluster has: its pods would be members of that one.
    """
    there = [event.pod for event in events if isinstance(event, PodSeen)]
    _refuse_known_gangs(work.pods, {pod.gang.gang for pod in there if pod.gang})
    taken = {pod.key for pod in (*there, *work.pods)}
    known = {pod.key for pod in there}
    named = (_named(event, known, taken) for event in work.events)
    return replace(work, events=tuple(named))


def _refuse_known_gangs(pods: Iterable[Pod], known: set[str]) -> None:
    for pod in pods:
        if pod.gang and pod.gang.gang in known:
            name = pod.gang.gang.partition("/")[2]
            raise ConfigError(
                f"the gang {name} is in the cluster already; `fairlead queue --start` says when it "
                "starts; to ask about another one, change its name in the file"
            )


def _named(event: Event, known: set[str], taken: set[str]) -> Event:
    if not isinstance(event, PodSeen) or event.pod.key not in known:
        return event
    pod = event.pod
    names = (f"{pod.name}-{number}" for number in count(2))
    name = next(name for name in names if f"{pod.namespace}/{name}" not in taken)
    taken.add(f"{pod.namespace}/{name}")
    return replace(event, pod=replace(pod, name=name, uid=f"what-if-{pod.namespace}-{name}"))
