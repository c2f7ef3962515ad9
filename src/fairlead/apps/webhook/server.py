"""The webhook over HTTPS: two reviews, health and metrics, and limits."""

import traceback
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from fairlead.apps.serving.callers import Gate
from fairlead.apps.serving.http_limits import (
    HttpLimits,
    HttpRefusal,
    RequestLimiter,
    answered,
    health,
    read,
    refusal,
)
from fairlead.apps.webhook.cpu_time import TookTooLong, within
from fairlead.kube.admission.admission_handler import AdmissionAnswer, AdmissionHandler
from fairlead.kube.admission.review import BadReview
from fairlead.telemetry.admission import AdmissionMetrics

log = structlog.get_logger(__name__)


def make_webhook_app(
    handler: AdmissionHandler,
    metrics: AdmissionMetrics,
    unready_because: Callable[[], str],
    limits: HttpLimits | None = None,
    gate: Gate | None = None,
    catch_up: Callable[[], Awaitable[None]] | None = None,
) -> web.Application:
    """Live as long as the event loop turns; ready while its certificate is good.

    `catch_up` reads the newest queues before a refusal that they might change.
    """
    limits = limits or HttpLimits()
    limiter, gate = RequestLimiter(limits), gate or Gate()

    def asked(route: str, answer: Callable[[bytes], AdmissionAnswer]) -> web.RouteDef:
        async def handle(request: web.Request) -> web.Response:
            with metrics.answer_seconds.labels(route).time():
                try:
                    is_old = gate.enter(request)
                    async with limiter.admitted():
                        body = await read(request, limits)
                        given = answer(body)
                        if given.in_doubt and catch_up is not None:
                            await catch_up()
                            given = answer(body)
                except HttpRefusal as refused:
                    metrics.answers.labels(route, refused.outcome).inc()
                    return refusal(refused)
                metrics.answers.labels(route, given.outcome).inc()
                return answered(given.body, close=is_old)

        return web.post(f"/{route}", handle)

    app = web.Application()
    app.add_routes([
        asked("mutate", _clear(handler.mutate, limits)),
        asked("validate", _clear(handler.validate, limits)),
        *health(metrics.registry, unready_because),
    ])  # fmt: skip
    return app


def _clear(
    answer: Callable[[bytes], AdmissionAnswer], limits: HttpLimits
) -> Callable[[bytes], AdmissionAnswer]:
    def answered(body: bytes) -> AdmissionAnswer:
        try:
            return within(limits.cpu_s, answer, body)
        except TookTooLong as error:
            raise _ended(limits.cpu_s, len(body)) from error
        except BadReview as error:
            raise HttpRefusal(400, "bad", str(error)) from error
        except Exception as error:
            raise _crashed(error) from error

    return answered


def _ended(cpu_s: float, body_bytes: int) -> HttpRefusal:
    log.error("review ended", after_cpu_s=cpu_s, body_bytes=body_bytes)
    took = f"the review took more than {cpu_s:g} s of CPU time and was stopped"
    return HttpRefusal(503, "slow", took)


def _crashed(error: Exception) -> HttpRefusal:
    """A defect of Fairlead: the pod is not created; other reviews are not affected."""
    trace = "".join(traceback.format_exception(error, limit=-3))
    log.error("review failed", error=repr(error), trace=trace)
    return HttpRefusal(500, "failed", "Fairlead failed to process this pod; see its log")
