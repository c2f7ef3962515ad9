"""The API server's version: read, asked for, and asked for again."""

import random

import pytest
import structlog

from fairlead.kube.errors import ApiError, ReplyLost, Unreachable
from fairlead.kube.http.reply import Reply
from fairlead.kube.mirror.backoff import Backoff
from fairlead.kube.version import (
    UNREADABLE_VERSION,
    Unauthorized,
    Version,
    ask_version,
    learn_behaviour,
    parse_version,
)
from fairlead.model.behaviour import KUBERNETES_1_36, KUBERNETES_1_37, Behaviour
from scripted import Scripted, in_turn, status


def told(minor: str, major: str = "1") -> Reply:
    body = f'{{"major": "{major}", "minor": "{minor}", "gitVersion": "v{major}.{minor}.1"}}'
    return Reply(200, body.encode())


def impatient() -> Backoff:
    return Backoff(random.Random(0), first_s=0.0001)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (told("37").body, Version(1, 37)),
        (told("36+").body, Version(1, 36)),
        (told("36-gke.100").body, Version(1, 36)),
        (told("").body, UNREADABLE_VERSION),
        (told("x").body, UNREADABLE_VERSION),
        (b'{"major": 1, "minor": 37}', UNREADABLE_VERSION),
        (b'{"kind": "Status"}', UNREADABLE_VERSION),
        (b"[]", UNREADABLE_VERSION),
        (b"<html>welcome</html>", UNREADABLE_VERSION),
        (b"\xff", UNREADABLE_VERSION),
        (b"", UNREADABLE_VERSION),
    ],
    ids=repr,
)
def test_versions_are_read_whatever_is_sent(body: bytes, expected: Version) -> None:
    assert parse_version(body) == expected


@pytest.mark.parametrize("code", [401, 408, 429, 500, 503])
async def test_a_server_in_trouble_has_not_told_its_version(code: int) -> None:
    with pytest.raises(ApiError, match="not now"):
        await ask_version(Scripted(lambda _: status(code, "not now")))


@pytest.mark.parametrize("code", [302, 403, 404])
async def test_a_server_that_will_not_tell_has_no_readable_version(code: int) -> None:
    assert await ask_version(Scripted(lambda _: status(code))) == UNREADABLE_VERSION


async def test_the_version_is_asked_for_until_there_is_an_answer() -> None:
    answers = (Unreachable("away"), status(503), ReplyLost("lost"), told("37"))
    transport = Scripted(in_turn(*answers))
    assert await learn_behaviour(transport, impatient()) is KUBERNETES_1_37
    assert [request.path for request in transport.requests] == ["/version"] * 4


async def test_credentials_that_stay_wrong_end_with_their_cause() -> None:
    transport = Scripted(lambda _: status(401))
    with pytest.raises(Unauthorized, match=r"does not accept these credentials: .*; correct the"):
        await learn_behaviour(transport, impatient())
    assert len(transport.requests) == 4


async def test_credentials_that_are_renewed_meanwhile_do() -> None:
    answers = (status(401), status(401), status(401), status(503), status(401), told("37"))
    assert await learn_behaviour(Scripted(in_turn(*answers)), impatient()) is KUBERNETES_1_37


@pytest.mark.parametrize(
    ("reply", "expected", "line"),
    [
        (told("36"), KUBERNETES_1_36, {"log_level": "info", "version": "1.36"}),
        (told("37"), KUBERNETES_1_37, {"log_level": "info", "version": "1.37"}),
        (told("40"), KUBERNETES_1_37, {"log_level": "warning", "server": "1.40"}),
        (told("30"), KUBERNETES_1_36, {"log_level": "warning", "server": "1.30"}),
        (status(403), KUBERNETES_1_36, {"log_level": "warning", "server": "unreadable"}),
    ],
)
async def test_one_line_of_the_log_says_what_was_chosen(
    reply: Reply, expected: Behaviour, line: dict[str, str]
) -> None:
    with structlog.testing.capture_logs() as logged:
        assert await learn_behaviour(Scripted(lambda _: reply), impatient()) is expected
    (entry,) = logged
    assert line.items() <= entry.items()
    assert entry["version"] == expected.name
