"""Where `fairlead top` gets its report: from a scheduler at work, or by looking itself."""

from typing import Protocol

import msgspec

from fairlead.apps.live.running_scheduler import NotAnswered, RunningScheduler
from fairlead.telemetry.report import UsageReport

__all__ = ["FromScheduler", "NotAnswered", "ReportSource"]

_reports = msgspec.json.Decoder(UsageReport)


class ReportSource(Protocol):
    async def report(self) -> UsageReport: ...


class FromScheduler:
    """What a running scheduler has added up, as far as the user may see it."""

    def __init__(self, scheduler: RunningScheduler, namespace: str = "") -> None:
        self._scheduler = scheduler
        self._params = {"namespace": namespace} if namespace else {}

    async def report(self) -> UsageReport:
        body = await self._scheduler.get("/usage", self._params)
        try:
            return _reports.decode(body)
        except msgspec.MsgspecError as error:
            raise NotAnswered(
                f"{self._scheduler.url} is not a Fairlead usage report: {error}"
            ) from error
