"""What is told adds up to what is held, whatever comes in whatever order."""

import contextlib
import itertools
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.mirror.changes import Change, Deleted, Synced, Undecodable, Upserted, Vanished
from fairlead.kube.mirror.comparer import mismatches
from fairlead.kube.mirror.feed import Feed, Stats
from fairlead.kube.mirror.mirror import Mirror, Snapshot
from fairlead.kube.mirror.position import OutOfStep, Position
from fairlead.kube.mirror.wire import StatusError, read_identity


@dataclass(frozen=True)
class Thing:
    key: str
    uid: str
    version: str


def unreadable(key: str | None, uid: str = "u1", version: str = "1") -> Undecodable:
    return Undecodable(key, uid, version, "…", "no", None)


@dataclass
class Listener:
    """Keeps the books from what it is told, and finds every contradiction."""

    held: dict[str, Thing] = field(default_factory=dict)
    bad: dict[str, Undecodable] = field(default_factory=dict)

    def hear_all(self, changes: list[Change[Thing]]) -> None:
        for change in changes:
            self.hear(change)

    def hear(self, change: Change[Thing]) -> None:
        match change:
            case Upserted(obj):
                held = self.held.get(obj.key)
                assert held is None or held.uid == obj.uid, "replaced without a Deleted"
                assert held != obj or obj.key in self.bad, "told twice"
                self.held[obj.key] = obj
                self.bad.pop(obj.key, None)
            case Deleted(obj):
                assert self.held.pop(obj.key).uid == obj.uid
                self.bad.pop(obj.key, None)
            case Vanished(key, uid):
                assert key not in self.held
                assert self.bad.pop(key).uid == uid
            case Undecodable():
                if change.key is not None:
                    assert self.bad.get(change.key) != change, "told twice"
                    self.bad[change.key] = change
            case Synced():
                raise AssertionError("a mirror knows of no sync")


keys = st.sampled_from(["a", "b", "c"])
uids = st.sampled_from(["u1", "u2"])
versions = st.sampled_from(["1", "2", "3"])
things = st.builds(Thing, keys, uids, versions)
bads = st.builds(unreadable, keys, st.sampled_from(["u1", "u2", ""]), versions)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot[Thing]:
    snapshot = Snapshot[Thing]()
    for thing in draw(st.lists(things)):
        snapshot.add(thing)
    for bad in draw(st.lists(bads, max_size=2)):
        snapshot.add_unreadable(bad)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1]))):
        snapshot.add_unreadable(unreadable(None))
    return snapshot


steps = st.one_of(
    st.tuples(st.just("put"), things),
    st.tuples(st.just("bad"), bads),
    st.tuples(st.just("remove"), things),
    st.tuples(st.just("replace"), snapshots()),
)


@given(st.lists(steps))
def test_what_is_told_adds_up_to_what_is_held(script: list[tuple[str, object]]) -> None:
    mirror, listener = Mirror[Thing](), Listener()
    for step in script:
        match step:
            case ("put", Thing() as thing):
                changes = mirror.put(thing)
            case ("bad", Undecodable() as bad):
                changes = mirror.put_unreadable(bad)
            case ("remove", Thing() as thing):
                changes = mirror.remove(thing.key, thing.uid, thing)
            case ("replace", Snapshot() as snapshot):
                changes = [change for group in mirror.replace(snapshot) for change in group]
        listener.hear_all(changes)
        assert listener.held == mirror.objects
        assert listener.bad == mirror.unreadable


@given(snapshots(), snapshots())
def test_a_replaced_mirror_is_the_snapshot(old: Snapshot[Thing], new: Snapshot[Thing]) -> None:
    mirror = Mirror[Thing]()
    list(mirror.replace(old))
    list(mirror.replace(new))
    assert new.objects.items() <= mirror.objects.items()
    extra = mirror.objects.keys() - new.objects.keys()
    if not new.nameless:
        assert extra <= new.unreadable.keys(), "kept only where its new version is unreadable"
    assert mirror.unreadable.items() >= new.unreadable.items()


@given(snapshots(), snapshots(), st.integers(0, 5))
def test_a_replacement_may_stop_half_way(
    old: Snapshot[Thing], new: Snapshot[Thing], at: int
) -> None:
    mirror, listener = Mirror[Thing](), Listener()
    for group in mirror.replace(old):
        listener.hear_all(group)
    for group in itertools.islice(mirror.replace(new), at):
        listener.hear_all(group)
    assert listener.held == mirror.objects
    for group in mirror.replace(new):
        listener.hear_all(group)
    assert listener.held == mirror.objects


def test_the_gone_come_before_the_new() -> None:
    mirror = Mirror[Thing]()
    mirror.put(Thing("a", "u1", "1"))
    snapshot = Snapshot[Thing]()
    snapshot.add(Thing("b", "u2", "2"))
    assert list(mirror.replace(snapshot)) == [
        [Deleted(Thing("a", "u1", "1"))],
        [Upserted(Thing("b", "u2", "2"))],
    ]


def test_nothing_counts_as_missing_beside_an_object_without_a_name() -> None:
    mirror = Mirror[Thing]()
    mirror.put(Thing("a", "u1", "1"))
    snapshot = Snapshot[Thing]()
    snapshot.add_unreadable(unreadable(None))
    assert list(mirror.replace(snapshot)) == [[unreadable(None)]]
    assert "a" in mirror.objects


def test_a_late_deletion_of_a_former_object_is_ignored() -> None:
    mirror = Mirror[Thing]()
    mirror.put(Thing("a", "u2", "2"))
    assert mirror.remove("a", "u1") == []


# Positions


def test_a_position_moves_forward_only() -> None:
    position = Position()
    position.start("10")
    position.advance("10")
    position.advance("12")
    assert position.resume == "12"
    with pytest.raises(OutOfStep):
        position.advance("11")
    position.advance("opaque")
    assert position.resume == "12"
    position.sync_from_here()
    assert (position.resume, position.since) == (None, "12")
    position.sync_anew()
    assert (position.resume, position.since) == (None, "")
    position.start("3")
    position.advance("4")


@pytest.mark.parametrize(
    ("newest", "ahead"), [("9", True), ("10", False), ("11", False), ("", False), ("x", False)]
)
def test_being_ahead_of_the_server(newest: str, ahead: bool) -> None:
    position = Position()
    position.start("10")
    assert position.is_ahead_of(newest) is ahead


# Feeds


def a_feed(told: list[Change[Thing]], kind: str = "") -> Feed[Thing]:
    def decode(raw: bytes) -> Thing:
        meta = json.loads(raw)["metadata"]
        return Thing(meta["name"], meta["uid"], meta["resourceVersion"])

    return Feed(decode, told.append, kind, Stats())


def an_event(kind: str, name: str = "a", uid: str = "u1", version: str = "5") -> bytes:
    meta = {"name": name, "uid": uid, "resourceVersion": version}
    return json.dumps({"type": kind, "object": {"metadata": meta}}).encode()


def test_an_event_moves_copy_and_position_together() -> None:
    told: list[Change[Thing]] = []
    feed = a_feed(told)
    feed.apply(an_event("ADDED"))
    feed.apply(an_event("MODIFIED", version="7"))
    assert (feed.position.resume, feed.mirror.objects["a"].version) == ("7", "7")
    with pytest.raises(OutOfStep):
        feed.apply(an_event("DELETED", version="6"))
    assert (feed.position.resume, feed.mirror.objects["a"].version) == ("7", "7")
    feed.apply(an_event("DELETED", version="8"))
    last = Thing("a", "u1", "8")
    assert told[-1] == Deleted(last)


def test_a_streamed_list_moves_nothing_before_its_end() -> None:
    feed, snapshot = a_feed([]), Snapshot[Thing]()
    assert feed.gather(an_event("ADDED", version="9"), snapshot) == ""
    assert feed.gather(an_event("ADDED", "b", version="3"), snapshot) == ""
    assert feed.gather(an_event("DELETED", "b", version="10"), snapshot) == ""
    assert feed.gather(an_event("BOOKMARK", version="10"), snapshot) == ""
    end = json.loads(an_event("BOOKMARK", version="11"))
    end["object"]["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
    assert feed.gather(json.dumps(end).encode(), snapshot) == "11"
    assert feed.position.resume is None
    assert list(snapshot.objects) == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b'{"type":"ADDED"}',
        b'{"type":7,"object":{}}',
        b'{"object":{}}',
        b'{"type":"added","object":{}}',
        b'{"type":"ERROR","object":[]}',
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":5}}}',
        b'{"type":"DELETED","object":{"metadata":null}}',
        b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"}}}',
    ],
)
def test_lines_that_make_no_sense(line: bytes) -> None:
    feed = a_feed([], kind="Thing")
    with pytest.raises(OutOfStep):
        feed.apply(line)


@given(st.binary())
def test_no_bytes_at_all_do_harm(line: bytes) -> None:
    with contextlib.suppress(OutOfStep, StatusError):
        a_feed([]).apply(line)


def test_the_kind_may_stand_anywhere_or_be_absent() -> None:
    told: list[Change[Thing]] = []
    feed = a_feed(told, kind="Thing")
    meta = {"name": "a", "uid": "u", "resourceVersion": "1"}
    for obj in ({"kind": "Thing", "metadata": meta}, {"metadata": meta | {"name": "b"}}):
        feed.apply(json.dumps({"type": "ADDED", "object": obj}).encode())
    meta = meta | {"name": "c"}
    feed.apply(
        json.dumps({"type": "ADDED", "object": {"metadata": meta, "kind": "Thing"}}).encode()
    )
    assert [change.obj.key for change in told if isinstance(change, Upserted)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("metadata", "key"),
    [
        ('{"name":"p","namespace":"n","uid":"u","resourceVersion":"1"}', "n/p"),
        ('{"name":"p","labels":{"x":7}}', "p"),
        ('{"name":7}', None),
        ("{}", None),
    ],
)
def test_an_unreadable_object_is_named_if_it_can_be(metadata: str, key: str | None) -> None:
    told: list[Change[Thing]] = []

    def decode(raw: bytes) -> Thing:
        raise KeyError("spec")

    feed = Feed(decode, told.append, "", Stats())
    feed.apply(b'{"type":"ADDED","object":{"metadata":' + metadata.encode() + b"}}")
    (bad,) = told
    assert isinstance(bad, Undecodable)
    assert bad.key == key
    assert bad.object is not None


def test_an_excerpt_of_bytes_that_are_no_text() -> None:
    told: list[Change[Thing]] = []
    feed = a_feed(told)
    feed.apply(b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}')
    (bad,) = told
    assert isinstance(bad, Undecodable)
    assert "\\xff" in bad.raw_excerpt


# Comparing


def listed(**versions: str) -> dict[str, object]:
    return {
        name: read_identity(
            json.dumps(
                {"metadata": {"name": name, "uid": "u1", "resourceVersion": version}}
            ).encode()
        )
        for name, version in versions.items()
    }


@pytest.mark.parametrize(
    ("held", "found", "removed", "wrong"),
    [
        pytest.param({"a": "5"}, {"a": "5"}, set(), [], id="the same"),
        pytest.param({"a": "12"}, {"a": "5"}, set(), [], id="we moved on"),
        pytest.param({"a": "4"}, {"a": "5"}, set(), ["a"], id="an update was lost"),
        pytest.param({}, {"a": "5"}, set(), ["a"], id="an addition was lost"),
        pytest.param({}, {"a": "5"}, {"a"}, [], id="deleted since"),
        pytest.param({"a": "5"}, {}, set(), ["a"], id="a deletion was lost"),
        pytest.param({"a": "11"}, {}, set(), [], id="created since"),
        pytest.param({"a": "x"}, {"a": "y"}, set(), [], id="opaque versions accuse nobody"),
    ],
)
def test_mismatches(
    held: dict[str, str], found: dict[str, str], removed: set[str], wrong: list[str]
) -> None:
    mirror = Mirror[Thing]()
    for key, version in held.items():
        mirror.put(Thing(key, "u1", version))
    assert mismatches(mirror, listed(**found), "10", removed) == wrong  # type: ignore
