"""Bytes into lines, wherever the bytes are cut; and headers into seconds."""

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.errors import ReplyLost
from fairlead.kube.http import watch
from fairlead.kube.http.reply import LONGEST_RETRY_AFTER_S, Reply, parse_retry_after
from fairlead.kube.http.watch import LineSplitter

lines = st.lists(st.text(min_size=1).map(lambda t: t.replace("\n", "é").encode()))


@given(lines, st.binary().map(lambda b: b.replace(b"\n", b"")), st.data())
def test_any_chunking_gives_the_same_lines(
    whole: list[bytes], rest: bytes, data: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in whole) + rest
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    pieces = [
        stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    ]
    splitter = LineSplitter()
    assert [line for piece in pieces for line in splitter.feed(piece)] == whole


def test_empty_lines_are_no_lines() -> None:
    assert LineSplitter().feed(b"\n\na\n\n") == [b"a"]


def test_an_endless_line_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LONGEST_LINE", 100)  # 32 MiB take long to send
    splitter = LineSplitter()
    splitter.feed(b"x" * 90 + b"\n" + b"x" * 90)
    with pytest.raises(ReplyLost, match="longer than"):
        splitter.feed(b"x" * 20)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("1", 1.0),
        (" 60 ", 60.0),
        ("0", 0.0),
        ("86400", LONGEST_RETRY_AFTER_S),
        ("9" * 400, LONGEST_RETRY_AFTER_S),
        ("soon", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("nan", None),
        ("Wed, 99 Foo 9999 99:99:99 GMT", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER_S),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header) == seconds


def test_retry_after_a_date() -> None:
    seconds = parse_retry_after(formatdate(time.time() + 30, usegmt=True))
    assert seconds is not None
    assert 27 < seconds <= 30


@given(st.text())
def test_retry_after_garbage_never_harms(header: str) -> None:
    seconds = parse_retry_after(header)
    assert seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER_S


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"kind":"Status","message":"pods \\"x\\" not found"}', 'pods "x" not found'),
        (b'{"kind":"Status","reason":"Expired"}', "Expired"),
        (b"<html>\n  Bad   Gateway</html>", "<html> Bad Gateway</html>"),
        (b"\xff\x00", "\\xff\x00"),
        (b"", "HTTP 503"),
        (b"[]", "[]"),
        (b'{"message":' + b'"' + b"x" * 999 + b'"}', "x" * 299 + "…"),
    ],
)
def test_the_message_of_a_reply(body: bytes, message: str) -> None:
    assert Reply(503, body).message == message
