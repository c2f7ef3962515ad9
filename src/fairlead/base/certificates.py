"""Certificates that a private authority signs."""

import datetime as dt
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Clocks of other machines may be behind.
BACKDATED = dt.timedelta(minutes=5)
PEM = serialization.Encoding.PEM
FOR_CLIENTS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
_FOR_SERVERS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])


class Signer:
    """An authority whose key is only in memory. `certificate` is its own, in PEM form."""

    def __init__(self, name: str, life: dt.timedelta, now: dt.datetime | None = None) -> None:
        self._key = new_key()
        self._name = distinguished_name(name)
        self._life = life
        extensions = [x509.BasicConstraints(ca=True, path_length=0), _signs_certificates()]
        self.certificate = self._sign(self._key, self._name, extensions, now)

    def serving(
        self, common_name: str, names: Sequence[str], now: dt.datetime | None = None
    ) -> tuple[ec.EllipticCurvePrivateKey, bytes]:
        """A key, and its certificate for a server with these names and addresses."""
        alternatives = x509.SubjectAlternativeName(list(map(_general_name, names)))
        return self.issue(distinguished_name(common_name), [alternatives, _FOR_SERVERS], now)

    def issue(
        self,
        subject: x509.Name,
        extensions: Sequence[x509.ExtensionType],
        now: dt.datetime | None = None,
    ) -> tuple[ec.EllipticCurvePrivateKey, bytes]:
        """A key, and its certificate in PEM form."""
        key = new_key()
        return key, self._sign(key, subject, extensions, now)

    def _sign(
        self,
        key: ec.EllipticCurvePrivateKey,
        subject: x509.Name,
        extensions: Sequence[x509.ExtensionType],
        now: dt.datetime | None,
    ) -> bytes:
        now = now or dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(now + self._life)
        )
        # Python 3.13 and later refuse certificates without these.
        identifiers = [
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        ]
        for extension in [*extensions, *identifiers]:
            critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(PEM)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> bytes:
    return key.private_bytes(PEM, form, serialization.NoEncryption())


def distinguished_name(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _signs_certificates() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
