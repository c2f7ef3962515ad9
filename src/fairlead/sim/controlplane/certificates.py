"""The certificates of one run: an authority that lives as long as the control plane it is for."""

import datetime as dt
import threading
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.base.certificates import (
    FOR_CLIENTS,
    PEM,
    Signer,
    distinguished_name,
    new_key,
    private_pem,
)
from fairlead.base.private_files import write_private
from fairlead.model.lazy_dataclass import dataclass

#: Names under which clients, in and out of a cluster, reach an API server on this machine.
_SERVER_NAMES = (
    "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1",
)  # fmt: skip
_LIFETIME = dt.timedelta(days=7)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Paths of a PEM certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates into `directory`; nothing outside this run trusts it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._signer = Signer("fairlead-control-plane", _LIFETIME)
        self._clients: dict[tuple[str, ...], KeyPair] = {}
        self._turn = threading.Lock()
        self.certificate = directory / "ca.crt"
        self.certificate.write_bytes(self._signer.certificate)

    def server(self, name: str, addresses: Sequence[str] = ()) -> KeyPair:
        """A certificate for a server on the loopback address, and on these."""
        return self._write(name, *self._signer.serving(name, (*_SERVER_NAMES, *addresses)))

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A certificate that Kubernetes reads as this user in these groups."""
        with self._turn:
            known = self._clients.get((user, *groups))
            if known is None:
                name = f"client-{len(self._clients)}-{file_name(user)}"
                issued = self._signer.issue(distinguished_name(user, groups), [FOR_CLIENTS])
                known = self._clients[user, *groups] = self._write(name, *issued)
            return known

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: bytes) -> KeyPair:
        pair = KeyPair(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        pair.certificate.write_bytes(certificate)
        write_private(pair.key, private_pem(key))
        return pair


def service_account_keys(directory: Path) -> KeyPair:
    """The key that signs ServiceAccount tokens; `certificate` is the bare public key."""
    key = new_key()
    pair = KeyPair(directory / "service-account.pub", directory / "service-account.key")
    # Kubernetes reads an elliptic service account key in no other form.
    write_private(pair.key, private_pem(key, serialization.PrivateFormat.TraditionalOpenSSL))
    public = key.public_key()
    pair.certificate.write_bytes(
        public.public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return pair


def file_name(identity: str) -> str:
    """An identity such as `system:serviceaccount:team:bot` as part of a file's name."""
    return identity.replace(":", "-").replace("/", "-")
