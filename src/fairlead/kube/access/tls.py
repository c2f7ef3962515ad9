"""TLS contexts for the API server, from PEM text and from files that are renewed while we run.

A context is replaced as a whole: connections made later use the new certificates, those that are
open keep the old ones. An authority that leaves its file is no longer trusted. A certificate and
key that do not belong together (read while someone was writing them) are left alone and tried
again, so a torn read never costs a working login.
"""

import ssl
from pathlib import Path

import structlog

from fairlead.base.tls_chain import load_chain
from fairlead.kube.access.replaceable import ReplaceableContext
from fairlead.kube.errors import KubeconfigError
from fairlead.model.lazy_dataclass import dataclass

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate or key: as text, or as the file that it was read from and may change in."""

    data: bytes
    file: Path | None = None

    @classmethod
    def read(cls, file: Path) -> "Pem":
        try:
            return cls(file.read_bytes(), file)
        except OSError as error:
            raise KubeconfigError(
                f"cannot read {file}, which the kubeconfig names: {error.strerror}; "
                "correct the path or its permissions"
            ) from error

    def reread(self) -> "Pem":
        return self if self.file is None else Pem.read(self.file)

    def __str__(self) -> str:
        return str(self.file or "the kubeconfig's inline data")


@dataclass(frozen=True, slots=True)
class ClientKeyPair:
    """A client certificate and its key."""

    certificate: Pem
    key: Pem

    def reread(self) -> "ClientKeyPair":
        return ClientKeyPair(self.certificate.reread(), self.key.reread())


class ClientContext(ReplaceableContext):
    """For connections to an API server. What cannot be used changes nothing."""

    def __init__(
        self,
        current: ssl.SSLContext,
        authority: Pem | None,
        pair: ClientKeyPair | None,
        *,
        verify: bool,
    ) -> None:
        self._authority, self._pair, self._verify = authority, pair, verify

    def trust(self, authority: Pem) -> None:
        """Trust these authorities from the next connection on, and no others.

        In a rotation, the file has the old and the new authority for some time.
        """
        self.current = _made(authority, self._pair, verify=self._verify)
        self._authority = authority

    def present(self, pair: ClientKeyPair) -> None:
        """Log in with this certificate from the next connection on."""
        self.current = _made(self._authority, pair, verify=self._verify)
        self._pair = pair


def client_context(
    authority: Pem | None, pair: ClientKeyPair | None, *, verify: bool
) -> ClientContext:
    """A context that trusts `authority` alone, or the system's authorities if there is none."""
    made = _made(authority, pair, verify=verify)
    return ClientContext(made, authority, pair, verify=verify)


def _made(authority: Pem | None, pair: ClientKeyPair | None, *, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context() if authority is None and verify else _bare_context()
    # Python 3.13 turns on RFC 5280 strictness, which many clusters' own authorities (and so
    # kubectl users) do not meet.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority is not None:
        _trust(context, authority)
    if pair is not None:
        _present(context, pair)
    return context


def _trust(context: ssl.SSLContext, authority: Pem) -> None:
    try:
        context.load_verify_locations(cadata=authority.data.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(
            f"{authority} holds no usable certificate authority ({error}); "
            "it must be one or more certificates in PEM form"
        ) from error


def _present(context: ssl.SSLContext, pair: ClientKeyPair) -> None:
    try:
        load_chain(context, pair.certificate.data, pair.key.data, _no_password)
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(
            f"the client certificate in {pair.certificate} and the key in {pair.key} cannot "
            f"be used together ({error}); both must be in PEM form and belong to each other"
        ) from error


class RenewedFiles:
    """Certificates in files, taken up again when the files change."""

    def __init__(
        self, context: ClientContext, authority: Pem | None, pair: ClientKeyPair | None
    ) -> None:
        self._context = context
        self._authority = authority
        self._pair = pair

    def reload(self) -> None:
        """Loads what changed. What cannot be used is left as it is, and logged once per attempt."""
        try:
            self._reload_authority()
            self._reload_pair()
        except KubeconfigError as error:
            _log.warning("keeping the last good certificates", error=str(error))

    def _reload_authority(self) -> None:
        if self._authority is None:
            return
        fresh = self._authority.reread()
        if fresh != self._authority:
            self._context.trust(fresh)
            self._authority = fresh

    def _reload_pair(self) -> None:
        if self._pair is None:
            return
        fresh = self._pair.reread()
        if fresh != self._pair:
            self._context.present(fresh)
            self._pair = fresh


def _bare_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _no_password() -> str:
    # Without this OpenSSL asks on the terminal and waits for ever.
    raise KubeconfigError(
        "the client key is encrypted; store it without a password, or log in with an exec plugin"
    )
