"""The certificate of the embedded server: kubectl sends a token only over TLS."""

import datetime as dt
import ssl

from fairlead.base.certificates import Signer, private_pem
from fairlead.base.tls_chain import load_chain
from fairlead.model.lazy_dataclass import dataclass

_LIFE = dt.timedelta(days=365)


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A serving certificate with its key, and the authority that clients trust; all PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_chain(context, self.certificate, self.key)
        context.set_alpn_protocols(["http/1.1"])
        return context


def make_certificate() -> ServerCertificate:
    """A new authority and a certificate for the loopback names."""
    signer = Signer("fairlead embedded authority", _LIFE)
    names = ("localhost", "127.0.0.1", "::1")
    key, certificate = signer.serving("fairlead embedded server", names)
    return ServerCertificate(signer.certificate, certificate, private_pem(key))
