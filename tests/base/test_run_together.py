"""Parts that run at once end together."""

import asyncio
import re
from pathlib import Path

import pytest

import fairlead
from fairlead.base.run_together import run_together

SOURCES = Path(fairlead.__file__).parent
#: Where `asyncio.gather` may leave parts running after an error, and why that does no harm.
ENDING = {
    "apps/run/extender_calls.py": "the calls of one question, each with a time limit",
    "apps/run/scheduler.py": "writers that stop within the grace, and lists that end",
    "apps/serving/access.py": "reviews of one question, each with a time limit",
    "apps/up/dra_driver.py": "a command that ends with the error",
    "kube/gangs/discovery.py": "requests of one look, each with a time limit",
    "kube/leadership/presence.py": "Leases that are released, each with a time limit",
    "kube/writes/event_writer.py": "outboxes that stop within the grace",
    "kube/writes/evictor.py": "an eviction that was begun is not given up for another one",
    "kube/writes/recorder.py": "outboxes that stop within the grace",
}


class Defect(Exception):
    pass


async def test_all_results_in_their_order() -> None:
    async def one(number: int) -> int:
        await asyncio.sleep(0)
        return number

    assert await run_together(*map(one, range(3))) == [0, 1, 2]


async def test_after_an_error_no_part_runs_and_the_error_is_that_of_the_part() -> None:
    ended, begun = [], asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def breaks() -> None:
        await begun.wait()
        raise Defect("oops")

    with pytest.raises(Defect, match="oops"):
        await run_together(endless(), breaks())
    assert ended == ["endless"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_no_other_part_can_be_left_running() -> None:
    calls = re.compile(r"asyncio\.gather\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
    found = set()
    for path in SOURCES.rglob("*.py"):
        for call in calls.findall(path.read_text()):
            if "return_exceptions=True" not in call:
                found.add(path.relative_to(SOURCES).as_posix())
    assert found == ENDING.keys(), "use fairlead.base.run_together, or say here why not"
