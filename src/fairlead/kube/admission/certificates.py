"""Certificates of the webhook: one authority for each, whose key is not kept.

An authority signs one certificate and is then trusted for as long as that is valid. Its key is
deleted at once, so that it cannot be stolen to sign more. A new certificate
therefore needs a new authority to be trusted first: `CertState.advanced` has the order of steps.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: Clocks of other machines may be behind.
BACKDATED = dt.timedelta(minutes=5)
#: However long certificates live, this is long enough for every API server to learn whom to trust.
LONGEST_OVERLAP = dt.timedelta(minutes=5)
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class ServingCert:
    """A certificate and its key, in PEM form."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def ends(self) -> dt.datetime:
        return _first(self.certificate).not_valid_after_utc

    @property
    def made(self) -> dt.datetime:
        """When we made it; of other people's certificates this tells nothing."""
        return _first(self.certificate).not_valid_before_utc + BACKDATED

    @property
    def usable(self) -> bool:
        """Whether it is a certificate, and the key its own."""
        try:
            key = serialization.load_pem_private_key(self.key, None)
            return key.public_key() == _first(self.certificate).public_key()
        except (ValueError, TypeError, UnsupportedAlgorithm):
            return False

    def is_for(self, names: Sequence[str]) -> bool:
        found = _first(self.certificate).extensions
        try:
            known = found.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return False
        return set(names) <= {str(one.value) for one in known}


@dataclass(frozen=True, slots=True)
class Subject:
    """The names that certificates are for, and how long one is valid."""

    names: tuple[str, ...]
    life: dt.timedelta

    @property
    def overlap(self) -> dt.timedelta:
        """From the moment a new authority is trusted until its certificate is shown."""
        return min(self.life / 6, LONGEST_OVERLAP)


@dataclass(frozen=True, slots=True)
class CertState:
    """What is stored: the serving certificate, the next one, and all trusted authorities."""

    shown: ServingCert | None = None
    coming: ServingCert | None = None
    #: Authorities in PEM form, the newest last.
    trusted: bytes = b""
    #: When `shown` took the place of another.
    since: dt.datetime | None = None

    def advanced(self, now: dt.datetime, subject: Subject, *, published: bool) -> "CertState":
        """The next step if it is time for one, else the same.

        `published` says that API servers have all authorities that are trusted here. A third of
        a life before the end, or when it is for other names, a next certificate is made, and
        its authority trusted beside the old one; after the overlap it is shown. After another
        overlap, in which every replica has taken it up, the old authority is trusted no longer.
        """
        held = replace(self, trusted=_still_valid(self.trusted, now))
        shown, coming = held.shown, held.coming
        if shown is None or shown.ends <= now:
            fresh, authority = make(subject, now)
            return CertState(fresh, None, held.trusted + authority, now)
        if coming is not None and coming.is_for(subject.names):
            due = published and now >= coming.made + subject.overlap
            return replace(held, shown=coming, coming=None, since=now) if due else held
        if now >= shown.ends - subject.life / 3 or not shown.is_for(subject.names):
            fresh, authority = make(subject, now)
            return replace(held, coming=fresh, trusted=held.trusted + authority)
        return held.without_old(now, subject.overlap, shown)

    def without_old(
        self, now: dt.datetime, overlap: dt.timedelta, shown: ServingCert
    ) -> "CertState":
        """Without the authorities of certificates that no replica shows any more."""
        mine = _issuers(self.trusted, shown.certificate)
        if mine in (b"", self.trusted):
            return self
        if self.since is None:
            return replace(self, since=now)
        return replace(self, trusted=mine) if now >= self.since + overlap else self


def make(subject: Subject, now: dt.datetime) -> tuple[ServingCert, bytes]:
    """A new certificate, and the authority that must be trusted for it."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    signer, key = keys
    # Each has a name of its own: verifiers look an issuer up by its name.
    name = _name(f"fairlead-webhook-ca-{now:%Y%m%dT%H%M%S}-{x509.random_serial_number():x}"[:64])
    authority = _sign(signer, name, signer.public_key(), name, _authority(), now, subject)
    alternatives = x509.SubjectAlternativeName([_general_name(one) for one in subject.names])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    bearer = _name(subject.names[0][:64])
    leaf = _sign(signer, name, key.public_key(), bearer, [alternatives, usage], now, subject)
    private = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ServingCert(leaf, private), authority


def _sign(
    signer: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    bearer: x509.Name,
    extensions: Sequence[x509.ExtensionType],
    now: dt.datetime,
    subject: Subject,
) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(bearer)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + subject.life)
    )
    identifiers = [
        x509.SubjectKeyIdentifier.from_public_key(public_key),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
    ]
    for extension in [*extensions, *identifiers]:
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256()).public_bytes(_PEM)


def _authority() -> list[x509.ExtensionType]:
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    return [x509.BasicConstraints(ca=True, path_length=0), usage]


def _still_valid(bundle: bytes, now: dt.datetime) -> bytes:
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        found = []  # empty, or not ours: trusted is who signed what is shown from now on
    return b"".join(one.public_bytes(_PEM) for one in found if one.not_valid_after_utc > now)


def _issuers(bundle: bytes, certificate: bytes) -> bytes:
    """Those of the bundle whose name is that of the issuer; each of ours has a name of its own."""
    issuer = _first(certificate).issuer
    found = x509.load_pem_x509_certificates(bundle) if bundle else []
    return b"".join(one.public_bytes(_PEM) for one in found if one.subject == issuer)


def _first(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificates(pem)[0]


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
