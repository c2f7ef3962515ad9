"""What a scheduler has learned about run times and starts, as it keeps it in a ConfigMap."""

import binascii
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fairlead.apps.config.run_plan import RunPlan
from fairlead.apps.goals import report_book
from fairlead.apps.goals.report_book import ReportBook
from fairlead.engine import events, run_dumps, service_dumps, start_dumps
from fairlead.kube.errors import ApiError
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.http.transport import Transport
from fairlead.kube.leadership.election import Terms
from fairlead.model.lazy_dataclass import dataclass

#: The ConfigMap is named as the Lease, and this.
SUFFIX = "-run-times"
#: What is in it: run times, how start forecasts did, and how service classes did.
RUNS, STARTS, SERVICE = "runs", "starts", "service"
#: And what queues and jobs came to by month.
REPORT = "report"
#: Where the chart installs it.
NAMESPACE = "fairlead-system"


@dataclass(frozen=True, slots=True)
class LearnedPlace:
    """The ConfigMap of the scheduler with this Lease."""

    namespace: str
    lease: str
    #: It is written at most so often.
    every_s: float = 300.0


class LearnedConfigMap(msgspec.Struct, rename="camel"):
    metadata: dict[str, Any]
    binary_data: dict[str, str] | None = None


_config_maps = msgspec.json.Decoder(LearnedConfigMap)


def config_map_path(namespace: str, lease: str) -> str:
    return named(in_namespace("/api/v1", namespace, "configmaps"), lease + SUFFIX)


def read_config_map(body: bytes) -> LearnedConfigMap | None:
    """None if it is none."""
    try:
        return _config_maps.decode(body)
    except UNREADABLE:
        return None


def kept_events(kept: Mapping[str, str]) -> Iterator[events.Event | ValueError]:
    """What the content of the ConfigMap says, or what is wrong with a part of it."""
    for key, largest, read, event in (
        (RUNS, run_dumps.LARGEST_DUMP, run_dumps.load, events.RunTimesLoaded),
        (STARTS, start_dumps.LARGEST_DUMP, start_dumps.load, events.StartRecordLoaded),
        (SERVICE, service_dumps.LARGEST_DUMP, service_dumps.load, events.ServiceRecordLoaded),
    ):
        text = kept.get(key, "")
        try:
            # As base64; what is longer is cut, and then damaged.
            data = b64decode(text[: largest * 4 // 3 + 4], validate=True)
            if data:
                read(data)
                yield event(data)
        except (ValueError, binascii.Error) as error:
            yield ValueError(f"{key}: {error}")


async def learned_events(client: Transport, planned: RunPlan) -> tuple[list[events.Event], str]:
    """What the scheduler of the cluster has learned, and why that is not known.

    It is looked for where the configuration has the Lease, else where the chart has it.
    """
    found, problem = await _kept(client, planned)
    if problem:
        return [], problem
    kept = [*kept_events(found)]
    problems = [str(each) for each in kept if isinstance(each, ValueError)]
    return [each for each in kept if not isinstance(each, ValueError)], "; ".join(problems)


async def kept_report(client: Transport, planned: RunPlan) -> tuple[ReportBook, str]:
    """The report that the scheduler of the cluster keeps, and why it is not known."""
    found, problem = await _kept(client, planned)
    try:
        return (read_report(found) or ReportBook()), problem
    except ValueError as error:
        return ReportBook(), f"{REPORT}: {error}"


def read_report(kept: Mapping[str, str]) -> ReportBook | None:
    """None if there is none. Raises ValueError."""
    text = kept.get(REPORT, "")[: report_book.LARGEST_DUMP * 4 // 3 + 4]
    return report_book.load(b64decode(text, validate=True)) if text else None


async def _kept(client: Transport, planned: RunPlan) -> tuple[Mapping[str, str], str]:
    """The content of the ConfigMap, and why it is not known."""
    electing = planned.electing
    namespace = electing.resource_namespace or NAMESPACE
    path = config_map_path(namespace, electing.resource_name or Terms().name)
    try:
        reply = await client.request("GET", path)
    except ApiError as error:
        return {}, str(error)
    if reply.status != 200:
        return {}, reply.message
    found = read_config_map(reply.body)
    return (found and found.binary_data) or {}, ""
