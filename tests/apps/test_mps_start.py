"""In which order the MPS server of a GPU is limited and started, without its programs."""

from pathlib import Path
from typing import Any, cast

from fairlead.apps.agent.mps.control import ACTIVE, MpsControl, ServerLook
from fairlead.apps.agent.mps.daemon import MpsDaemon
from fairlead.apps.agent.mps.plans import MpsPlan, MpsShare
from fairlead.telemetry.nvml.facts import GpuSample

_NOTHING: Any = None
SERVER = 77


class Recorded:
    """A control daemon that runs, and has no server until it is asked to start one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: list[tuple[object, ...]] = []
        self._servers: list[int] = []

    def pid(self) -> int:
        return 1

    async def servers(self) -> list[int]:
        return self._servers

    async def start_server(self) -> None:
        self.done.append(("start",))
        self._servers = [SERVER]

    async def limit(self, server: int | None, percent: float, memory_mib: int) -> None:
        self.done.append(("limit", server, percent, memory_mib))

    async def look(self, server: int) -> ServerLook:
        return ServerLook(ACTIVE, (), frozenset())

    def expose(self) -> None:
        self.done.append(("expose",))

    def trim_log(self) -> None: ...


async def test_a_server_is_started_with_limits_before_pods_can_reach_it(tmp_path: Path) -> None:
    control = Recorded(tmp_path)
    daemon = MpsDaemon(cast(MpsControl, control), _NOTHING, "GPU-0", lambda: 0.0)
    await daemon.settle(MpsPlan({"pod": MpsShare(25.0, 10240)}), GpuSample("GPU-0"))

    assert (daemon.problem, daemon.server) == ("", SERVER)
    assert control.done == [
        ("limit", None, 25.0, 10240),
        ("start",),
        ("expose",),
        ("limit", SERVER, 25.0, 10240),
    ]
