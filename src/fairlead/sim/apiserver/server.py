"""The embedded API server: one object to start, with an address, a token and a kubeconfig."""

import asyncio
import contextlib
import errno
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from fairlead.base.private_files import write_private
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bootstrap import bootstrap
from fairlead.sim.apiserver.certificates import ServerCertificate, make_certificate
from fairlead.sim.apiserver.controllers import Controllers
from fairlead.sim.apiserver.following import follow_definitions
from fairlead.sim.apiserver.handler import Front
from fairlead.sim.apiserver.kubeconfig import kubeconfig
from fairlead.sim.apiserver.persistence import Saver, StateError, StateFile
from fairlead.sim.apiserver.store import DEFAULT_HISTORY, Store

Object = dict[str, Any]
HOST = "127.0.0.1"
# The real server's limit for a request body is 3 MiB; etcd's for an object is smaller.
MOST_BODY_BYTES = 3 * 1024 * 1024


class StartError(Exception):
    """The server cannot start; the text says in one line why and what to do."""


class EmbeddedServer:
    """A Kubernetes API on loopback, in the caller's event loop."""

    def __init__(self, api: ApiState, token: str, certificate: ServerCertificate) -> None:
        self.api, self.token, self._certificate = api, token, certificate
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    @property
    def authority(self) -> bytes:
        """The PEM certificate that clients have to trust."""
        return self._certificate.authority

    def kubeconfig(self) -> str:
        return kubeconfig(self.url, self.token, self.authority)

    def write_kubeconfig(self, path: Path) -> None:
        """Writes a kubeconfig that holds all a client needs; readable by its owner only."""
        write_private(path, self.kubeconfig().encode())

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        port: int = 0,
        state: Path | None = None,
        kubeconfig_out: Path | None = None,
        *,
        controllers: bool = True,
        history: int = DEFAULT_HISTORY,
    ) -> AsyncIterator["EmbeddedServer"]:
        """Serves until the block ends. With `state`, goes on from what that file holds."""
        async with contextlib.AsyncExitStack() as stack:
            store = await _open_store(stack, state, history)
            api = ApiState(store)
            server = cls(api, secrets.token_urlsafe(32), make_certificate())
            stack.push_async_callback(api.webhooks.close)
            follow_definitions(api)
            bootstrap(api)
            await server._listen(stack, port)
            if controllers:
                await stack.enter_async_context(Controllers(api).running())
            if kubeconfig_out:
                server.write_kubeconfig(kubeconfig_out)
            yield server

    async def _listen(self, stack: contextlib.AsyncExitStack, port: int) -> None:
        front = Front(self.api, self.token)
        runner = web.ServerRunner(
            web.Server(
                front.handle,
                request_factory=_request,
                access_log=None,
                handler_cancellation=True,
            ),
            shutdown_timeout=0.5,
        )
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        context = self._certificate.context()
        site = web.TCPSite(runner, HOST, port, ssl_context=context, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            raise _cannot_listen(port, error) from error
        self.port = int(runner.addresses[0][1])
        front.address = f"{HOST}:{self.port}"


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MOST_BODY_BYTES
    )


def _cannot_listen(port: int, error: OSError) -> StartError:
    if error.errno == errno.EADDRINUSE:
        return StartError(f"port {port} is taken: stop what listens there, or choose another port")
    return StartError(f"cannot listen on {HOST}:{port}: {error.strerror}")


async def _open_store(stack: contextlib.AsyncExitStack, state: Path | None, history: int) -> Store:
    if state is None:
        return Store(history=history)
    try:
        file = StateFile(state)
    except StateError as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(f"cannot open {state}: {error.strerror}") from error
    store = file.load(history)
    saver = Saver(store, file)
    saver.start()
    stack.push_async_callback(saver.stop)
    return store
