"""Coroutines that run at once and end together."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_together(*parts: Coroutine[Any, Any, T]) -> list[T]:
    """What each returns. Raises the first error, when all others were cancelled and have ended.

    `asyncio.gather` leaves them running: a part that is then started again would run twice.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
