"""The extender over HTTP: kube-scheduler's four verbs, health and metrics, and limits."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from aiohttp import web
from prometheus_client import CollectorRegistry

from fairlead.apps.extender.extender import ExtenderDriver
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
from fairlead.kube.extender import wire
from fairlead.kube.extender.wire import BadExtenderArgs
from fairlead.kube.failures import Failures
from fairlead.telemetry.extender import ExtenderMetrics

#: Nodes in full are large, and there may be thousands of them; kube-scheduler asks one at a time.
LIMITS = HttpLimits(body_bytes=64 * 2**20, answer_s=4.0, in_hand=2, waiting=128)
#: Four names.
_BIND = replace(LIMITS, body_bytes=16 * 2**10)

VERBS = ("filter", "prioritize", "preempt", "bind")

Answer = Callable[[web.Request], Awaitable[bytes]]


class Server:
    """Answers while the cache is synced; before that, it replies with 503."""

    def __init__(
        self,
        extender: ExtenderDriver,
        metrics: ExtenderMetrics,
        gate: Gate | None = None,
        *,
        limits: HttpLimits = LIMITS,
        failures: Failures | None = None,
    ) -> None:
        self._extender = extender
        self._failures = failures or Failures()
        self._metrics = metrics
        self._gate = gate or Gate()
        self._limits = limits
        self._limiter = RequestLimiter(limits)

    def routes(self) -> list[web.RouteDef]:
        handler = self._extender.handler
        at_once = (
            self._at_once("prioritize", handler.prioritize),
            self._at_once("preempt", handler.preempt),
        )
        answers = zip(VERBS, (self._filter, *at_once, self._bind), strict=True)
        return [self._route(verb, answer) for verb, answer in answers]

    def _route(self, verb: str, answer: Answer) -> web.RouteDef:
        async def handle(request: web.Request) -> web.Response:
            with self._metrics.answer_seconds.labels(verb).time():
                try:
                    is_old = self._gate.enter(request)
                    self._check()
                    body = await answer(request)
                except HttpRefusal as refused:
                    self._metrics.answers.labels(verb, refused.outcome).inc()
                    return refusal(refused)
                self._metrics.answers.labels(verb, "answered").inc()
                return answered(body, close=is_old)

        return web.post(f"/{verb}", handle)

    def _check(self) -> None:
        why = self._extender.unready_because()
        if why:
            raise HttpRefusal(503, "unready", f"Fairlead cannot answer yet: {why}; retry later")

    def _at_once(self, verb: str, answer: Callable[[bytes], bytes]) -> Answer:
        async def answered(request: web.Request) -> bytes:
            async with self._limiter.admitted():
                body = await read(request, self._limits)
                with self._clear(verb):
                    return answer(body)

        return answered

    async def _filter(self, request: web.Request) -> bytes:
        async with self._limiter.admitted():
            body = await read(request, self._limits)
            with self._clear("filter"):
                query = self._extender.handler.filter(body)
                return await self._extender.refusal_delay.answer(query)

    async def _bind(self, request: web.Request) -> bytes:
        async with self._limiter.admitted():
            body = await read(request, _BIND)
        # Outside: other requests need not wait for the API server.
        with self._clear("bind"):
            asked = wire.read_bind(body)
            return wire.encode_binding_result(await self._extender.bind(asked))

    @contextmanager
    def _clear(self, verb: str) -> Iterator[None]:
        """What goes wrong in the block is told to kube-scheduler; other requests go on."""
        try:
            yield
        except BadExtenderArgs as error:
            raise HttpRefusal(
                400, "bad", f"{error}; is this kube-scheduler's extender protocol?"
            ) from error
        except Exception as error:
            self._failures.note("answering", f"a {verb} request", error)
            said = f"Fairlead failed to answer this {verb} request; see its log"
            raise HttpRefusal(500, "failed", said) from error


def make_extender_app(
    server: Server, registry: CollectorRegistry, unready_because: Callable[[], str]
) -> web.Application:
    app = web.Application()
    app.add_routes([*server.routes(), *health(registry, unready_because)])
    return app
