"""Keeps the prices of gaps in step with the pods seen, without taking time from decisions.

They are computed in a process of their own, `python -m fairlead.apps.run.pricing`, that reads what
is known as JSON and answers in the same way: solving takes seconds, and its library much memory.
"""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable

import msgspec
import structlog

from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, PricesComputed
from fairlead.model.errors import FairleadError
from fairlead.model.prices import Basis, Prices
from fairlead.placement.prices import ENOUGH_PODS, compute

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 5.0
_AGE_S = 600.0
_NEW_PODS = 1000
_TIMEOUT_S = 120.0


class Pricing:
    """Prices again after twice as many pods or 1,000 more, and after ten minutes with any."""

    def __init__(self, engine: Engine, feed: Callable[[Event], None]) -> None:
        self._engine = engine
        self._feed = feed
        self._seen = 0
        self._at_s = time.monotonic()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if self._due():
                await self._price()

    def _due(self) -> bool:
        seen = self._engine.demand.seen
        new = seen - self._seen
        if seen < ENOUGH_PODS or not new:
            return False
        return new >= min(self._seen, _NEW_PODS) or time.monotonic() - self._at_s > _AGE_S

    async def _price(self) -> None:
        self._seen, self._at_s = self._engine.demand.seen, time.monotonic()
        try:
            prices = await priced(self._engine.basis())
        except FairleadError as error:
            log.warning("price computation failed", error=str(error))
            return
        if prices is not None:
            self._feed(PricesComputed(prices))
            log.info("prices computed", pods=prices.pods)


async def priced(basis: Basis) -> Prices | None:
    """What a process of its own computes; None if there is too little to go by."""
    command = (sys.executable, "-m", "fairlead.apps.run.pricing")
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            answer, complaint = await process.communicate(msgspec.json.encode(basis))
    except TimeoutError as error:
        raise FairleadError(f"it took longer than {_TIMEOUT_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = complaint.decode(errors="replace").strip().splitlines()
        raise FairleadError(said[-1] if said else f"it ended with status {process.returncode}")
    return msgspec.json.decode(answer, type=Prices | None)


def main() -> None:
    basis = msgspec.json.decode(sys.stdin.buffer.read(), type=Basis)
    sys.stdout.buffer.write(msgspec.json.encode(compute(basis)))


if __name__ == "__main__":
    main()
