"""Who may lead, and when: with clocks that we set."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from examples import examples
from fairlead.kube.leadership.election import Election, LeaderRecord, Terms

TERMS = Terms(lease_s=15, renew_s=10, retry_s=2)


def an_election(name: str = "a") -> Election:
    return Election(name, TERMS)


def test_a_lease_that_nobody_has_is_free() -> None:
    election = an_election()
    election.observe(None, 5.0)
    assert election.free_at_s() == -math.inf

    record = election.claim("now")
    assert record == LeaderRecord("a", 15, "now", "now", 0)
    election.written(record, 5.0)
    assert election.time_left_s(5.0) == 10.0
    assert election.time_left_s(14.9) > 0 >= election.time_left_s(15.0)


def test_another_is_left_alone_for_as_long_as_its_record_says_from_its_last_change() -> None:
    election = an_election()
    held = LeaderRecord("b", 7, "t0", "t0", 3)
    election.observe(held, 100.0)
    election.observe(held, 104.0)  # the same: no sign of life
    assert election.free_at_s() == 107.0
    election.observe(LeaderRecord("b", 7, "t0", "t1", 3), 106.0)
    assert election.free_at_s() == 113.0
    assert election.claim("t2") == LeaderRecord("a", 15, "t2", "t2", 4)


def test_a_released_lease_is_free_at_once() -> None:
    old, new = an_election("old"), an_election("new")
    old.written(old.claim("t0"), 0.0)
    released = old.release("t1")
    new.observe(LeaderRecord("old", 15, "t0", "t0", 0), 0.0)
    new.observe(released, 1.0)
    assert new.free_at_s() == -math.inf
    assert new.claim("t2").transitions == 1


def test_a_deleted_lease_still_counts_and_comes_back_as_it_was() -> None:
    leader, standby = an_election("leader"), an_election("standby")
    leader.written(leader.claim("t0"), 0.0)
    standby.observe(leader.claim("t0"), 1.0)
    for election in (leader, standby):
        election.observe(None, 2.0)
    assert standby.free_at_s() == 16.0
    assert leader.claim("t1") == LeaderRecord("leader", 15, "t0", "t1", 0)


def test_a_leader_that_sees_another_name_leads_no_more() -> None:
    election = an_election()
    election.written(election.claim("t0"), 0.0)
    election.observe(LeaderRecord("b", 15, "t1", "t1", 1), 1.0)
    assert election.time_left_s(1.0) <= 0


def test_the_number_of_transitions_stays_one_that_the_server_takes() -> None:
    election = an_election()
    election.observe(LeaderRecord("", 1, "", "", 2**31 - 1), 0.0)
    assert election.claim("now").transitions == 0


@pytest.mark.parametrize(
    ("terms", "complaint"),
    [
        (Terms(), ""),
        (Terms(lease_s=10), "longer than renewDeadline"),
        (Terms(renew_s=2), "1.2 times retryPeriod"),
        (Terms(lease_s=0.5), "1s or longer"),
        (Terms(retry_s=0), "longer than nothing"),
    ],
)
def test_terms_on_which_nobody_could_lead_are_refused(terms: Terms, complaint: str) -> None:
    assert complaint in terms.problem()
    assert bool(terms.problem()) == bool(complaint)


@given(st.integers(0, 2**31 - 1), st.text(max_size=9), st.text(max_size=9))
def test_epochs_of_two_holders_differ(number: int, one: str, other: str) -> None:
    first, second = an_election(one), an_election(other)
    for election in (first, second):
        election.observe(LeaderRecord("", 1, "", "", number), 0.0)
        election.written(election.claim("now"), 0.0)
    assert (first.epoch == second.epoch) == (one == other)


class _Candidate:
    """A process: it is slow, sleeps for as long as it likes, and its clock shows what it likes."""

    def __init__(self, name: str, offset_s: float) -> None:
        self.election = Election(name, TERMS)
        self.offset_s = offset_s
        self.version = -1
        #: A write that left at some time over some version, and has not arrived yet.
        self.sent: tuple[LeaderRecord, float, int] | None = None


class TwoElectors(RuleBasedStateMachine):
    """However slow its parts are, and whoever deletes the Lease: never do two lead at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.lease: LeaderRecord | None = None
        self.version = 0
        self.candidates = [_Candidate("a", 0.0), _Candidate("b", 1e6)]
        self.names = (f"next-{number}" for number in itertools.count())

    def _time(self, who: _Candidate) -> float:
        return self.now_s + who.offset_s

    def _start_again(self) -> None:
        """A leader whose time is over ends. Its successor has another name, and reads first."""
        for number, who in enumerate(self.candidates):
            over = who.election.time_left_s(self._time(who)) <= 0
            if over and who.election.holder == who.election.identity and self.lease is not None:
                self.candidates[number] = _Candidate(next(self.names), who.offset_s)
                self.looks(number)

    @rule(seconds=st.sampled_from([0.5, 4.5, 5.5, 9, 11, 16]), first=st.sets(st.integers(0, 1)))
    def time_passes(self, seconds: float, first: set[int]) -> None:
        """Some look first, as they do all the time."""
        for number in first:
            self.looks(number)
        self.now_s += seconds
        self._start_again()

    @rule(number=st.integers(0, 1))
    def looks(self, number: int) -> None:
        who = self.candidates[number]
        who.version = self.version
        who.election.observe(self.lease, self._time(who))

    @rule(number=st.integers(0, 1))
    def sends(self, number: int) -> None:
        self._start_again()
        who, now_s = self.candidates[number], self._time(self.candidates[number])
        leads = who.election.time_left_s(now_s) > 0
        if who.sent is None and who.version >= 0 and (leads or now_s >= who.election.free_at_s()):
            who.sent = who.election.claim(f"{self.now_s:f}"), now_s, who.version

    @rule(number=st.integers(0, 1))
    def arrives(self, number: int) -> None:
        who = self.candidates[number]
        if who.sent is None:
            return
        (record, began_s, version), who.sent = who.sent, None
        if version == self.version:  # else a conflict
            self.lease = record
            self.version += 1
            who.version = self.version
            who.election.written(record, began_s)

    @rule(number=st.integers(0, 1))
    def takes_a_turn_without_delay(self, number: int) -> None:
        self.looks(number)
        self.sends(number)
        self.arrives(number)

    @rule(number=st.integers(0, 1))
    def is_released(self, number: int) -> None:
        who = self.candidates[number]
        if who.sent is None and who.election.time_left_s(self._time(who)) > 0:
            self.lease = who.election.release(f"{self.now_s:f}")
            self.version += 1
            who.election.observe(self.lease, self._time(who))

    @rule()
    def is_deleted(self) -> None:
        """By hand. One who did not see it could not know of its leader: the epoch is for that."""
        self._start_again()
        if self.lease is not None and all(w.version == self.version for w in self.candidates):
            self.lease = None
            self.version += 1

    @invariant()
    def one_leads_at_most(self) -> None:
        leading = [w for w in self.candidates if w.election.time_left_s(self._time(w)) > 0]
        assert len(leading) <= 1


TestTwoElectors = TwoElectors.TestCase
TestTwoElectors.settings = examples(200, steps=25)
