"""`fairlead webhook`: answers the API server's reviews of new pods, until it is stopped."""

import asyncio
import datetime as dt
import gc
from collections.abc import Awaitable, Callable
from dataclasses import field
from functools import partial
from pathlib import Path

import structlog
from aiohttp import web

from fairlead import __version__
from fairlead.apps.config import run_plan
from fairlead.apps.fast_loop import run_in_fast_loop, until_signalled
from fairlead.apps.serving.callers import Callers, Gate
from fairlead.apps.serving.http_limits import HttpLimits
from fairlead.apps.serving.listening import listening
from fairlead.apps.webhook.queue_watch import QueueWatch
from fairlead.apps.webhook.server import make_webhook_app
from fairlead.base.durations import seconds
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.kube.admission.cert_rotation import CertLocations, CertRotation
from fairlead.kube.admission.certificates import ServingCert, Subject
from fairlead.kube.admission.class_reviews import ClassReviews
from fairlead.kube.admission.gpu_resources import CHOICES, Added
from fairlead.kube.admission.tls import ServingContext, read_pair
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.admission import AdmissionMetrics

log = structlog.get_logger(__name__)

_SHORTEST_LIFE_S = 5.0
#: How often certificates are looked after, whatever their life.
_LONGEST_PAUSE_S = 10.0
_FILES_PAUSE_S = 5.0
_RETRY_S = 2.0
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """What the command line said about the webhook alone; `plan` is for whom and for what."""

    plan: run_plan.RunOptions
    address: str = "0.0.0.0"
    port: int = 8443
    cert_dir: Path | None = None
    cert_lifetime: str = "2160h"
    namespace: str | None = None
    service: str = "fairlead-webhook"
    cert_store: str = "fairlead-webhook-tls"
    configuration: str = "fairlead"
    host: tuple[str, ...] = ()
    callers: Callers = field(default_factory=Callers)
    #: Which pods get requests for the parts of their GPUs.
    gpu_resources: str = "none"


def run(options: WebhookOptions) -> None:
    """Serves until SIGINT or SIGTERM, then ends what is under way and stops."""
    life_s = seconds(options.cert_lifetime)
    if life_s is None or life_s < _SHORTEST_LIFE_S:
        raise ConfigError(
            f"--cert-lifetime is {options.cert_lifetime!r}; write hours, minutes or seconds such "
            f"as 2160h, at least {_SHORTEST_LIFE_S:g}s"
        )
    plan = run_plan.plan(options.plan)
    profiles = plan.profiles
    isolation = {name: kind for name, one in profiles.items() if (kind := one.isolation)}
    decode = partial(
        decode_pod, gang_dialects=plan.gang_dialects, queue_dialects=plan.queue_dialects
    )
    handler = AdmissionHandler(
        frozenset(profiles),
        isolation=isolation,
        classes=ClassReviews.of(plan.service_classes),
        decode=decode,
        gpu_resources=_added(options.gpu_resources),
    )
    # What is here now stays: it need not be looked through for garbage between two answers.
    gc.freeze()
    run_in_fast_loop(lambda: _run(options, handler, dt.timedelta(seconds=life_s)))


def _added(text: str) -> Added:
    for choice in CHOICES:
        if text == choice:
            return choice
    raise ConfigError(f"--gpu-resources is {text[:80]!r}; choose {', '.join(CHOICES)}")


async def _run(options: WebhookOptions, handler: AdmissionHandler, life: dt.timedelta) -> None:
    shown, metrics = ServingContext(), AdmissionMetrics()
    gate = Gate(options.callers, shown)
    gate.trust()  # what is wrong from the start is said at once
    client = _client(options)
    if options.cert_dir is None:
        assert client is not None
        rotation = CertRotation(client, _places(options), Subject(_names(options), life))
        pause_s = min(life.total_seconds() / 40, _LONGEST_PAUSE_S)
        updater = CertUpdater(
            gate, metrics, lambda: rotation.turn(dt.datetime.now(dt.UTC)), pause_s
        )
    else:
        folder = options.cert_dir
        read_pair(folder)
        updater = CertUpdater(
            gate, metrics, lambda: asyncio.to_thread(read_pair, folder), _FILES_PAUSE_S
        )
    limits = HttpLimits()
    queues = QueueWatch(client, handler.queues) if client else None
    catch_up = queues.catch_up if queues else None
    app = make_webhook_app(handler, metrics, updater.unready_because, limits, gate, catch_up)
    watching = asyncio.create_task(queues.run()) if queues else None
    try:
        await until_signalled(_serve(options, handler.schedulers, app, updater, limits))
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if client is not None:
            await client.close()
    log.info("stopped")


def _client(options: WebhookOptions) -> Client | None:
    """For certificates and queues. With certificates from files it can do without."""
    try:
        access = load_access(options.plan.kubeconfig, options.plan.context)
    except FairleadError as error:
        if options.cert_dir is None:
            raise
        log.info("queues that pods name are not checked", reason=str(error))
        return None
    return Client(access, user_agent=f"fairlead-webhook/{__version__}")


async def _serve(
    options: WebhookOptions,
    schedulers: frozenset[str],
    app: web.Application,
    updater: "CertUpdater",
    limits: HttpLimits,
) -> None:
    while not await updater.once():
        await asyncio.sleep(_RETRY_S)
    async with listening(app, updater.shown.context, options.address, options.port, limits) as port:
        log.info(
            "started",
            version=__version__,
            schedulers=sorted(schedulers),
            health=f"https://{options.address}:{port}",
        )
        await updater.on()


class CertUpdater:
    """Keeps the certificate that is shown current, and the authorities of clients."""

    def __init__(
        self,
        gate: Gate,
        metrics: AdmissionMetrics,
        current: Callable[[], Awaitable[ServingCert]],
        pause_s: float,
    ) -> None:
        assert gate.shown is not None
        self.shown = gate.shown
        self._gate = gate
        self._metrics = metrics
        self._current = current
        self._pause_s = pause_s

    async def on(self) -> None:
        while True:
            await asyncio.sleep(self._pause_s)
            await self.once()

    async def once(self) -> bool:
        """Takes up what is current; False if that did not work this time."""
        try:
            changed = self.shown.show(await self._current())
            note_authorities(self._gate)
        except FairleadError as error:
            self._metrics.certificate_troubles.inc()
            log.warning("certificate rotation failed; retrying", error=str(error))
            return False
        ends = self.shown.ends
        if changed and ends is not None:
            self._metrics.certificates_shown.inc()
            self._metrics.certificate_ends.set(ends.timestamp())
            log.info("serving certificate loaded", until=ends.isoformat())
        return True

    def unready_because(self) -> str:
        """A sentence while no API server could trust us; empty if one can."""
        ends = self.shown.ends
        if ends is None:
            return "there is no certificate yet"
        if ends <= dt.datetime.now(dt.UTC):
            return f"the certificate expired at {ends.isoformat()}; see the log for the reason"
        return ""


def note_authorities(gate: Gate) -> None:
    """Takes up new authorities of clients. Raises ConfigError."""
    if gate.trust():
        log.info("client authorities changed", file=str(gate.callers.authorities))


def _places(options: WebhookOptions) -> CertLocations:
    return CertLocations(_namespace(options), options.cert_store, options.configuration)


def _names(options: WebhookOptions) -> tuple[str, ...]:
    """As API servers call us: by the Service, or as the URL of the configuration says."""
    service = f"{options.service}.{_namespace(options)}.svc"
    return (service, f"{service}.cluster.local", *options.host)


def _namespace(options: WebhookOptions) -> str:
    if options.namespace:
        return options.namespace
    try:
        return _NAMESPACE_FILE.read_text().strip()
    except OSError:
        return "fairlead-system"
