"""Which values kube-scheduler would refuse to start with. Plugins' arguments: validation_args."""

from collections.abc import Iterator, Sequence

from fairlead.apps.config.extender_format import Extender
from fairlead.apps.config.findings import Finding
from fairlead.apps.config.kube_scheduler.format import (
    Configuration,
    KubeSchedulerProfile,
    LeaderElection,
)
from fairlead.base.durations import seconds
from fairlead.base.names import label_name_problems


def out_of_range(key: str, value: int, least: int, most: int | None = None) -> Iterator[Finding]:
    if value < least:
        upto = f"{least} or more" if most is None else f"{least} to {most}"
        yield Finding(key, f"{value} is too small; use {upto}")
    elif most is not None and value > most:
        yield Finding(key, f"{value} is too large; use {least} to {most}")


def check(config: Configuration) -> Iterator[Finding]:
    """All but the plugins and their arguments."""
    yield from out_of_range("parallelism", config.parallelism, 1)
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    first_s, longest_s = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    yield from out_of_range("podInitialBackoffSeconds", first_s, 1)
    yield from out_of_range("podMaxBackoffSeconds", longest_s, first_s)
    yield from out_of_range("clientConnection.burst", config.client_connection.burst, 0)
    yield from _leader_election(config.leader_election)
    yield from _profiles(config.profiles)
    yield from _extenders(config.extenders)


def _percentage(key: str, value: int | None) -> Iterator[Finding]:
    return out_of_range(key, value or 0, 0, 100)


def _leader_election(election: LeaderElection) -> Iterator[Finding]:
    elects = election.leader_elect is not False
    written = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    lengths_s = {key: seconds(text) for key, text in written.items()}
    for key, length_s in lengths_s.items():
        if length_s is None or (elects and length_s < 0):
            text = f"{written[key]!r} is not a valid duration; use for example 15s"
            yield Finding(f"leaderElection.{key}", text)
    if not elects:
        return
    if (lengths_s["leaseDuration"] or 15.0) <= (lengths_s["renewDeadline"] or 10.0):
        yield Finding("leaderElection.leaseDuration", "must be longer than renewDeadline")
    if election.resource_lock not in ("leases", ""):
        text = f"{election.resource_lock!r} is no longer supported; use leases"
        yield Finding("leaderElection.resourceLock", text)


def _profiles(profiles: Sequence[KubeSchedulerProfile]) -> Iterator[Finding]:
    names = [profile.scheduler_name for profile in profiles]
    for place, profile in enumerate(profiles):
        key = f"profiles[{place}]"
        name = profile.scheduler_name
        if name == "" or (name is None and len(profiles) > 1):
            text = "is missing; each of several profiles needs its own"
            yield Finding(f"{key}.schedulerName", text)
        elif name in names[:place]:
            yield Finding(f"{key}.schedulerName", f"{name!r} has two profiles; remove one")
        percentage = profile.percentage_of_nodes_to_score
        yield from _percentage(f"{key}.percentageOfNodesToScore", percentage)
        if profile.plugins.queue_sort != profiles[0].plugins.queue_sort:
            yield Finding(f"{key}.plugins.queueSort", "must be the same in all profiles")


def _extenders(extenders: Sequence[Extender]) -> Iterator[Finding]:
    managed: set[str] = set()
    for place, extender in enumerate(extenders):
        key = f"extenders[{place}]"
        if extender.prioritize_verb:
            yield from out_of_range(f"{key}.weight", extender.weight, 1)
        for number, resource in enumerate(extender.managed_resources):
            where = f"{key}.managedResources[{number}].name"
            if resource.name in managed:
                yield Finding(where, f"{resource.name!r} is managed twice; remove one")
            elif not _extended(resource.name):
                text = f"{resource.name!r} is not an extended resource; use for example {_EXAMPLE}"
                yield Finding(where, text)
            managed.add(resource.name)
    if sum(bool(extender.bind_verb) for extender in extenders) > 1:
        yield Finding("extenders", "only one of them can have a bindVerb")


_EXAMPLE = "example.com/card"


def _extended(name: str) -> bool:
    own = "/" not in name or "kubernetes.io/" in name or name.startswith("requests.")
    return not own and not label_name_problems(name)
