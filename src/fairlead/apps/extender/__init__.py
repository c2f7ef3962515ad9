"""`fairlead extender`: answers a kube-scheduler's questions about GPUs, until it is stopped."""

import asyncio
from dataclasses import field
from pathlib import Path

import structlog
from aiohttp import web

from fairlead import __version__
from fairlead.apps.collection import GarbageCollection, spare_the_collector
from fairlead.apps.config import profiles
from fairlead.apps.config.election_options import ElectionOptions
from fairlead.apps.extender.extender import ExtenderDriver
from fairlead.apps.extender.server import LIMITS, Server, make_extender_app
from fairlead.apps.fast_loop import run_in_fast_loop, until_signalled
from fairlead.apps.serving.callers import Callers, Gate
from fairlead.apps.serving.listening import listening
from fairlead.apps.webhook import note_authorities
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.admission.tls import ServingContext, read_pair
from fairlead.kube.http.client import Client
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.profile import Profile
from fairlead.telemetry.extender import ExtenderMetrics
from fairlead.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

#: How often a certificate is looked for that replaces the one we show.
_FILES_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class ExtenderOptions:
    kubeconfig: str | None = None
    context: str | None = None
    profile: str = profiles.SERVED_BY_DEFAULT[0]
    address: str = "127.0.0.1"
    port: int = 8888
    cert_dir: Path | None = None
    callers: Callers = field(default_factory=Callers)
    electing: ElectionOptions = field(default_factory=ElectionOptions)


def run(options: ExtenderOptions) -> None:
    """Serves until SIGINT or SIGTERM, then ends what is under way and stops."""
    profile = profiles.built_in(options.profile)
    if not profile.grants_gpus:
        raise ConfigError(f"profile {options.profile!r} only counts GPUs; choose another")
    gate = _gate(options)
    spare_the_collector()
    run_in_fast_loop(lambda: _run(options, profile, gate))


def _gate(options: ExtenderOptions) -> Gate:
    """With the certificate to show; without one: plain HTTP."""
    if options.cert_dir is None:
        if options.callers.authorities is not None:
            raise ConfigError("--client-ca requires TLS; add --cert-dir")
        return Gate(options.callers)
    shown = ServingContext()
    gate = Gate(options.callers, shown)
    shown.show(read_pair(options.cert_dir))
    gate.trust()
    return gate


async def _run(options: ExtenderOptions, profile: Profile, gate: Gate) -> None:
    access = load_access(options.kubeconfig, options.context)
    client = Client(access, user_agent=f"fairlead-extender/{__version__}")
    metrics = Metrics()
    extender = ExtenderDriver(
        client, profile, metrics=metrics, terms=options.electing.terms(access)
    )
    server = Server(extender, ExtenderMetrics(metrics.registry), gate, failures=extender.failures)
    app = make_extender_app(server, metrics.registry, extender.unready_because)
    try:
        collection = GarbageCollection(lambda: not extender.unready_because())
        await until_signalled(collection.during(_serve(options, app, extender, gate)))
    finally:
        await client.close()
    log.info("stopped")


async def _serve(
    options: ExtenderOptions, app: web.Application, extender: ExtenderDriver, gate: Gate
) -> None:
    context = gate.shown.context if gate.shown else None
    async with listening(app, context, options.address, options.port, LIMITS) as port:
        scheme = "https" if context else "http"
        log.info(
            "started",
            version=__version__,
            profile=options.profile,
            health=f"{scheme}://{options.address}:{port}",
        )
        keeping = asyncio.create_task(_keep_current(gate, options.cert_dir))
        try:
            await extender.run()
        finally:
            keeping.cancel()


async def _keep_current(gate: Gate, folder: Path | None) -> None:
    """Takes up what replaces certificate and authorities, from the next connection on."""
    shown = gate.shown
    while shown is not None and folder is not None:
        await asyncio.sleep(_FILES_PAUSE_S)
        try:
            changed = shown.show(await asyncio.to_thread(read_pair, folder))
            note_authorities(gate)
        except FairleadError as error:
            log.warning("certificate rotation failed; retrying", error=str(error))
            continue
        if changed and shown.ends:
            log.info("serving certificate loaded", until=shown.ends.isoformat())
