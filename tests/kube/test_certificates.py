"""When certificates are made, published, shown and forgotten, and what TLS makes of them."""

import contextlib
import datetime as dt
import ssl
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from fairlead.kube.admission.certificates import CertState, ServingCert, Subject, make
from fairlead.kube.admission.tls import ServingContext, read_pair
from fairlead.model.errors import ConfigError

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SUBJECT = Subject(("webhook.ns.svc", "127.0.0.1"), dt.timedelta(days=90))


def days(number: float) -> dt.datetime:
    return START + dt.timedelta(days=number)


def held(now: dt.datetime = START) -> CertState:
    return CertState().advanced(now, SUBJECT, published=True)


def trusts(held: CertState, pair: ServingCert | None) -> bool:
    """Whether one of those trusted signed it."""
    assert pair is not None
    leaf = x509.load_pem_x509_certificate(pair.certificate)
    for authority in x509.load_pem_x509_certificates(held.trusted):
        with contextlib.suppress(ValueError, InvalidSignature):
            leaf.verify_directly_issued_by(authority)
            return True
    return False


def test_the_first_is_shown_at_once() -> None:
    first = held()

    assert first.shown is not None
    assert first.shown.is_for(SUBJECT.names)
    assert first.shown.ends == days(90)
    assert trusts(first, first.shown)
    assert first.coming is None


def test_nothing_happens_for_two_thirds_of_a_life() -> None:
    first = held()

    assert first.advanced(days(59), SUBJECT, published=True) == first


def test_the_next_is_announced_before_it_is_shown() -> None:
    first = held()

    second = first.advanced(days(60), SUBJECT, published=True)
    assert second.shown == first.shown
    assert second.coming is not None
    assert trusts(second, second.shown)
    assert trusts(second, second.coming)

    early = days(60) + SUBJECT.overlap - dt.timedelta(seconds=1)
    assert second.advanced(early, SUBJECT, published=True) == second
    due = days(60) + SUBJECT.overlap
    assert second.advanced(due, SUBJECT, published=False) == second
    third = second.advanced(due, SUBJECT, published=True)
    assert third.shown == second.coming
    assert third.coming is None
    assert trusts(third, first.shown), "others may still show it"


def test_the_old_authority_leaves_after_another_overlap() -> None:
    """Its key is in no replica any more, but a copy of it could be anywhere for 30 days."""
    first = held()
    second = first.advanced(days(60), SUBJECT, published=True)
    late = days(75)  # the API servers could not be told before
    third = second.advanced(late, SUBJECT, published=True)

    early = late + SUBJECT.overlap - dt.timedelta(seconds=1)
    assert third.advanced(early, SUBJECT, published=True) == third, "others may still show it"
    fourth = third.advanced(late + SUBJECT.overlap, SUBJECT, published=True)
    assert not trusts(fourth, first.shown)
    assert trusts(fourth, fourth.shown)
    assert fourth.advanced(days(80), SUBJECT, published=True) == fourth


def test_a_secret_from_before_is_given_its_overlap() -> None:
    first = held()
    second = first.advanced(days(60), SUBJECT, published=True)
    third = replace(second.advanced(days(61), SUBJECT, published=True), since=None)

    fourth = third.advanced(days(62), SUBJECT, published=True)
    assert trusts(fourth, first.shown)
    assert not trusts(fourth.advanced(days(63), SUBJECT, published=True), first.shown)


def test_an_authority_leaves_when_it_expires() -> None:
    first = held()
    second = first.advanced(days(60), SUBJECT, published=True)
    third = second.advanced(days(61), SUBJECT, published=True)

    late = third.advanced(days(90), SUBJECT, published=True)

    assert not trusts(late, first.shown)
    assert trusts(late, late.shown)


def test_after_a_long_absence_there_is_a_new_one_at_once() -> None:
    first = held()

    late = first.advanced(days(400), SUBJECT, published=True)

    assert late.shown not in (None, first.shown)
    assert len(x509.load_pem_x509_certificates(late.trusted)) == 1


def test_another_name_needs_another_certificate_in_the_same_order() -> None:
    wider = replace(SUBJECT, names=(*SUBJECT.names, "other.ns.svc"))
    first = held()

    second = first.advanced(days(1), wider, published=True)
    assert second.shown == first.shown
    third = second.advanced(days(2), wider, published=True)

    assert third.shown is not None
    assert third.shown.is_for(wider.names)
    assert third.advanced(days(2), SUBJECT, published=True) == third, "the old names will do"


def test_over_ten_years_whoever_is_one_step_behind_is_trusted() -> None:
    states = [held()]
    for day in range(1, 3650):
        states.append(states[-1].advanced(days(day), SUBJECT, published=True))

    assert len({state.shown.certificate for state in states if state.shown}) > 50
    for before, after in pairwise(states):
        assert trusts(before, after.shown)
        assert trusts(after, before.shown)


# -- what TLS makes of it --------------------------------------------------------------------------


def test_a_client_that_trusts_the_authority_gets_through() -> None:
    now = dt.datetime.now(dt.UTC)
    pair, authority = make(SUBJECT, now)
    shown = ServingContext()
    assert shown.show(pair)
    assert not shown.show(pair), "it is shown already"

    assert _handshake(shown.context, authority, "127.0.0.1") == ""
    assert _handshake(shown.context, authority, "webhook.ns.svc") == ""
    assert "match" in _handshake(shown.context, authority, "else.ns.svc")
    assert "verify failed" in _handshake(shown.context, make(SUBJECT, now)[1], "127.0.0.1")

    fresh, fresh_authority = make(SUBJECT, now)
    assert shown.show(fresh)
    assert _handshake(shown.context, authority + fresh_authority, "127.0.0.1") == ""
    assert "verify failed" in _handshake(shown.context, authority, "127.0.0.1")


def _handshake(server: ssl.SSLContext, trusted: bytes, name: str) -> str:
    """Why the client gives up; empty if it does not. All in memory."""
    context = ssl.create_default_context(cadata=trusted.decode())
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(down, up, server_hostname=name)
    serving = server.wrap_bio(up, down, server_side=True)
    for _ in range(6):
        for side in (client, serving):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return str(error)
    return ""


def test_what_does_not_belong_together_is_refused_and_the_last_one_stays() -> None:
    now = dt.datetime.now(dt.UTC)
    (one, authority), (other, _) = make(SUBJECT, now), make(SUBJECT, now)
    shown = ServingContext()
    shown.show(one)

    for wrong in (
        ServingCert(one.certificate, other.key),
        ServingCert(b"", b""),
        ServingCert(b"x", one.key),
    ):
        with pytest.raises(ConfigError, match="do not belong together"):
            shown.show(wrong)

    assert _handshake(shown.context, authority, "127.0.0.1") == ""


def test_a_folder_without_them_is_told_what_to_hold(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tls\.crt.*must hold tls\.crt and tls\.key"):
        read_pair(tmp_path)


def test_a_key_is_not_shown_to_whoever_prints_it() -> None:
    pair, _ = make(SUBJECT, START)

    assert "PRIVATE" not in repr(pair)
