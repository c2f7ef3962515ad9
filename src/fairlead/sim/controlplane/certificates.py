"""The certificates of one run: an authority that lives as long as the control plane it is for."""

import datetime as dt
import ipaddress
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Names under which clients, in and out of a cluster, reach an API server on this machine.
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
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
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._clients: dict[tuple[str, ...], KeyPair] = {}
        self._turn = threading.Lock()
        self._name = _name("fairlead-control-plane")
        self._certificate = self._sign(self._key.public_key(), self._name, _authority_extensions())
        self.certificate = directory / "ca.crt"
        self.certificate.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, addresses: Sequence[str] = ()) -> KeyPair:
        """A certificate for a server on the loopback address, and on these."""
        names = [x509.DNSName(each) for each in _SERVER_NAMES]
        served = [ipaddress.ip_address(each) for each in ("127.0.0.1", *addresses)]
        extensions = [
            x509.SubjectAlternativeName([*names, *map(x509.IPAddress, served)]),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        ]
        return self._issue(name, _name(name), extensions)

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A certificate that Kubernetes reads as this user in these groups."""
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        with self._turn:
            known = self._clients.get((user, *groups))
            if known is None:
                name = f"client-{len(self._clients)}-{file_name(user)}"
                known = self._issue(name, _name(user, groups), [usage])
                self._clients[user, *groups] = known
            return known

    def _issue(
        self, name: str, subject: x509.Name, extensions: Sequence[x509.ExtensionType]
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        pair = KeyPair(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        certificate = self._sign(key.public_key(), subject, extensions)
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_private(pair.key, private_pem(key))
        return pair

    def _sign(
        self,
        public_key: ec.EllipticCurvePublicKey,
        subject: x509.Name,
        extensions: Sequence[x509.ExtensionType],
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(minutes=5))
            .not_valid_after(now + _LIFETIME)
        )
        for extension in [*extensions, *self._key_identifiers(public_key)]:
            builder = builder.add_extension(
                extension, critical=isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
            )
        return builder.sign(self._key, hashes.SHA256())

    def _key_identifiers(self, public_key: ec.EllipticCurvePublicKey) -> list[x509.ExtensionType]:
        # Python 3.13 and later refuse certificates without these.
        return [
            x509.SubjectKeyIdentifier.from_public_key(public_key),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        ]


def service_account_keys(directory: Path) -> KeyPair:
    """The key that signs ServiceAccount tokens; `certificate` is the bare public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    pair = KeyPair(directory / "service-account.pub", directory / "service-account.key")
    write_private(pair.key, private_pem(key))
    pair.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return pair


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The traditional form: Kubernetes reads an elliptic service account key in no other.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def file_name(identity: str) -> str:
    """An identity such as `system:serviceaccount:team:bot` as part of a file's name."""
    return identity.replace(":", "-").replace("/", "-")


def _name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _authority_extensions() -> list[x509.ExtensionType]:
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return [x509.BasicConstraints(ca=True, path_length=None), usage]
