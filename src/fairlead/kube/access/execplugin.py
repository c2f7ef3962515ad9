"""Credential plugins: a program named in the kubeconfig prints a token or a client certificate.

Cloud vendors' logins work this way (`client.authentication.k8s.io`). The program runs beside the
event loop, at most once at a time, and again shortly before its credential expires, so requests
wait for it only when there is no valid credential at all.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from fairlead.kube.access.credentials import bearer
from fairlead.kube.access.tls import ClientContext, ClientKeyPair, Pem
from fairlead.kube.errors import KubeconfigError
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.lazy_dataclass import dataclass

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TIME_LIMIT_S = 60.0
#: A credential is renewed this long before it expires, or in the last fifth of a shorter life.
MARGIN_S = 60.0
#: Many requests may meet the same 401: what was obtained this recently is not obtained again.
_FRESH_S = 5.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Plugin:
    """The program to run, as the kubeconfig describes it."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, Any] | None = None
    install_hint: str = ""
    time_limit_s: float = TIME_LIMIT_S

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        told = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
        return {**inherited, **self.env, **told}


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class _Credential:
    headers: dict[str, str]
    renew_at: float
    expires_at: float


class ExecPlugin:
    """A credential that a program prints. See `fairlead.kube.access.credentials.Credentials`."""

    def __init__(
        self,
        plugin: Plugin,
        context: ClientContext | None,
        env: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plugin = plugin
        self._context = context
        self._env = env
        self._clock = clock
        self._credential: _Credential | None = None
        self._obtained_at = float("-inf")
        self._failure = ""
        self._retry_at = float("-inf")
        self._run: asyncio.Task[None] | None = None

    async def headers(self) -> dict[str, str]:
        """The login headers; raises KubeconfigError if the program gives none and none is valid."""
        now = self._clock()
        credential = self._credential
        if credential is None or now >= credential.expires_at:
            await self._obtained()
            credential = self._credential
            assert credential is not None
        elif now >= credential.renew_at and now >= self._retry_at:
            self._start()  # meanwhile the old one serves
        return credential.headers

    async def refresh(self) -> None:
        """Run the program again, unless it ran moments ago."""
        if self._clock() - self._obtained_at >= _FRESH_S:
            await self._obtained()

    async def _obtained(self) -> None:
        if self._clock() < self._retry_at:
            raise KubeconfigError(self._failure)  # it failed moments ago: do not hammer it
        await asyncio.shield(self._start())

    def _start(self) -> "asyncio.Task[None]":
        """The one run that is under way, begun now if there is none."""
        if self._run is None or self._run.done():
            self._run = asyncio.create_task(self._obtain())
            self._run.add_done_callback(self._note_failure)
        return self._run

    def _note_failure(self, run: "asyncio.Task[None]") -> None:
        if run.cancelled() or run.exception() is None:
            return
        self._failure = str(run.exception())
        self._retry_at = self._clock() + _FRESH_S
        _log.warning("the credential plugin failed", error=self._failure)

    async def _obtain(self) -> None:
        output = await _run(self._plugin, self._plugin.environment(self._env))
        status = _parse(self._plugin, output)
        if status.client_certificate_data and status.client_key_data:
            self._present(status.client_certificate_data, status.client_key_data)
        self._credential = self._lasting(status)
        self._obtained_at = self._clock()

    def _present(self, certificate: str, key: str) -> None:
        if self._context is None:
            raise KubeconfigError(
                f"the credential plugin {self._plugin.command!r} gave a client certificate, which "
                "needs a server with https://; correct the cluster's server in the kubeconfig"
            )
        self._context.present(ClientKeyPair(Pem(certificate.encode()), Pem(key.encode())))

    def _lasting(self, status: _Status) -> _Credential:
        """The credential with its expiry on our own clock, which no step of wall time moves."""
        headers = bearer(status.token) if status.token else {}
        if status.expiration_timestamp is None:
            return _Credential(headers, float("inf"), float("inf"))
        life_s = (_aware(status.expiration_timestamp) - datetime.now(UTC)).total_seconds()
        now = self._clock()
        return _Credential(headers, now + life_s - min(MARGIN_S, life_s / 5), now + life_s)


async def _run(plugin: Plugin, environment: dict[str, str]) -> bytes:
    """What the program printed; raises KubeconfigError if it failed or took too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise KubeconfigError(
            f"cannot run the credential plugin {plugin.command!r} of the kubeconfig "
            f"({error.strerror}); install it or correct the path{hint}"
        ) from error
    try:
        async with asyncio.timeout(plugin.time_limit_s):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise KubeconfigError(
            f"the credential plugin {plugin.command!r} did not finish in {plugin.time_limit_s:g} s;"
            " run it by hand to see what it waits for"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        said = errors.decode(errors="backslashreplace").strip()[-500:] or "it printed no reason"
        raise KubeconfigError(
            f"the credential plugin {plugin.command!r} failed with exit code "
            f"{process.returncode}: {said}; run it by hand, or log in again"
        )
    return output


def _parse(plugin: Plugin, output: bytes) -> _Status:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except UNREADABLE as error:
        raise KubeconfigError(
            f"the credential plugin {plugin.command!r} printed no ExecCredential ({error}); "
            "run it by hand to see what it prints"
        ) from error
    if answer.kind != "ExecCredential" or answer.api_version != plugin.api_version:
        raise KubeconfigError(
            f"the credential plugin {plugin.command!r} printed {answer.kind} "
            f"{answer.api_version} where the kubeconfig expects ExecCredential "
            f"{plugin.api_version}; make the apiVersions agree"
        )
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data):
        raise KubeconfigError(
            f"the credential plugin {plugin.command!r} printed neither a token nor a client "
            "certificate; run it by hand, or log in again"
        )
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise KubeconfigError(
            f"the credential plugin {plugin.command!r} printed a certificate without its key, or "
            "a key without its certificate; update the plugin"
        )
    return status


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def command_path(command: str, folder: Path) -> str:
    """A command with a slash is relative to the kubeconfig; a bare name is looked up in PATH."""
    return str(folder / command) if "/" in command else command
