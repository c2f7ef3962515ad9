"""Mutated objects of every kind that is read: no object ends anything but itself.

`make fuzz SEED=7 FOR=600` tries others, for so many seconds each, and shows how far it is.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import pytest

from claim_sums import oversold
from examples import so_many
from fairlead.kube.gangs.registry import DIALECTS, decode_object
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.kueue_workloads import read_workloads
from fairlead.kube.owner_kinds import OWNER_KINDS
from fairlead.kube.owner_run_times import read_owner
from fairlead.model.scheduling_map import MAP
from fuzz.agent import agent_story
from fuzz.cases import OBJECTS, run_case, try_case
from fuzz.claims import claims_story
from fuzz.node_requests import NodeRequestsStory
from fuzz.objects import Json, configurations, small_pods
from fuzz.optional import OptionalKindsStory
from fuzz.optional_objects import GANGS, REQUEST
from fuzz.owners import WORKLOAD, owner, owners_story
from fuzz.searching import batches, cases, no_timeout
from fuzz.target import Target
from fuzz.templates import sentence_about
from fuzz.topologies import TOPOLOGIES
from fuzz.watched import Watched, optional_watches

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
#: A story, how many cases of it there are, and what each of them does at least on average: with
#: less, too little is tried.
STORIES: dict[str, tuple[Callable[[int], int], int, int]] = {
    "objects": (try_case, so_many(10_000 // OBJECTS, few=30), OBJECTS),
    "optional kinds": (lambda seed: OptionalKindsStory(seed).run(), so_many(400, few=60), 2),
    "claims": (claims_story, so_many(40, few=10), 3),
    "owners": (owners_story, so_many(40, few=10), 2),
    "requests for nodes": (lambda seed: NodeRequestsStory(seed).run(), so_many(30, few=10), 2),
    "agent": (agent_story, so_many(20, few=6), 2),
}


@pytest.mark.parametrize(
    ("story", "seeds"),
    [
        pytest.param(name, *batch.values, id=f"{name} {batch.id}", marks=batch.marks)
        for name, (_, count, _) in STORIES.items()
        for batch in batches(count)
    ],
)
def test_no_object_ends_anything_but_itself(story: str, seeds: Iterable[int]) -> None:
    play, _, least = STORIES[story]
    done = [play(seed) for seed in seeds]
    assert sum(done) >= least * len(done), "too little was done to try anything"


@no_timeout
def test_no_claim_of_a_manifest_is_more_than_one_sentence() -> None:
    sentences = [sentence_about(seed) for seed in cases(400)]
    assert max(map(len, sentences)) < 500
    assert 0 < sentences.count("") < len(sentences)


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_found_once_stays_mended(path: Path) -> None:
    target = Target(Random(0))
    for obj in json.loads(path.read_text()):
        target.show(obj)
        target.decide(3)
    assert target.failures.counts == {}, "the API server accepts all of these"
    target.check()


def test_a_case_is_the_same_each_time() -> None:
    assert list(run_case(5)) == list(run_case(5))


# -- what is mutated makes sense as it is ----------------------------------------------------------


def test_unchanged_configurations_are_accepted_and_pods_with_maps_are_placed() -> None:
    target = Target(Random(0))
    for each in configurations():
        target.configure(each, strict=True)
    mapped = [pod for pod in small_pods() if MAP in pod["metadata"]["annotations"]]
    for count, pod in enumerate(mapped):
        target.show({**pod, "metadata": {**pod["metadata"], "name": f"mapped-{count}"}})
    target.decide(30)
    assert target.bound, target.refused


@pytest.mark.parametrize("kind", OWNER_KINDS)
def test_the_owners_that_are_mutated_declare_a_run_time(kind: str) -> None:
    found = read_owner(json.dumps(owner(kind)).encode(), kind)
    assert found.run_time is not None
    assert found.kueue_uid


def test_the_workload_that_is_mutated_has_a_limit() -> None:
    found = read_workloads(json.dumps({"items": [WORKLOAD]}).encode())
    assert found is not None
    assert found[0].bound_s == 500.0


def test_the_request_that_is_mutated_is_one_of_ours() -> None:
    case = NodeRequestsStory(0)
    case.watched.show(REQUEST, "fairlead-a", "default")
    (found,) = case.watched.objects.values()
    assert (found.gang, found.templates) == (GANGS[0], ("fairlead-a-0",))
    assert "no room" in found.sentence


@pytest.mark.parametrize("dialect", TOPOLOGIES)
def test_the_objects_that_are_mutated_describe_a_topology(dialect: str) -> None:
    target = Target(Random(0))
    watches = {each.name: each for each in optional_watches(target).values()}
    watched = Watched(target, watches[f"topology {dialect}"])
    watched.show(TOPOLOGIES[dialect], "a")
    (found,) = watched.objects.values()
    assert found.described is not None, found.problem


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.name)
def test_hostile_json_is_a_problem_of_the_object(dialect) -> None:
    if dialect.kind is None:
        return
    for spec in (b"[" * 100_000, b"1e999", b'"\\ud800"', b"{", b'{"minMember":1e400}', b"null"):
        raw = b'{"metadata":{"name":"g","namespace":"ns"},"spec":' + spec + b"}"
        try:
            assert decode_object(dialect, raw).spec.key == f"{dialect.name}/ns/g"
        except UNREADABLE:
            continue  # no JSON at all: the mirror reports it


# -- what finds devices that are given twice -------------------------------------------------------

SLICES = [
    {"spec": {"driver": "d", "pool": {"name": "p"}, "sharedCounters": [
        {"name": "s", "counters": {"memory": {"value": "40Gi"}}}]}},
    {"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [
        {"name": name, "capacity": {"memory": {"value": "10Gi"}},
         "consumesCounters": [{"counterSet": "s", "counters": {"memory": {"value": "30Gi"}}}]}
        for name in ("a", "b")]}},
]  # fmt: skip


def a_claim(device: str, **more: object) -> Json:
    result = {"request": "r", "driver": "d", "pool": "p", "device": device, **more}
    return {"status": {"allocation": {"devices": {"results": [result]}}}}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([a_claim("a")], 0),
        ([a_claim("a"), a_claim("a", adminAccess=True)], 0),
        ([a_claim("a"), a_claim("a")], 1),
        ([a_claim("a"), a_claim("b")], 1),
        ([a_claim("a", shareID=n, consumedCapacity={"memory": "5Gi"}) for n in "xy"], 0),
        ([a_claim("a", shareID=n, consumedCapacity={"memory": "6Gi"}) for n in "xy"], 1),
    ],
    ids=["once", "administrator", "twice", "counters", "shares", "too many shares"],
)
def test_what_is_oversold_is_seen(claims: list[Json], expected: int) -> None:
    assert len(oversold(SLICES, claims)) == expected
