"""Certificates of the webhook: one authority for each, whose key is not kept.

An authority signs one certificate and is then trusted for as long as that is valid. Its key is
deleted at once, so that it cannot be stolen to sign more. A new certificate
therefore needs a new authority to be trusted first: `CertState.advanced` has the order of steps.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import field, replace

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from fairlead.base.certificates import BACKDATED, PEM, Signer, private_pem
from fairlead.model.lazy_dataclass import dataclass

#: However long certificates live, this is long enough for every API server to learn whom to trust.
LONGEST_OVERLAP = dt.timedelta(minutes=5)


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
        """When we created it; meaningless for certificates of others."""
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
    # Each has a name of its own: verifiers look an issuer up by its name.
    name = f"fairlead-webhook-ca-{now:%Y%m%dT%H%M%S}-{x509.random_serial_number():x}"[:64]
    signer = Signer(name, subject.life, now)
    key, certificate = signer.serving(subject.names[0][:64], subject.names, now)
    return ServingCert(certificate, private_pem(key)), signer.certificate


def _still_valid(bundle: bytes, now: dt.datetime) -> bytes:
    try:
        found = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        found = []  # empty, or not ours: trusted is who signed what is shown from now on
    return b"".join(one.public_bytes(PEM) for one in found if one.not_valid_after_utc > now)


def _issuers(bundle: bytes, certificate: bytes) -> bytes:
    """Those of the bundle whose name is that of the issuer; each of ours has a name of its own."""
    issuer = _first(certificate).issuer
    found = x509.load_pem_x509_certificates(bundle) if bundle else []
    return b"".join(one.public_bytes(PEM) for one in found if one.subject == issuer)


def _first(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificates(pem)[0]
