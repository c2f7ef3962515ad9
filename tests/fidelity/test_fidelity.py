"""The embedded server answers as kube-apiserver does.

Every case runs on the embedded server and is compared with what the real one answered: live where
it is at hand, and otherwise with the recording of its answers that lies beside this file.

    FIDELITY_RECORD=1 python -m pytest tests/fidelity -k recording    # renew it
"""

import json
import os
from pathlib import Path

import pytest

from fidelity.all_cases import ALL
from fidelity.differences import DIFFERENCES, OTHER_VERSIONS
from fidelity.script import Run, date_bookmarks, pretty

RECORDED = Path(__file__).with_name("recorded.json")


def _play(server, fresh_namespace, case):
    return json.loads(json.dumps(Run(server, fresh_namespace(server)).play(case.steps)))


def _compare(case, ours, theirs):
    if case.name in DIFFERENCES:
        assert ours != theirs, (
            f"{case.name!r} is listed as a difference ({DIFFERENCES[case.name]}) but is none: "
            "take it off the list"
        )
        return
    assert pretty(ours) == pretty(theirs)


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text())


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_answers_as_recorded(case, embedded, fresh_namespace, recorded):
    _compare(case, _play(embedded, fresh_namespace, case), recorded[case.name])


@pytest.mark.server
def test_the_recording_is_what_the_real_server_answers(real, fresh_namespace):
    answers = {case.name: _play(real, fresh_namespace, case) for case in ALL}
    version = real.request("GET", "/version")[1]
    otherwise = OTHER_VERSIONS.get(f"{version['major']}.{version['minor']}", {})
    if os.environ.get("FIDELITY_RECORD") and not otherwise:
        RECORDED.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")
    recorded = json.loads(RECORDED.read_text())
    changed = {name for name in answers if answers[name] != recorded.get(name)}
    assert changed == set(otherwise), (
        "the real server answers otherwise now: run with FIDELITY_RECORD=1, or correct the list of "
        "this version in differences.py:\n"
        + "\n".join(pretty({name: answers[name] for name in changed - set(otherwise)}))
    )


def test_cases_have_names_of_their_own():
    names = [case.name for case in ALL]
    assert len(set(names)) == len(names) >= 150


def test_every_listed_difference_is_a_case():
    listed = {*DIFFERENCES, *(name for names in OTHER_VERSIONS.values() for name in names)}
    assert listed <= {case.name for case in ALL}


def test_the_end_of_the_initial_events_may_have_a_later_version() -> None:
    def events(version: str) -> list[dict]:
        kinds = (("ADDED", "7"), ("BOOKMARK", version), ("ADDED", "12"))
        return [
            {"type": kind, "object": {"metadata": {"resourceVersion": at}}} for kind, at in kinds
        ]

    later, same = events("9"), events("7")
    date_bookmarks(later)
    date_bookmarks(same)
    assert later == same
