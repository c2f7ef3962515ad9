"""The webhook over HTTPS: two questions, health and metrics, and limits for whoever asks too much.

Only so many requests are read and answered at a time. Others wait, with their bodies left in the
network, and beyond that number they are turned away.
"""

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from fairlead.kube.admission.desk import Answer, Desk
from fairlead.kube.admission.review import BadReview
from fairlead.telemetry.admission import AdmissionMetrics

log = structlog.get_logger(__name__)

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Limits:
    #: The API server's own limit of an object is 3 MiB, and a review holds up to two of them.
    body_bytes: int = 7 * 2**20
    #: For waiting, reading and answering together.
    answer_s: float = 2.0
    #: Read and answered at once, which bounds the memory they take.
    in_hand: int = 8
    waiting: int = 512
    #: From the connection to the end of the first request's head.
    head_s: float = 5.0


class _Refused(Exception):
    def __init__(self, status: int, outcome: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.outcome = outcome


class Door:
    """Lets in as many as there is room for."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._room = asyncio.Semaphore(limits.in_hand)
        self._inside = 0

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Waits for room. Refused if too many wait, or if it all took too long."""
        if self._inside >= self._limits.in_hand + self._limits.waiting:
            raise _Refused(429, "crowded", "too many requests at once; try again")
        self._inside += 1
        try:
            async with asyncio.timeout(self._limits.answer_s), self._room:
                yield
        except TimeoutError:
            seconds = self._limits.answer_s
            raise _Refused(503, "late", f"not read and answered within {seconds:g} s") from None
        finally:
            self._inside -= 1


def make_app(
    desk: Desk,
    metrics: AdmissionMetrics,
    unready_because: Callable[[], str],
    limits: Limits | None = None,
) -> web.Application:
    """Live as long as the event loop turns; ready while its certificate is good."""
    limits = limits or Limits()
    door = Door(limits)

    def asked(route: str, answer: Callable[[bytes], Answer]) -> web.RouteDef:
        async def handle(request: web.Request) -> web.Response:
            with metrics.answer_seconds.labels(route).time():
                try:
                    async with door.entered():
                        given = answer(await _read(request, limits))
                except _Refused as refused:
                    return _refusal(refused)
                metrics.answers.labels(route, given.outcome).inc()
                return web.Response(body=given.body, content_type=JSON)

        def _refusal(refused: _Refused) -> web.Response:
            metrics.answers.labels(route, refused.outcome).inc()
            # What was not read is left behind with the connection.
            headers = {} if refused.outcome == "bad" else {"Connection": "close"}
            return web.Response(text=f"{refused}\n", status=refused.status, headers=headers)

        return web.post(f"/{route}", handle)

    app = web.Application(client_max_size=limits.body_bytes)
    app.add_routes([
        asked("mutate", _clear(desk.mutate)),
        asked("validate", _clear(desk.validate)),
        *_health(metrics, unready_because),
    ])  # fmt: skip
    return app


def _clear(answer: Callable[[bytes], Answer]) -> Callable[[bytes], Answer]:
    def answered(body: bytes) -> Answer:
        try:
            return answer(body)
        except BadReview as error:
            raise _Refused(400, "bad", str(error)) from error
        except Exception as error:
            raise _stumbled(error) from error

    return answered


def _stumbled(error: Exception) -> _Refused:
    """A mistake of ours: the pod is not created, and the next question is another one."""
    trace = "".join(traceback.format_exception(error, limit=-3))
    log.error("review not answered", error=repr(error), trace=trace)
    return _Refused(500, "failed", "Fairlead failed at this pod; its log says how")


async def _read(request: web.Request, limits: Limits) -> bytes:
    if request.content_type != JSON:
        raise _Refused(415, "bad", f"send {JSON}, and not {request.content_type[:80]!r}")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise _Refused(415, "bad", "send the review as it is, without a Content-Encoding")
    try:
        return await request.read()
    except OSError as error:  # whoever asked has gone, and hears no answer
        raise _Refused(400, "bad", str(error)) from error
    except web.HTTPRequestEntityTooLarge:
        mib = limits.body_bytes // 2**20
        raise _Refused(413, "large", f"the body is longer than {mib} MiB") from None


def _health(metrics: AdmissionMetrics, unready_because: Callable[[], str]) -> list[web.RouteDef]:
    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        why = unready_because()
        return web.Response(text=why or "ok", status=503 if why else 200)

    async def measured(_: web.Request) -> web.Response:
        body = generate_latest(metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return [
        web.get("/healthz", live),
        web.get("/livez", live),
        web.get("/readyz", ready),
        web.get("/metrics", measured),
    ]
