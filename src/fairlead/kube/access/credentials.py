"""How we prove who we are: the headers of every request, and how they stay fresh.

Static      a token, or a name and password, that never changes
TokenFile   a ServiceAccount's projected token, renewed by kubelet
ExecPlugin  a program that prints a credential (`fairlead.kube.access.execplugin`)
Renewing    any of these, beside certificates in files that may change
"""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from fairlead.kube.access.tls import RenewedFiles
from fairlead.kube.errors import KubeconfigError

#: Projected tokens are renewed at 80% of their life, so a minute's lag never meets an expired one.
REREAD_S = 60.0

_log = structlog.get_logger()


class Credentials(Protocol):
    """What a client asks before each request."""

    async def headers(self) -> dict[str, str]:
        """Headers that log in. Cheap: the same dict until the credential changes."""

    async def refresh(self) -> None:
        """The server said 401: obtain the credential again."""


class Static:
    """A credential that cannot change: a 401 is final."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    async def headers(self) -> dict[str, str]:
        return self._headers

    async def refresh(self) -> None:
        """Nothing to do."""


class TokenFile:
    """A token in a file that someone renews. Read again once a minute, and after a 401."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._headers = bearer(self._read())
        self._stale_at = clock() + REREAD_S

    async def headers(self) -> dict[str, str]:
        if self._clock() >= self._stale_at:
            await self.refresh()
        return self._headers

    async def refresh(self) -> None:
        """Read the file now; while it cannot be read, the last token stays in use."""
        self._stale_at = self._clock() + REREAD_S
        try:
            self._headers = bearer(self._read())
        except KubeconfigError as error:
            _log.warning("keeping the last token", error=str(error))

    def _read(self) -> str:
        try:
            token = self._file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise KubeconfigError(
                f"cannot read the token file {self._file} ({error}); mount the ServiceAccount's "
                "token there (automountServiceAccountToken), or correct the path"
            ) from error
        if not token:
            raise KubeconfigError(f"the token file {self._file} is empty; write a token to it")
        return token


class Renewing:
    """Another credential, and certificates in files that are looked at once a minute."""

    def __init__(
        self, inner: Credentials, files: RenewedFiles, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._inner = inner
        self._files = files
        self._clock = clock
        self._stale_at = clock() + REREAD_S

    async def headers(self) -> dict[str, str]:
        if self._clock() >= self._stale_at:
            self._reload()
        return await self._inner.headers()

    async def refresh(self) -> None:
        self._reload()
        await self._inner.refresh()

    def _reload(self) -> None:
        self._stale_at = self._clock() + REREAD_S
        self._files.reload()


def bearer(token: str) -> dict[str, str]:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise KubeconfigError(
            "the token has spaces, line breaks or other characters that no token has; "
            "copy it again without them"
        )
    return {"Authorization": f"Bearer {token}"}


def basic(username: str, password: str) -> dict[str, str]:
    secret = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {"Authorization": f"Basic {secret}"}
