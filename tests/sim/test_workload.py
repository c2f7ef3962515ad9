"""The load generator: no server and no clock, states in and actions out."""

import msgspec

from fairlead.apps.up import workload as up_workload
from fairlead.kube.codec import decode_pod
from fairlead.model.nodes import GPU
from fairlead.model.run_times import RUN_TIME
from fairlead.sim.kubelets import RUN_FOR
from fairlead.sim.workload import (
    SAMPLE,
    Create,
    Delete,
    LoadGenerator,
    Stream,
    TeamQueue,
    Workload,
    WorkloadPods,
)
from fairlead.sim.workload.objects import (
    object_of,
    priority_classes,
    queue_definition,
    queue_objects,
)


def a_generator(*streams, load=0.8, seed=1, speed=1.0):
    return LoadGenerator(Workload(list(streams), load=load, seed=seed), speed)


def a_stream(name="work", **more):
    return Stream(name, **more)


def created(actions):
    return [action for action in actions if isinstance(action, Create)]


def deleted(actions):
    return [action.name for action in actions if isinstance(action, Delete)]


def run(generator, gpus, *, until_s, step_s=0.25):
    """A cluster that places whatever fits at once; yields the GPUs in use after each step."""
    bound: dict[str, tuple[Create, float]] = {}
    now = 0.0
    while now < until_s:
        seen = {name: WorkloadPods(action.stream.replicas) for name, (action, _) in bound.items()}
        for action in generator.step(now, gpus, seen):
            if isinstance(action, Delete):
                bound.pop(action.name, None)
            else:
                bound[action.name] = action, now
        ended = [
            name
            for name, (action, at) in bound.items()
            if action.stream.kind != "StatefulSet" and now - at > action.run_for_s / generator.speed
        ]
        for name in ended:
            del bound[name]
        yield now, sum(action.stream.total_gpus for action, _ in bound.values())
        now += step_s


def test_the_load_settles_where_it_should_and_stays():
    generator = a_generator(
        a_stream("one", run_for="5s-20s", weight=5),
        a_stream("four", gpus=4, run_for="5s-20s"),
        a_stream("set", kind="StatefulSet", replicas=3, run_for="10s"),
    )
    used = [gpus for now, gpus in run(generator, 100, until_s=300) if now > 10]
    assert 75 <= sum(used) / len(used) <= 85
    assert min(used) > 60
    assert max(used) <= 84


def test_the_start_is_a_ramp():
    generator = a_generator(a_stream())
    assert len(created(generator.step(0.0, 100, {}))) == 20
    assert len(created(generator.step(0.25, 100, {}))) == 15


def test_the_same_seed_gives_the_same_work():
    streams = a_stream("a", run_for="1s-9s"), a_stream("b", gpus=2)
    names = [
        [
            (action.name, action.run_for_s)
            for action in created(a_generator(*streams, seed=s).step(0, 50, {}))
        ]
        for s in (7, 7, 8)
    ]
    assert names[0] == names[1] != names[2]


def test_work_that_has_ended_is_tidied_up():
    generator = a_generator(a_stream(gpus=8), load=0.1)
    [action] = created(generator.step(0.0, 80, {}))
    assert generator.step(1.0, 80, {action.name: WorkloadPods(bound=1)}) == []
    assert deleted(generator.step(9.0, 80, {})) == [action.name]


def test_work_that_is_not_seen_at_once_is_not_taken_for_ended():
    generator = a_generator(a_stream(gpus=8), load=0.1)
    generator.step(0.0, 80, {})
    assert generator.step(3.0, 80, {}) == []


def test_a_stateful_set_is_deleted_when_its_time_is_over():
    generator = a_generator(a_stream(kind="StatefulSet", replicas=2, run_for="10s"), load=0.1)
    [action] = created(generator.step(0.0, 20, {}))
    assert not deleted(generator.step(9.0, 20, {action.name: WorkloadPods(bound=2)}))
    assert deleted(generator.step(20.0, 20, {action.name: WorkloadPods(bound=2)})) == [action.name]


def test_patience_ends_for_work_that_is_never_placed():
    generator = a_generator(a_stream(gpus=64, every="1h", patience="20s"))
    generator.step(0.0, 8, {})
    [action] = created(generator.step(3.0, 8, {}))
    assert not deleted(generator.step(20.0, 8, {action.name: WorkloadPods(waiting=1)}))
    assert deleted(generator.step(23.5, 8, {action.name: WorkloadPods(waiting=1)})) == [action.name]


def test_a_fixed_pace_is_kept_whatever_the_load():
    generator = a_generator(a_stream(every="10s"), load=0.0)
    total = sum(len(created(generator.step(float(now), 0, {}))) for now in range(100))
    assert total == 10


def test_waiting_work_of_a_fixed_pace_does_not_hold_the_load_down():
    generator = a_generator(a_stream("vain", gpus=64, every="10s", patience="1h"), a_stream("work"))
    waiting = {f"vain-{number:04d}": WorkloadPods(waiting=1) for number in range(1, 50)}
    for now in range(200):
        generator.step(float(now), 0, waiting)
    assert len(created(generator.step(200.0, 100, waiting))) >= 20


def test_speed_shortens_pace_and_patience():
    generator = a_generator(a_stream(every="10s"), load=0.0, speed=10)
    total = sum(len(created(generator.step(now / 10, 0, {}))) for now in range(100))
    assert total == 10


def test_work_of_an_earlier_run_is_gone_on_with():
    generator = a_generator(a_stream())
    assert generator.adopt("work-0041", 0.0)
    assert not generator.adopt("other-0001", 0.0)
    assert not generator.adopt("work", 0.0)
    assert created(generator.step(0.0, 100, {}))[0].name == "work-0042"


# -- objects ---------------------------------------------------------------------------------------


def test_a_pod_carries_its_request_its_time_and_its_name():
    action = Create(a_stream(gpus=2, labels={"team": "a"}, priority=5), "work-0001", 12.5)
    body = object_of(action)
    pod = decode_pod(msgspec.json.encode(body))
    assert dict(pod.request.resources)[GPU] == 2
    assert pod.scheduler == "gpu-scheduler"
    assert pod.labels == {"team": "a", "app": "work", SAMPLE: "work-0001"}
    assert pod.annotations[RUN_FOR] == "12500ms"
    assert body["spec"]["priorityClassName"] == "sample-5"


def test_a_job_is_indexed_and_runs_all_at_once():
    body = object_of(Create(a_stream(kind="Job", replicas=4), "work-0001", 10.0), pod_speed=2.0)
    spec = body["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert spec["template"]["metadata"]["annotations"][RUN_FOR] == "5s"


def test_pods_declare_the_longest_run_time_of_their_stream():
    action = Create(a_stream(run_for="10s-25s"), "work-0001", 12.0)
    assert object_of(action)["metadata"]["annotations"][RUN_TIME] == "25s"
    assert object_of(action, speed=4.0)["metadata"]["annotations"][RUN_TIME] == "7s"


def test_pods_of_a_stateful_set_are_not_told_to_end():
    body = object_of(Create(a_stream(kind="StatefulSet", replicas=3), "work-0001", 10.0))
    assert "annotations" not in body["spec"]["template"]["metadata"]
    assert body["spec"]["selector"]["matchLabels"] == {SAMPLE: "work-0001"}


def test_every_priority_gets_one_class():
    streams = [a_stream("a", priority=7), a_stream("b", priority=7), a_stream("c", priority=-3)]
    classes = priority_classes(Workload([*streams, a_stream("d")]))
    assert {each["metadata"]["name"]: each["value"] for each in classes} == {
        "sample-7": 7,
        "sample-minus-3": -3,
    }


def test_no_simulated_user_can_evict_a_pod_of_a_visitor():
    """A pod without a priority has 0."""
    assert all(stream.priority < 0 for stream in up_workload.default().streams)


def test_queues_are_parts_of_all_gpus_and_parents_come_first():
    queues = [
        TeamQueue("team", parent="company", guaranteed=0.25, limit=0.5, weight=2.0),
        TeamQueue("company"),
    ]
    workload = Workload([a_stream(queue="team")], queues=queues)
    company, team = queue_objects(workload, 80)
    assert company["metadata"]["name"] == "company"
    assert team["spec"] == {
        "parent": "company", "weight": 2.0, "guaranteed": {GPU: 20}, "limit": {GPU: 40},
    }  # fmt: skip
    pod = msgspec.json.encode(object_of(Create(workload.streams[0], "work-1", 10.0)))
    assert decode_pod(pod).queue == "fairlead/team"


def test_the_kind_of_queues_is_the_one_that_is_installed():
    assert queue_definition()["metadata"]["name"] == "queues.fairlead.dev"
