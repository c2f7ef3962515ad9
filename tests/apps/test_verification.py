"""The continuous check, where one kind of object cannot be listed."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from structlog.testing import capture_logs

from fairlead.apps.run import verification
from fairlead.apps.run.verification import Verification
from fairlead.kube.errors import ReplyLost


def a_reflector(path: str, verify: Any) -> Mock:
    return Mock(path=path, verify=verify, synced=True, objects={})


async def test_a_list_that_does_not_end_holds_up_the_check_of_no_other_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verification, "_LONGEST_S", 0.05)
    pods = a_reflector("/pods", AsyncMock(return_value=[]))
    lost = a_reflector("/lost", AsyncMock(side_effect=ReplyLost("gone")))
    slow = a_reflector("/slow", lambda: asyncio.Event().wait())
    engine = Mock()
    engine.in_flight.unconfirmed.return_value = ()
    check = Verification(engine, lambda: (slow, lost, pods), pods, Mock(), Mock())
    with capture_logs() as logs:
        async with asyncio.timeout(60):
            await check.compare()
    assert {(entry["path"], entry["error"]) for entry in logs} == {
        ("/slow", "nothing within 0.05 s"),
        ("/lost", "gone"),
    }


def test_nodes_with_too_many_pods_are_logged_once() -> None:
    engine = Mock(cluster=Mock(crowded={"n2": 1, "n1": 1}))
    check = Verification(engine, lambda: (), Mock(), Mock(), Mock())
    with capture_logs() as logs:
        check.report_crowded_nodes()
        check.report_crowded_nodes()
        del engine.cluster.crowded["n1"]
        check.report_crowded_nodes()
        engine.cluster.crowded["n1"] = 1
        check.report_crowded_nodes()
    assert [entry["first"] for entry in logs] == [["n1", "n2"], ["n1"]]
