"""Health and metrics over HTTP, under every name that probes of the replaced systems use."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry

from fairlead.apps.serving.details import Details
from fairlead.apps.serving.http_limits import Scrapes

SERVICE = "gpu-scheduler"


def make_app(
    registry: CollectorRegistry,
    unready_because: Callable[[], str],
    standing: Callable[[], str] = str,
    details: Details | None = None,
) -> web.Application:
    """Live as long as the event loop turns; ready while pods are being scheduled.

    `details` are what names pods, for those who may see them.

    A standby is ready, too, or a rolling update would wait for it for ever; `standing` says so.
    """

    async def live(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        why = unready_because()
        return web.Response(text=why or standing() or "ok", status=503 if why else 200)

    async def health_json(_: web.Request) -> web.Response:
        return web.json_response({"status": "healthy", "service": SERVICE})

    async def ready_json(_: web.Request) -> web.Response:
        why = unready_because()
        said = {"status": "not ready" if why else "ready", "service": SERVICE}
        reason = why or standing()
        return web.json_response(
            said | ({"reason": reason} if reason else {}), status=503 if why else 200
        )

    app = web.Application(client_max_size=1024)
    app.add_routes([
        web.get("/healthz", live),
        web.get("/livez", live),
        web.get("/readyz", ready),
        web.get("/health", health_json),
        web.get("/ready", ready_json),
        web.get("/metrics", Scrapes(registry).answer),
        *(details.routes() if details else ()),
    ])  # fmt: skip
    return app
