"""What the server shows to whoever connects, and how it is changed while it runs.

The context is changed in place: connections that are open go on, new ones see the new certificate.
"""

import datetime as dt
import ssl
import tempfile
from pathlib import Path

from fairlead.kube.admission.certificates import Pair
from fairlead.model.errors import ConfigError


class Shown:
    """The server's side of TLS. Before the first `show` it cannot serve."""

    def __init__(self) -> None:
        self.context = _bare()
        self.pair: Pair | None = None

    @property
    def ends(self) -> dt.datetime | None:
        """When the certificate expires; None while there is none."""
        return self.pair.ends if self.pair else None

    def show(self, pair: Pair) -> bool:
        """Shows this one from the next connection on; False if it was shown already.

        Raises ConfigError, and goes on with the last one, if it cannot be used.
        """
        if pair == self.pair:
            return False
        if not pair.usable:
            raise ConfigError("the certificate and the key do not belong together, or are no PEM")
        with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(pair.certificate)
            key.touch(mode=0o600)
            key.write_bytes(pair.key)
            try:
                # What fails half-way leaves a context without a key: try it where nobody looks.
                for context in (_bare(), self.context):
                    context.load_cert_chain(certificate, key)
            except ssl.SSLError as error:
                raise ConfigError(f"the certificate cannot be used: {error}") from error
        self.pair = pair
        return True


def read_pair(folder: Path) -> Pair:
    """`tls.crt` and `tls.key`, as cert-manager and Kubernetes name them."""
    try:
        return Pair((folder / "tls.crt").read_bytes(), (folder / "tls.key").read_bytes())
    except OSError as error:
        raise ConfigError(
            f"cannot read {error.filename}: {error.strerror}; --cert-dir must hold tls.crt and "
            "tls.key, or be left out"
        ) from error


def _bare() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
