"""`fairlead extender`: answers a kube-scheduler's questions about cards, until told to stop."""

import asyncio
import ssl
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from aiohttp import web

from fairlead import __version__
from fairlead.apps import profiles
from fairlead.apps import run as running
from fairlead.apps.electing import Electing
from fairlead.apps.extender.extender import Extender
from fairlead.apps.extender.server import LIMITS, Server, make_app
from fairlead.apps.fast_loop import run_in_fast_loop
from fairlead.apps.webhook.listening import listening
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.admission.tls import Shown, read_pair
from fairlead.kube.http.client import Client
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.placement.profile import Profile
from fairlead.telemetry.extender import ExtenderMetrics
from fairlead.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

#: How often a certificate is looked for that replaces the one we show.
_FILES_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    kubeconfig: str | None = None
    context: str | None = None
    profile: str = profiles.SERVED_BY_DEFAULT[0]
    address: str = "127.0.0.1"
    port: int = 8888
    cert_dir: Path | None = None
    client_ca: Path | None = None
    electing: Electing = field(default_factory=Electing)


def run(options: Options) -> None:
    """Serves until SIGINT or SIGTERM, then ends what is under way and stops."""
    profile = profiles.built_in(options.profile)
    if not profile.grants_cards:
        raise ConfigError(f"profile {options.profile!r} only counts cards; choose another")
    shown = _shown(options)
    running.spare_the_collector()
    run_in_fast_loop(lambda: _run(options, profile, shown))


def _shown(options: Options) -> Shown | None:
    """The certificate to show; None: plain HTTP."""
    if options.cert_dir is None:
        if options.client_ca is not None:
            raise ConfigError("--client-ca needs TLS; give --cert-dir as well")
        return None
    shown = Shown()
    shown.show(read_pair(options.cert_dir))
    if options.client_ca is not None:
        try:
            shown.context.load_verify_locations(options.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"--client-ca {options.client_ca} cannot be used: {error}; give a PEM file of CAs"
            ) from error
        # Probes come without one; the verbs insist.
        shown.context.verify_mode = ssl.CERT_OPTIONAL
    return shown


async def _run(options: Options, profile: Profile, shown: Shown | None) -> None:
    access = load_access(options.kubeconfig, options.context)
    client = Client(access, user_agent=f"fairlead-extender/{__version__}")
    metrics = Metrics()
    extender = Extender(client, profile, metrics=metrics, terms=options.electing.terms(access))
    server = Server(
        extender,
        ExtenderMetrics(metrics.registry),
        needs_certificate=options.client_ca is not None,
    )
    app = make_app(server, metrics.registry, extender.unready_because)
    try:
        await running.until_signalled(_serve(options, app, extender, shown))
    finally:
        await client.close()
    log.info("stopped")


async def _serve(
    options: Options, app: web.Application, extender: Extender, shown: Shown | None
) -> None:
    context = shown.context if shown else None
    async with listening(app, context, options.address, options.port, LIMITS) as port:
        scheme = "https" if shown else "http"
        log.info(
            "started",
            version=__version__,
            profile=options.profile,
            health=f"{scheme}://{options.address}:{port}",
        )
        keeping = asyncio.create_task(_keep_current(shown, options.cert_dir))
        try:
            await extender.run()
        finally:
            keeping.cancel()


async def _keep_current(shown: Shown | None, folder: Path | None) -> None:
    """Takes up what replaces the certificate, from the next connection on."""
    while shown is not None and folder is not None:
        await asyncio.sleep(_FILES_PAUSE_S)
        try:
            changed = shown.show(await asyncio.to_thread(read_pair, folder))
        except FairleadError as error:
            log.warning("certificates cannot be kept current; trying on", error=str(error))
            continue
        if changed and shown.ends:
            log.info("certificate shown", until=shown.ends.isoformat())
