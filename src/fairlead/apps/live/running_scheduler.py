"""Questions to a scheduler that runs, as the user of a kubeconfig.

Its routes that name pods ask for a token. It is sent only where others cannot read it: over TLS,
or to this machine, such as to a `kubectl port-forward`.
"""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from fairlead.apps.serving.access import HOW, is_loopback
from fairlead.kube.access.credentials import Credentials
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

_TIMEOUT_S = 35.0
_LONGEST = 256 * 2**20
_SERVICE = re.compile(r"([a-z0-9-]+)/([a-z0-9-]+)(?::([a-z0-9-]+))?")
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+) ")
_FORWARD_S = 20.0


class NotAnswered(FairleadError):
    """There is no answer; the text says why, and what to do."""


@dataclass(slots=True)
class RunningScheduler:
    url: str
    credentials: Credentials
    _asks_for_token: bool = False

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body of its answer. Raises NotAnswered."""
        where = URL(self.url.rstrip("/") + path).with_query(dict(params or {}))
        headers = await self._token(where) if self._asks_for_token else {}
        status, body = await _get(where, headers)
        if status == 401 and not headers:
            self._asks_for_token = True
            status, body = await _get(where, await self._token(where))
        if status != 200:
            raise NotAnswered(_refused(where, status, body))
        return body

    async def _token(self, where: URL) -> dict[str, str]:
        if where.scheme != "https" and not is_loopback(where.host or ""):
            raise NotAnswered(
                f"{where.origin()} requires your token, which must not be sent in "
                f"clear text over the network; {HOW}"
            )
        headers = await self.credentials.headers()
        if not headers.get("Authorization", "").startswith("Bearer "):
            raise NotAnswered(
                f"{where.origin()} requires a token, and this kubeconfig has none (only the API "
                "server can verify a certificate); give the user of your context a token: "
                "kubectl config set-credentials USER --token=$(kubectl create token NAME)"
            )
        return headers


async def _get(where: URL, headers: Mapping[str, str]) -> tuple[int, bytes]:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(where, headers=headers, allow_redirects=False) as reply,
        ):
            body = b""
            while chunk := await reply.content.read(_LONGEST - len(body)):
                body += chunk
            return reply.status, body
    except (aiohttp.ClientError, TimeoutError) as error:
        raise NotAnswered(
            f"no answer from {where}: {error or 'it took too long'}; "
            "set --scheduler to the address of `fairlead run`"
        ) from error


def _refused(where: URL, status: int, body: bytes) -> str:
    said = " ".join(body[:500].decode(errors="replace").split())
    known = status in (401, 403, 429, 503)
    more = "" if known else "; check that it is Fairlead of this version"
    return f"{where.origin()}{where.path} answered {status}: {said}{more}"


def kubectl_options(kubeconfig: str | None, context: str | None) -> tuple[str, ...]:
    """The options of kubectl that name the cluster."""
    said = {"kubeconfig": kubeconfig, "context": context}
    return tuple(f"--{option}={value}" for option, value in said.items() if value)


@asynccontextmanager
async def running_scheduler(
    where: str, credentials: Credentials, kubectl: tuple[str, ...] = ()
) -> AsyncIterator[RunningScheduler]:
    """At a URL, or at NAMESPACE/SERVICE[:PORT], to which kubectl forwards a port meanwhile.

    `kubectl` are options that tell it the cluster. Through the API server's own proxy the scheduler
    would not learn who asks.
    """
    if where.startswith(("http://", "https://")):
        yield RunningScheduler(where, credentials)
        return
    found = _SERVICE.fullmatch(where)
    if found is None:
        raise NotAnswered(
            f"--scheduler {where!r}: write a URL, or NAMESPACE/SERVICE[:PORT] in the cluster"
        )
    namespace, service, port = found.groups()
    command = (
        "port-forward", *kubectl, f"--namespace={namespace}", "--address=127.0.0.1",
        f"service/{service}", f":{port or 'http'}",
    )  # fmt: skip
    async with _forwarded(command) as number:
        yield RunningScheduler(f"http://127.0.0.1:{number}", credentials)


@asynccontextmanager
async def _forwarded(command: tuple[str, ...]) -> AsyncIterator[int]:
    program = shutil.which("kubectl")
    if program is None:
        raise NotAnswered(
            f"kubectl is not installed, so no port can be forwarded; elsewhere, {HOW}"
        )
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, *command, stdout=pipe, stderr=pipe)
    listening: asyncio.Task[None] | None = None
    try:
        port = await _port_of(process)
        listening = asyncio.create_task(_let_it_talk(process))
        yield port
    finally:
        if listening is not None:
            listening.cancel()
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _let_it_talk(process: asyncio.subprocess.Process) -> None:
    """It writes a line for each connection, and would wait for ever if they were not read."""
    assert process.stdout is not None
    while await process.stdout.read(4096):
        pass


async def _port_of(process: asyncio.subprocess.Process) -> int:
    """The port that it forwards, once it does."""
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(_FORWARD_S):
            line = await process.stdout.readline()
            found = _FORWARDING.match(line)
            if found:
                return int(found[1])
            said = (await process.stderr.read(1000)).decode(errors="replace").strip()
    except TimeoutError:
        said = f"it forwarded nothing within {_FORWARD_S:g} s"
    raise NotAnswered(
        f"kubectl port-forward failed: {said or 'it ended'}; you need permission to get services "
        "and pods and to create pods/portforward in that namespace"
    )
