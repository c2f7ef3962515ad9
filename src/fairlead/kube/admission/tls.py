"""What the server shows to clients, which clients it trusts, and how both change while it runs.

The context is replaced as a whole: connections that are open go on, new ones see the new
certificate, and an authority of clients that was taken out is trusted no longer.
"""

import datetime as dt
import ssl
from pathlib import Path

from fairlead.base.tls_chain import load_chain
from fairlead.kube.access.replaceable import ReplaceableContext
from fairlead.kube.admission.certificates import ServingCert
from fairlead.model.errors import ConfigError


class ServingContext:
    """The server's side of TLS. Before the first `show` it cannot serve."""

    def __init__(self) -> None:
        self.context = ReplaceableContext(_bare())
        self.pair: ServingCert | None = None
        self._authorities = ""

    @property
    def ends(self) -> dt.datetime | None:
        """When the certificate expires; None while there is none."""
        return self.pair.ends if self.pair else None

    def show(self, pair: ServingCert) -> bool:
        """Shows this one from the next connection on; False if it was shown already.

        Raises ConfigError, and goes on with the last one, if it cannot be used.
        """
        if pair == self.pair:
            return False
        if not pair.usable:
            raise ConfigError("the certificate and the key do not belong together, or are not PEM")
        self.context.current = _made(pair, self._authorities)
        self.pair = pair
        return True

    def trust(self, authorities: str) -> bool:
        """Trusts clients with a certificate of these from the next connection on, and no others.

        False if it did so already. Raises ConfigError, and goes on as before, if it is no PEM.
        A client that shows no certificate is connected as well: probes have none.
        """
        if authorities == self._authorities:
            return False
        if not authorities.strip():
            raise ConfigError("--client-ca is empty; give a PEM file of CAs")
        self.context.current = _made(self.pair, authorities)
        self._authorities = authorities
        return True

    def still_trusts(self, context: ssl.SSLContext) -> bool:
        """Whether all authorities that a connection of this context could rely on are trusted."""
        if context is self.context.current:
            return True
        now = set(self.context.current.get_ca_certs(binary_form=True))
        return now.issuperset(context.get_ca_certs(binary_form=True))


def _made(pair: ServingCert | None, authorities: str) -> ssl.SSLContext:
    context = _bare()
    if authorities:
        _expect(context, authorities)
    if pair is not None:
        _load(context, pair)
    return context


def _expect(context: ssl.SSLContext, authorities: str) -> None:
    try:
        context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"--client-ca cannot be used: {error}; give a PEM file of CAs") from error
    context.verify_mode = ssl.CERT_OPTIONAL


def _load(context: ssl.SSLContext, pair: ServingCert) -> None:
    try:
        load_chain(context, pair.certificate, pair.key)
    except ssl.SSLError as error:
        raise ConfigError(f"the certificate cannot be used: {error}") from error


def read_authorities(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--client-ca {file} cannot be used: {error}; give a PEM file of CAs"
        ) from error


def read_pair(folder: Path) -> ServingCert:
    """`tls.crt` and `tls.key`, as cert-manager and Kubernetes name them."""
    try:
        return ServingCert((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes())
    except OSError as error:
        raise ConfigError(
            f"cannot read {error.filename}: {error.strerror}; --cert-dir must hold tls.crt and "
            "tls.key, or be left out"
        ) from error


def _bare() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
