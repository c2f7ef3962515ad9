"""Questions to the API server about callers: remembered briefly, bounded, and never guessed."""

import json
from typing import Any

import pytest

from fairlead.kube.access.reviews import NO_S, YES_S, NotReviewed, Reviews, Right, TooMany, User
from fairlead.kube.errors import Unreachable
from fairlead.kube.http.reply import Reply
from scripted import Request, Scripted, status

ANN = {
    "username": "ann", "uid": "1", "groups": ["a", "b"], "extra": {"example.com/scopes": ["x"]},
}  # fmt: skip
LIST = Right("list", "pods", "lab")


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def reply(**said: Any) -> Reply:
    return Reply(201, json.dumps({"status": said}).encode())


def reviews(answer: Any, clock: Clock | None = None) -> tuple[Reviews, Scripted]:
    script = Scripted(answer if callable(answer) else lambda _: answer)
    return Reviews(script, clock or Clock()), script


async def test_who_it_is_and_what_he_may_do_is_asked_in_full() -> None:
    def answer(request: Request) -> Reply:
        if request.path.endswith("/tokenreviews"):
            return reply(authenticated=True, user=ANN)
        return reply(allowed=True)

    asked, script = reviews(answer)
    user = await asked.user("t")
    assert user is not None
    assert await asked.allows(user, Right("get", "pods", "lab", "p"))
    assert [request.body["spec"] for request in script.requests] == [
        {"token": "t"},
        {
            "user": "ann", "uid": "1", "groups": ["a", "b"], "extra": ANN["extra"],
            "resourceAttributes": {
                "verb": "get", "version": "v1", "resource": "pods", "namespace": "lab", "name": "p",
            },
        },
    ]  # fmt: skip


@pytest.mark.parametrize(("allowed", "remembered_s"), [(True, YES_S), (False, NO_S)])
async def test_an_answer_is_remembered_briefly(allowed: bool, remembered_s: float) -> None:
    clock = Clock()
    asked, script = reviews(reply(allowed=allowed), clock)
    for _ in range(3):
        assert await asked.allows(User("ann"), LIST) is allowed
    assert len(script.requests) == 1
    clock.now_s += remembered_s
    await asked.allows(User("ann"), LIST)
    assert len(script.requests) == 2


async def test_a_denial_wins() -> None:
    asked, _ = reviews(reply(allowed=True, denied=True))
    assert not await asked.allows(User("ann"), LIST)


async def test_the_rights_of_one_are_not_those_of_another() -> None:
    asked, _ = reviews(lambda request: reply(allowed=request.body["spec"]["user"] == "ann"))
    assert await asked.allows(User("ann"), LIST)
    assert not await asked.allows(User("bob"), LIST)
    assert not await asked.allows(User("bob", groups=("a",)), LIST)


@pytest.mark.parametrize(
    "answer",
    [
        status(403, "no"), status(500), status(200), Reply(201, b"nonsense"), Reply(201, b"[]"),
        Unreachable("away"),
    ],
    ids=["forbidden", "broken", "odd", "no JSON", "no review", "away"],
)  # fmt: skip
async def test_without_an_answer_there_is_no_access(answer: Any) -> None:
    asked, _ = reviews(answer)
    with pytest.raises(NotReviewed):
        await asked.allows(User("ann"), LIST)
    with pytest.raises(NotReviewed):
        await asked.user("t")


async def test_a_user_who_fills_memory_is_refused() -> None:
    huge = {"username": "ann", "groups": [f"group-{number}" for number in range(100_000)]}
    asked, _ = reviews(reply(authenticated=True, user=huge))
    with pytest.raises(NotReviewed, match="this user is too large"):
        await asked.user("t")


async def test_an_empty_status_is_a_no() -> None:
    asked, _ = reviews(reply())
    assert await asked.user("t") is None
    assert not await asked.allows(User("ann"), LIST)


async def test_tokens_are_checked_only_so_often() -> None:
    clock = Clock()
    asked, script = reviews(reply(authenticated=False), clock)
    for number in range(200):
        await asked.user(f"guess-{number}")
    with pytest.raises(TooMany):
        await asked.user("one too many")
    assert len(script.requests) == 200
    assert await asked.user("guess-0") is None, "what is known needs no question"
    clock.now_s += 1.0
    assert await asked.user("another") is None


async def test_one_user_does_not_use_up_the_questions_of_another() -> None:
    asked, _ = reviews(reply(allowed=True))
    for number in range(200):
        await asked.allows(User("bob"), Right("list", "pods", f"n{number}"))
    with pytest.raises(TooMany):
        await asked.allows(User("bob"), Right("list", "pods"))
    assert await asked.allows(User("ann"), LIST)
