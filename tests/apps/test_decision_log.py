"""The decision log: what is written is read and repeated byte for byte, or it says why not."""

import inspect
import os
import queue
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, get_args

import msgspec
import pytest
from typer.testing import CliRunner

from builders import a_node, a_pod
from fairlead.apps.cli import app
from fairlead.apps.config.profiles import built_in
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.decision_log import log_writer, records
from fairlead.apps.decision_log.anonymise import NameMap, words_in
from fairlead.apps.decision_log.frames import (
    LogHeader,
    LogProblem,
    LogReader,
    files_in,
    with_length,
)
from fairlead.apps.decision_log.log_writer import LogPlan, LogWriter
from fairlead.apps.decision_log.recording import DecisionLog, RecordedEngine
from fairlead.apps.decision_log.replay import engine_of, planned, replay
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind, Evict
from fairlead.engine.start_record import OpenForecast
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.model.behaviour import KUBERNETES_1_37
from fairlead.model.claims import (
    AllocatedDevice,
    Allocation,
    ClaimObject,
    ClaimUser,
    ResourceClaim,
)
from fairlead.model.compute_domains import ComputeDomain, DomainNode
from fairlead.model.data_sets import DataSet, NodeData
from fairlead.model.devices import (
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceForm,
    DeviceTaint,
    DeviceTaintRule,
    RequestPolicy,
    ResourceSlice,
    VersionText,
)
from fairlead.model.errors import ConfigError
from fairlead.model.forecasts import Forecast
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.gpus import FAIRLEAD, Gpu, GpuRequest, Inventory
from fairlead.model.named_readings import ReadingTerms, SeenReading
from fairlead.model.node_figures import NAME as NODE_NAME
from fairlead.model.node_figures import Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.run_times import RunTime
from fairlead.model.start_times import Window
from fairlead.model.storage import StorageClass
from fairlead.placement.profile import Profile
from fairlead.placement.solver_program import solve_program

NAME = "gpu-scheduler"


class Logged:
    """A driver of an engine that is recorded; binds and evictions succeed at once."""

    def __init__(
        self,
        directory: Path,
        most_bytes: int = 8 << 20,
        header: LogHeader | None = None,
        profiles: Mapping[str, Profile] | None = None,
    ) -> None:
        self.log = DecisionLog(LogPlan(directory, most_bytes), header or LogHeader("test"))
        encoder = DialectEncoder(self.log.drawing(iter(range(10**6)).__next__))
        self.engine = RecordedEngine(self.log, profiles or {NAME: built_in(NAME)}, None, encoder)
        self.now = 0.0
        self.tell(events.ServerKnown(KUBERNETES_1_37))

    def tell(self, event: events.Event) -> None:
        self.now += 0.25
        self._carry_out(self.engine.handle(event, now=self.now))

    def decide(self) -> None:
        self.engine.wall_offset_s = 1_000_000 + self.now / 3
        self._carry_out(self.engine.tend(now=self.now))
        while attempt := self.engine.decide(now=self.now):
            self._carry_out(attempt.instructions)

    def _carry_out(self, made: object) -> None:
        for each in made:  # type: ignore[attr-defined]
            match each:
                case Bind(pod, node, _, grant):
                    self.tell(events.BindDone(pod.uid))
                    self.tell(events.PodSeen(replace(pod, node=node, grant=grant)))
                case Evict(pod):
                    for victim in each.victims:
                        self.tell(events.PodGone(victim))
                    self.tell(events.EvictionEnded(pod.uid))


def busy(world: Logged, rounds: int = 3) -> None:
    listed = tuple(Gpu(f"GPU-{n}", n, "H200", 140_000) for n in range(4))
    gpus = Inventory(listed, dialects=frozenset({FAIRLEAD}))
    for n in range(3):
        world.tell(events.NodeSeen(replace(a_node(f"node-{n}", gpus=4), inventory=gpus)))
    world.tell(events.StorageSeen(StorageClass("fast", provisioner="example.com/disk", waits=True)))
    share = GpuRequest(1, whole=False, milli=300, memory_mib=100, dialect=FAIRLEAD)
    for turn in range(rounds):
        for n in range(6):
            pod = a_pod(f"p-{turn}-{n}", gpus=n % 3, priority=turn)
            world.tell(events.PodSeen(pod))
        small = a_pod(f"share-{turn}")
        world.tell(
            events.PodSeen(replace(small, request=replace(small.request, gpu_request=share)))
        )
        for n in range(3):
            member = a_pod(f"g-{turn}-{n}", gpus=1, priority=turn)
            gang = Membership(f"fairlead/default/g-{turn}", spec=None)
            world.tell(events.PodSeen(replace(member, gang=gang)))
        world.decide()
        world.tell(events.NodeGone("node-1"))
        world.decide()


def reader(directory: Path) -> LogReader:
    return LogReader(files_in([directory]))


def test_a_replay_repeats_every_instruction(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    busy(world)
    world.log.close(10)
    report = replay(reader(tmp_path))
    assert report.difference is None
    assert report.records == world.log.records
    assert report.instructions["Bind"] > 10
    assert report.instructions["Evict"] > 0
    assert report.instructions["AnnounceFailure"] > 0


@pytest.mark.program
def test_a_process_with_other_hashes_repeats_it(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    busy(world)
    world.log.close(10)
    for seed in ("1", "2"):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("fairlead")), "replay", str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "the replay is the same, byte for byte" in done.stdout, done.stdout + done.stderr


def test_the_first_difference_is_shown_with_both_sides(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    busy(world)
    world.log.close(10)
    config = tmp_path / "other.yaml"
    config.write_text(
        "apiVersion: fairlead.dev/v1alpha1\nkind: SchedulerConfiguration\n"
        "profiles: [{schedulerName: gpu-scheduler, preempts: false}]\n"
    )
    done = CliRunner().invoke(app, ["replay", str(tmp_path), "--config", str(config)])
    assert done.exit_code == 3
    assert "first difference: record" in done.stdout
    assert "--- logged\n+++ replayed" in done.stdout


def _cut(data: bytes) -> bytes:
    return data[:-5]


def _flip(data: bytes) -> bytes:
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


def _other(data: bytes) -> bytes:
    return b"not a log" + data


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_cut, r"is cut off at offset \d+$"),
        (_flip, r"is damaged at offset \d+: the checksum does not match"),
        (_other, "is not a decision log of this format"),
        (lambda _: b"", "is not a decision log of this format"),
    ],
)
def test_a_damaged_file_is_one_sentence(
    tmp_path: Path, damage: Callable[[bytes], bytes], sentence: str
) -> None:
    world = Logged(tmp_path)
    busy(world)
    world.log.close(10)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(LogProblem, match=sentence):
        replay(reader(tmp_path))


def test_only_the_owner_can_read_a_log(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    world = Logged(directory)
    world.log.close(10)
    (file,) = directory.iterdir()
    assert (directory.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


def test_the_configuration_of_a_log_loads_no_file(tmp_path: Path) -> None:
    trap = tmp_path / "trap.py"
    trap.write_text("raise SystemExit('loaded')\n")
    config = (
        "apiVersion: fairlead.dev/v1alpha1\nkind: SchedulerConfiguration\n"
        f'profiles: [{{schedulerName: x, filters: {{enabled: ["{tmp_path}/trap\\x2epy:Trap"]}}}}]\n'
    )
    with pytest.raises(LogProblem, match="names the plugin file"):
        planned(LogHeader("test", config=config))


def test_files_are_rotated_and_stay_within_their_size(tmp_path: Path) -> None:
    most = 1 << 20
    (tmp_path / "20200101T000000Z-00000000-00001.decisions").write_bytes(bytes(most))
    writer = LogWriter(LogPlan(tmp_path, most))
    header = LogHeader("test", run="20260101T000000Z-run")
    writer.begin(header)
    wrote = 12
    for _ in range(wrote):
        writer.put(with_length(os.urandom(60_000)))  # it cannot be compressed
    writer.close(10)
    assert writer.is_half_full
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    assert all(file.name.startswith(header.run) for file in files)
    assert sum(file.stat().st_size for file in files) <= most
    assert sum(1 for _ in LogReader(files)) == wrote
    with pytest.raises(LogProblem, match="part 1 is missing"):
        LogReader(files[1:])
    assert [file.name for file in files_in([tmp_path])] == [file.name for file in files]


def test_a_full_disk_makes_a_gap_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> BinaryIO:
        return os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0)

    monkeypatch.setattr(log_writer, "create_file", full)
    world = Logged(tmp_path)
    busy(world, 1)
    world.log.close(10)
    assert world.log._writer.problem == "it cannot be written: No space left on device"
    busy(world, 1)
    assert (world.log.gaps, world.log.written_bytes) == (1, 0)


def test_a_queue_that_is_full_ends_the_run(tmp_path: Path) -> None:
    writer = LogWriter(LogPlan(tmp_path, 1 << 20))
    writer._work = queue.Queue(1)
    writer.put(b"one")
    writer.put(b"two")
    assert writer.problem == "the disk is too slow"


def test_a_directory_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match=r"the decision log cannot be kept in .*: File exists"):
        Logged(file)


def test_a_new_run_begins_with_what_is_known_and_repeats(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    busy(world, 1)
    waiting = [entry.unit.pod for entry in world.engine.queue.entries()]
    bound = [held.pod for held in world.engine.cluster.holdings.values()]
    nodes = [world.engine.cluster.node_named(name) for name in world.engine.cluster.row_of]
    assert world.engine.is_settled
    world.engine.begin_again()
    for node in nodes:
        assert node is not None
        world.tell(events.NodeSeen(node))
    for pod in (*bound, *waiting):
        world.tell(events.PodSeen(pod))
    busy(world, 2)
    world.log.close(10)
    runs = sorted({file.name.rpartition("-")[0] for file in tmp_path.iterdir()})
    assert len(runs) == 2
    for run in runs:
        report = replay(LogReader(sorted(tmp_path.glob(f"{run}-*"))))
        assert report.difference is None


def test_requests_for_nodes_are_part_of_the_log(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    key = "fairlead/default/job"
    world.tell(events.NodeRequestsServed(is_on=True))
    for n in range(2):
        gang = Membership(key, spec=GangSpec(key, 2))
        world.tell(events.PodSeen(replace(a_pod(f"job-{n}", gpus=1), gang=gang)))
    world.decide()
    for sentence in ("Request a is accepted.", None):
        world.now += 60
        world.tell(events.NodeRequestSeen(key, sentence))
        world.decide()
    assert world.engine.node_requests.wanted
    world.tell(events.NodeRequestsServed(is_on=False))
    world.decide()
    world.log.close(10)
    report = replay(reader(tmp_path))
    assert report.difference is None
    assert report.records == world.log.records
    assert report.instructions["AnnounceFailure"] >= 6


def test_what_was_learned_about_run_times_is_part_of_the_log(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    teacher = world.engine.run_times
    request = GpuRequest(1, whole=True, dialect=FAIRLEAD)
    pod = a_pod("job-1", gpu_request=request, controller="Job/job-1")
    for number in range(20):
        run = teacher.run_of(pod, 100.0 + number, succeeded=True)
        assert run is not None
        world.tell(run)
    world.tell(events.OwnerRunTimeSeen("default/Job/job-1", None))
    seen = events.OwnerRunTimeSeen("default/Job/job-2", RunTime(60.0), "2027-01-15T08:00:00Z")
    world.tell(seen)
    learned = teacher.dump()
    assert teacher.forecast(pod) is not None
    world.engine.begin_again()
    assert [*world.engine.run_times.owners] == [(seen.owner, seen.run_time, seen.started)]
    assert world.engine.run_times.dump() == learned
    busy(world, 1)
    world.log.close(10)
    report = replay(reader(tmp_path))
    assert report.difference is None
    assert report.events["RunTimesLoaded"] == 1


def test_forecasts_of_starts_are_part_of_the_log(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    busy(world, 1)
    world.tell(events.PodSeen(a_pod("runs", gpus=8, node="n1", run_time=RunTime(600.0))))
    world.tell(events.PodSeen(a_pod("waits", gpus=8, run_time=RunTime(600.0))))
    world.tell(events.ForecastDue(4))
    record = world.engine.start_record
    record.note("a unit", OpenForecast(0.0, 1.0, 2.0, 3.0), bounded=False)
    world.engine.begin_again()
    assert world.engine.start_record.open() == record.open()
    world.log.close(10)
    report = replay(reader(tmp_path))
    assert report.difference is None
    assert report.events["StartRecordLoaded"] == 1


def test_a_new_run_of_the_log_begins_with_what_feeds_have_sent(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    busy(world, 1)
    price = FigureList("table", (FigureRule((), 4.0),))
    world.tell(events.FiguresSeen(SeenFigures(Figure.PRICE, (price,))))
    forecast = Forecast(Window.CHEAP, "file", "EUR/kWh", ((0.0, 3600.0, 0.3),))
    world.tell(events.ForecastSeen(forecast))
    reading = SeenReading(ReadingTerms("inlet", "C"), {"a": 21.0})
    world.tell(events.ReadingSeen(reading))
    world.engine.begin_again()
    assert [*world.engine.cluster.columns.readings.seen] == [reading]
    assert world.engine.start_windows.forecasts[Window.CHEAP].forecast == forecast
    assert [*world.engine.cluster.columns.figures.seen] == [SeenFigures(Figure.PRICE, (price,))]
    world.log.close(10)
    report = replay(reader(tmp_path))
    assert report.difference is None
    assert report.events["ForecastSeen"] == report.events["FiguresSeen"] == 1
    assert report.events["ReadingSeen"] == 1


def test_a_replay_builds_the_engine_as_the_scheduler_does() -> None:
    """A parameter of the engine that the configuration sets must reach the replay, too."""
    taken = set(inspect.signature(Engine.__init__).parameters) - {"self"}
    passed = set(re.findall(r"(\w+)=prepared|(reserves)=", inspect.getsource(engine_of)))
    named = {first or second for first, second in passed}
    given = {"profiles", "extender_profile", "encode"}  # by position
    never_set = {"order", "quota", "retries"}  # for tests and simulations
    assert taken == named | given | never_set


def test_an_engine_with_binds_under_way_is_not_settled(tmp_path: Path) -> None:
    world = Logged(tmp_path)
    world.tell(events.NodeSeen(a_node("n", gpus=4)))
    world.tell(events.PodSeen(a_pod("p", gpus=1)))
    assert world.engine.decide(now=world.now) is not None
    assert not world.engine.is_settled
    world.log.close(10)


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("number", range(5))
def test_objects_of_claims_are_read_as_they_were(number: int, gone: bool) -> None:
    kib, half = 1 << 10, Fraction(1, 2)
    form = DeviceForm("gpu-0", (("memory", DeviceCapacity(kib, RequestPolicy(half))),))
    attributes = (("a", True), ("b", 1), ("c", "x"), ("d", VersionText("1.0.0")), ("e", None))
    result = AllocatedDevice("r", "d", "p", "gpu-0", consumed_capacity=(("memory", half),))
    about: ClaimObject = (
        ResourceSlice("s", "d", "p", devices=(Device(form, attributes),), version="3"),
        DeviceClass("c", ("x", None)),
        DeviceTaintRule("r", DeviceTaint("k")),
        ComputeDomain("n", "d", "u", num_nodes=2, nodes=(DomainNode("a", "c", is_ready=True),)),
        ResourceClaim(
            "n", "c", allocation=Allocation((result,)), reserved_for=(ClaimUser("u", "p"),)
        ),
    )[number]
    event = events.ClaimObjectGone(about) if gone else events.ClaimObjectSeen(about)
    record = records.decode(records.encode("handle", 1.0, event, [], ("", ())))

    assert records.event_of(record) == event


@pytest.mark.parametrize("about", [DataSet("d"), NodeData("n")])
def test_sets_of_data_are_read_as_they_were(about: DataSet | NodeData) -> None:
    event = events.DataSeen(about)
    record = records.decode(records.encode("handle", 1.0, event, [], ("", ())))
    assert records.event_of(record) == event


@pytest.mark.parametrize("kind", get_args(events.Event), ids=lambda kind: kind.__name__)
def test_every_kind_of_event_has_a_form_that_can_be_read(kind: type[events.Event]) -> None:
    """A new event whose fields msgspec cannot tell apart needs a line in `records.py`."""
    if kind in (events.StorageSeen, events.StorageGone):
        return  # they are read by the kind of object; see `busy`
    if kind in (events.ClaimObjectSeen, events.ClaimObjectGone):
        return  # the same; see `test_objects_of_claims_are_read_as_they_were`
    if kind is events.DataSeen:
        return  # the same; see `test_sets_of_data_are_read_as_they_were`
    assert msgspec.msgpack.Decoder(kind).type is kind


def test_an_event_of_another_version_is_one_sentence() -> None:
    record = records.encode("handle", 0.0, events.NodeGone("n"), [], records.result_of(()))
    read = msgspec.structs.replace(records.decode(record), kind="Invented")
    with pytest.raises(msgspec.ValidationError, match="'Invented' is no event"):
        records.event_of(read)


def test_a_copy_without_names_repeats_the_same_decisions(tmp_path: Path) -> None:
    world = Logged(tmp_path / "log")
    secret = "zanzibar"
    world.tell(events.NodeSeen(a_node(f"{secret}-1", gpus=2, labels={"owner": secret})))
    for name in (f"{secret}-7", "quixotic"):
        labels = {"customer": secret}
        world.tell(events.PodSeen(a_pod(name, gpus=1, labels=labels, images=(f"r/{secret}:1",))))
    busy(world)
    world.log.close(10)
    copy = tmp_path / "copy.decisions"
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "log"), "--anonymise", str(copy)])
    assert done.exit_code == 0, done.output
    assert "the replay is the same, byte for byte" in done.output
    before, after = replay(reader(tmp_path / "log")), replay(LogReader([copy]))
    assert before.instructions == after.instructions
    assert copy.stat().st_mode & 0o777 == 0o600
    text = b"".join(data for _, data in LogReader([copy])) + repr(after.header).encode()
    assert secret.encode() not in text
    assert b"quixotic" not in text
    again = CliRunner().invoke(app, ["replay", str(tmp_path / "log"), "--anonymise", str(copy)])
    assert isinstance(again.exception, LogProblem)
    assert "cannot be created: File exists" in str(again.exception)


def test_numbers_times_and_the_order_of_names_stay() -> None:
    names = NameMap(["beta", "alpha", "gamma"])
    assert [names.text(each) for each in ("alpha-2", "beta.gamma/1", "2026-11-16T14:00:00Z")] == [
        "x0-2", "x1.x2/1", "2026-11-16T14:00:00Z"
    ]  # fmt: skip
    kept = frozenset({"nvidia", "com", "gpu"})
    assert list(words_in("alpha 4Gi 90m nvidia.com/gpu beta", kept)) == ["alpha", "beta"]


def test_it_says_what_goals_counted_for_a_pod_and_what_others_would_have(tmp_path: Path) -> None:
    """As `fairlead replay --pod` shows it, for a pod of a gang as for any other."""
    config = "profiles: [{schedulerName: gpu-scheduler, goals: {order: [{sum: [Cost]}]}}]\n"
    file = tmp_path / "config.yaml"
    file.write_text(config)
    profiles = plan(RunOptions(config=file)).profiles
    header = LogHeader("test", config=config, keeps_records=True)
    world = Logged(tmp_path / "log", header=header, profiles=profiles)
    world.engine.keeps_records = True
    for name in "ab":
        world.tell(events.NodeSeen(a_node(name, gpus=4)))
    rules = tuple(
        FigureRule(((NODE_NAME, name),), price) for name, price in {"a": 8.0, "b": 12.0}.items()
    )
    prices = SeenFigures(Figure.PRICE, (FigureList("test", rules),))
    world.tell(events.FiguresSeen(prices))
    spec = GangSpec("fairlead/default/g", 2)
    for rank in range(2):
        member = a_pod(f"g-{rank}", gpus=1)
        world.tell(events.PodSeen(replace(member, gang=Membership(spec.key, rank=rank, spec=spec))))
    world.tell(events.PodSeen(a_pod("large", gpus=9)))
    world.decide()
    world.log.close(10)
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "log"), "--pod", "default/g-1"])
    assert done.exit_code == 0, done.stdout
    assert "chosen: a counts Cost 2 money/h" in done.stdout
    assert "next: b would have counted Cost 3 money/h" in done.stdout
    done = CliRunner().invoke(app, ["replay", str(tmp_path / "log"), "--pod", "default/large"])
    assert "Unschedulable: 0/2 nodes are available" in done.stdout
    assert "bound to" not in done.stdout


def test_plans_of_the_solver_are_part_of_the_log(tmp_path: Path) -> None:
    """Largest first, 5 cores go to the cheap node; the plan is cheaper, and is repeated."""
    config = (
        "profiles: [{schedulerName: gpu-scheduler, solver: {}, goals: {order: [{sum: [Cost]}]}}]\n"
    )
    file = tmp_path / "config.yaml"
    file.write_text(config)
    world = Logged(
        tmp_path / "log",
        header=LogHeader("test", config=config),
        profiles=plan(RunOptions(config=file)).profiles,
    )
    prices = {"cheap": 8.0, "dear": 16.0}
    for name in prices:
        world.tell(events.NodeSeen(a_node(name, gpus=0, resources={"cpu": 8000})))
    rules = tuple(FigureRule(((NODE_NAME, name),), price) for name, price in prices.items())
    world.tell(events.FiguresSeen(SeenFigures(Figure.PRICE, (FigureList("test", rules),))))
    spec = GangSpec("fairlead/default/g", 3)
    for rank, cores in enumerate((5, 4, 4)):
        member = a_pod(f"g-{rank}", gpus=0, resources={"cpu": 1000 * cores})
        world.tell(events.PodSeen(replace(member, gang=Membership(spec.key, rank=rank, spec=spec))))
    world.decide()
    (question,) = world.engine.solver_questions
    world.tell(events.PlanComputed(question.gang, question.number, solve_program(question)))
    world.decide()
    world.log.close(10)
    report = replay(reader(tmp_path / "log"), pod="default/g-0")
    assert report.difference is None
    assert [each[1]["node"] for _, each in report.decisions] == ["dear"]
