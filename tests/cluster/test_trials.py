"""A trial over many nodes leaves no trace, or committed, what the same changes one by one leave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_pod, drawing, drawn, pod_term
from drawn_worlds import NODES, World, worlds
from examples import examples
from fairlead.apps.config.profiles import NAMES, built_in
from fairlead.cluster import trial as trial_module
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Checkpoint, Trial
from fairlead.model.gpus import Grant
from fairlead.model.pods import Pod
from fairlead.model.storage import VolumePlan
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Verdict
from snapshots import seen, state

Step = tuple[str, int, int]
_steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["place", "place", "assume", "evict", "evict all", "checkpoint", "rollback"]
        ),
        st.integers(0, 9),
        st.integers(0, 5),
    ),
    max_size=12,
)
_profiles = st.sampled_from(NAMES)


@pytest.fixture(autouse=True, scope="module")
def few_are_many() -> Iterator[None]:
    """Drawn worlds have few pods: these are taken away together, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial_module, "_MANY", 1)
        yield


class Really:
    """The same steps as ordinary changes."""

    def __init__(self, cluster: Cluster, *, settles: bool) -> None:
        self._cluster = cluster
        self._settles = settles

    def assume(self, pod: Pod, node: str, grant: Grant | None = None) -> None:
        if self._settles:
            self._cluster.nominations.drop(pod.uid)
        self._cluster.assume(pod, node, grant)

    def evict(self, uid: str) -> None:
        self._cluster.remove(uid)

    def evict_all(self, uids: Sequence[str]) -> None:
        for uid in uids:
            self.evict(uid)

    def assume_volumes(self, plan: VolumePlan, node: str) -> None:
        self._cluster.assume_volumes(plan, node)


@dataclass
class Player:
    """Takes steps in a cluster, and keeps what was answered on the way."""

    world: World
    cluster: Cluster
    placement: Placement
    heard: list[Verdict] = field(default_factory=list)

    @classmethod
    def of(cls, world: World, profile: str) -> "Player":
        cluster = world.cluster()
        player = cls(world, cluster, Placement(built_in(profile), cluster))
        player.answers()  # whatever is worked out once is there before the first step
        return player

    def answers(self, placement: Placement | None = None) -> list[object]:
        placement = placement or self.placement
        said: list[object] = []
        for pod in self.world.pending:
            verdict = placement.place(pod)
            said += [verdict, seen(placement.view(pod))]
            if isinstance(verdict, Placed):
                said.append(placement.steps(pod, verdict.node))
        return said

    def everything(self) -> tuple[object, ...]:
        answers = self.answers()
        assert self.answers(Placement(self.placement.profile, self.cluster)) == answers
        return state(self.cluster), answers

    def take(self, step: Step, how: Trial | Really) -> None:
        kind, which, node = step
        pod = self.world.pending[which % len(self.world.pending)]
        match kind:
            case "place" if pod.uid not in self.cluster.holdings:
                self._place(pod, how)
            case "assume" if pod.uid not in self.cluster.holdings:
                how.assume(pod, NODES[node])
            case "evict" if self.cluster.holdings:
                uids = sorted(self.cluster.holdings)
                how.evict(uids[which % len(uids)])
            case "evict all":
                uids = sorted(self.cluster.holdings)
                how.evict_all([*uids[which % 2 :: 1 + node % 3], "gone"])

    def _place(self, pod: Pod, how: Trial | Really) -> None:
        verdict = self.placement.place(pod)
        self.heard.append(verdict)
        if isinstance(verdict, Placed):
            steps = self.placement.steps(pod, verdict.node)
            how.assume(pod, verdict.node, verdict.grant)
            for step in steps:
                step.assume(how, verdict.node)
        elif verdict.eviction:
            for victim in verdict.eviction.victims:
                how.evict(victim.uid)


def lasting(steps: Sequence[Step]) -> list[Step]:
    """The steps that no rollback takes back."""
    left: list[Step] = []
    checkpoints: list[int] = []
    for step in steps:
        if step[0] == "checkpoint":
            checkpoints.append(len(left))
        elif step[0] == "rollback":
            place = step[1] % (len(checkpoints) + 1)
            del left[([0, *checkpoints])[place] :]
            del checkpoints[place:]
        else:
            left.append(step)
    return left


@examples(60)
@given(worlds(), _profiles, _steps)
def test_a_trial_rolled_back_leaves_no_trace(world: World, profile: str, steps: list[Step]) -> None:
    player = Player.of(world, profile)
    before, keys = player.everything(), player.cluster.columns.pods.keys_of_anti_affinity
    player.cluster.improved.drain()
    kept: list[tuple[Checkpoint, object]] = [(0, before)]
    with player.cluster.trial() as trial:
        for step in steps:
            if step[0] == "checkpoint":
                kept.append((trial.checkpoint(), player.everything()))
            elif step[0] == "rollback":
                checkpoint, expected = kept[step[1] % len(kept)]
                del kept[step[1] % len(kept) + 1 :]
                trial.rollback(checkpoint)
                assert player.everything() == expected
            else:
                player.take(step, trial)
    assert player.everything() == before
    assert player.cluster.improved.drain() == 0, "a waiting pod would be requeued"
    assert player.cluster.columns.pods.keys_of_anti_affinity is keys
    assert Player.of(world, profile).answers() == before[1]


@examples(40)
@given(worlds(), _profiles, _steps)
def test_a_trial_committed_is_as_if_done_one_by_one(
    world: World, profile: str, steps: list[Step]
) -> None:
    tried, done = Player.of(world, profile), Player.of(world, profile)
    checkpoints: list[Checkpoint] = [0]
    really = Really(done.cluster, settles=False)
    for player in (tried, done):
        player.cluster.improved.drain()
    with tried.cluster.trial() as trial:
        for step in steps:
            if step[0] == "checkpoint":
                checkpoints.append(trial.checkpoint())
            elif step[0] == "rollback":
                place = step[1] % len(checkpoints)
                trial.rollback(checkpoints[place])
                del checkpoints[place + 1 :]
            else:
                tried.take(_without_nominations(step, world), trial)
        trial.commit()
    for step in lasting(steps):
        done.take(_without_nominations(step, world), really)
    assert tried.cluster.improved.drain() == done.cluster.improved.drain()
    for player in (tried, done):  # as the engine does: no pod is both held and nominated
        for uid in player.cluster.holdings:
            player.cluster.nominations.drop(uid)
    assert tried.everything() == done.everything()


def _without_nominations(step: Step, world: World) -> Step:
    """A pod that a trial has placed is nominated no longer in it, and still is when it is over."""
    return ("assume", *step[1:]) if step[0] == "place" and world.nominated else step


@examples(40)
@given(worlds(), _profiles, _steps)
def test_placements_in_a_trial_are_those_after_the_earlier_steps_were_done(
    world: World, profile: str, steps: list[Step]
) -> None:
    tried, done = Player.of(world, profile), Player.of(world, profile)
    really = Really(done.cluster, settles=True)
    with tried.cluster.trial() as trial:
        for step in lasting(steps):
            tried.take(step, trial)
            done.take(step, really)
            assert tried.answers() == done.answers()
    assert tried.heard == done.heard


def test_the_second_member_sees_the_first_and_costs_one_row() -> None:
    cluster = drawn(*(f"n{number} ........" for number in range(20)))
    placement = Placement(built_in(SCHEDULER), cluster)
    rules = len(placement.profile.filters) + len(placement.profile.scores)
    pods = [a_pod(gpus=8, uid=f"u{number}") for number in range(20)]
    placement.place(pods[0])
    taken = []
    with cluster.trial() as trial:
        for pod in pods:
            before = cluster.work.rows
            verdict = placement.place(pod)
            assert isinstance(verdict, Placed)
            assert cluster.work.rows - before <= rules
            trial.assume(pod, verdict.node, verdict.grant)
            taken.append(verdict.node)
        assert len(set(taken)) == len(pods)
    assert drawing(cluster) == sorted(f"n{number} ........" for number in range(20))


def test_a_trial_that_breaks_is_undone() -> None:
    cluster = drawn("n1 ##..")
    before = state(cluster)

    def broken() -> None:
        with cluster.trial() as trial:
            trial.assume(a_pod(gpus=2, anti_affinity=(pod_term("zone", app="x"),)), "n1")
            trial.evict(next(iter(cluster.holdings)))
            assert drawing(cluster) == ["n1 ###."]
            raise LookupError

    with pytest.raises(LookupError):
        broken()
    assert state(cluster) == before
    assert not cluster.in_trial


def test_one_trial_at_a_time() -> None:
    cluster = drawn("n1 .")
    with cluster.trial(), pytest.raises(AssertionError, match="under way"):
        cluster.trial().__enter__()
