"""A certificate authority of our own: kubectl sends a token only over TLS."""

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_DAYS = 365


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A serving certificate with its key, and the authority that clients trust; all PEM."""

    authority: bytes
    certificate: bytes
    key: bytes


def make_identity() -> ServerCertificate:
    """A fresh authority and a certificate for the loopback names."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("fairlead embedded authority")
    ca = _builder(ca_name, ca_name, ca_key.public_key())
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    ca = ca.add_extension(_usage(signs=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    ca = ca.add_extension(identifier, critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    leaf = _builder(_name("fairlead embedded server"), ca_name, key.public_key())
    leaf = leaf.add_extension(_loopback_names(), critical=False)
    leaf = leaf.add_extension(issuer, critical=False)
    serving = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    leaf = leaf.add_extension(serving, critical=False)
    return ServerCertificate(
        _pem(ca.sign(ca_key, hashes.SHA256())), _pem(leaf.sign(ca_key, hashes.SHA256())), _key(key)
    )


def server_context(identity: ServerCertificate, folder: Path) -> ssl.SSLContext:
    """A TLS context; the key passes through a private file because ssl reads only files."""
    chain = folder / "serving.pem"
    chain.touch(mode=0o600)
    chain.write_bytes(identity.key + identity.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    chain.unlink()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=_VALID_DAYS))
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _loopback_names() -> x509.SubjectAlternativeName:
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
    return x509.SubjectAlternativeName([x509.DNSName("localhost"), *addresses])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
