"""Reviews of new pods: what is put in, what is refused, and what cannot be answered."""

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.admission import admission_handler, injection, mps, queue_reviews
from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.kube.admission.review import BadReview

Json = dict[str, Any]
LATER = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['fairlead.dev/gpus']"}}
CUDA, RUNTIME = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"
HANDLER = AdmissionHandler(frozenset({"gpu-scheduler"}))


def a_pod(*envs: list[Json] | None, init: int = 0, **annotations: str) -> Json:
    """One container for each list of variables; the first `init` of them are init containers."""
    made = [
        {"name": f"c{n}", "image": "x", **({} if env is None else {"env": env})}
        for n, env in enumerate(envs)
    ]
    said = {key.replace("__", "/").replace("_", "-"): text for key, text in annotations.items()}
    return {
        "metadata": {"generateName": "p-", "namespace": "ns", "annotations": said},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "initContainers": made[:init],
            "containers": made[init:],
        },
    }


def review(pod: Any, **more: Any) -> bytes:
    request = {
        "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE", "object": pod, **more,
    }  # fmt: skip
    about = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(about, separators=(",", ":")).encode()  # as the API server writes it


def answered(body: bytes) -> Json:
    found: Json = json.loads(body)
    assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert found["response"]["uid"] == "u-1"
    return found["response"]


def steps(handler: AdmissionHandler, pod: Json) -> list[Json]:
    said = answered(handler.mutate(review(pod)).body)
    assert said["allowed"] is True
    if "patch" not in said:
        return []
    assert said["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(said["patch"]))


def patched(pod: Json, patch: list[Json]) -> Json:
    """As RFC 6902 has it, for the three operations that are used."""
    done = copy.deepcopy(pod)
    for step in patch:
        *way, last = (part.replace("~1", "/") for part in step["path"].split("/")[1:])
        at: Any = done
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if step["op"] == "remove":
            del at[int(last)]
        elif last == "-":
            at.append(step["value"])
        elif isinstance(at, list):
            assert step["op"] == "replace"
            at[int(last)] = step["value"]
        else:
            at[last] = step["value"]
    return done


def environments(pod: Json) -> list[Any]:
    spec = pod["spec"]
    return [one.get("env") for one in (*spec["initContainers"], *spec["containers"])]


def injected(pod: Json, handler: AdmissionHandler = HANDLER) -> list[Any]:
    done = patched(pod, steps(handler, pod))
    assert steps(handler, done) == [], "requested again, nothing is put in twice"
    return environments(done)


A, OURS = {"name": "A", "value": "1"}, {"name": CUDA, "valueFrom": LATER}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, [OURS]),
        ([], [OURS]),
        ([A], [A, OURS]),
        ([{"name": CUDA, "value": "0"}, A], [OURS, A]),
        ([{"name": CUDA}, A], [OURS, A]),
        ([{"name": CUDA, "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}], [OURS]),
        ([{"name": CUDA, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], [OURS]),
        ([{"name": CUDA, "value": "0"}, A, {"name": CUDA, "value": "1"}], [OURS, A]),
        ([OURS, {"name": CUDA, "value": "0"}], [OURS]),
        ([{"name": CUDA, "value": "0", "valueFrom": LATER}], [OURS]),
        ([{"name": RUNTIME, "value": "all"}, A], [A, OURS]),
        ([{"name": RUNTIME, "value": "GPU-1"}], [OURS]),
        ([{"name": RUNTIME, "valueFrom": LATER}], [OURS]),
        ([{"name": RUNTIME, "value": "void"}], [{"name": RUNTIME, "value": "void"}, OURS]),
        ([{"name": RUNTIME}], [{"name": RUNTIME}, OURS]),
    ],
)  # fmt: skip
def test_the_variable_replaces_what_the_author_wrote(
    before: list[Json] | None, after: list[Json]
) -> None:
    assert injected(a_pod(before, None, init=1)) == [after, [OURS]]


def test_what_is_in_place_is_left_alone() -> None:
    assert steps(HANDLER, a_pod([A, OURS], [OURS], init=1)) == []


@pytest.mark.parametrize("word", ["gpu_share", "gpu_memory", "gpu_slice"])
def test_for_a_part_the_container_runtime_is_told_as_well(word: str) -> None:
    both = [OURS, {"name": RUNTIME, "valueFrom": LATER}]
    pod = a_pod([{"name": RUNTIME, "value": "all"}], None, **{f"fairlead.dev__{word}": "0.5"})

    assert injected(pod) == [both[::-1], both]


@pytest.mark.parametrize(
    "word", ["gpu_fraction", "gpu_memory", "nvidia.com__container.c0.gpu_memory.limit"]
)
def test_for_parts_of_kai_the_container_runtime_has_an_annotation_of_its_own(word: str) -> None:
    shown = {
        "fieldRef": {
            **LATER["fieldRef"],
            "fieldPath": "metadata.annotations['fairlead.dev/runtime-gpus']",
        }
    }
    both = [OURS, {"name": RUNTIME, "valueFrom": shown}]
    pod = a_pod([{"name": RUNTIME, "value": "all"}], None, **{word: "4Gi"})

    assert injected(pod) == [both[::-1], both]


MAP = "0=n1:GPU-a\n1=n2:0,1\n2=n3:"


@pytest.mark.parametrize(
    ("name", "value"),
    [("checker-0", "GPU-a"), ("checker-1", "0,1"), ("checker-2", "")],
)
def test_what_a_map_says_is_put_in_as_it_is(name: str, value: str) -> None:
    runtime = {"name": RUNTIME, "value": "all"}
    pod = a_pod([OURS, runtime], None, gpu_scheduling_map=MAP)
    pod["metadata"]["name"] = name

    literal = {"name": CUDA, "value": value} if value else {"name": CUDA}
    assert injected(pod) == [[literal, runtime], [literal]]


def test_what_a_map_does_not_tell_yet_is_looked_up_later() -> None:
    pod = a_pod(None, gpu_scheduling_map=MAP)
    for name, owner in (("checker-7", "StatefulSet"), ("web-6b7f-24678", "ReplicaSet")):
        reference = {"apiVersion": "apps/v1", "kind": owner, "name": "o", "controller": True}
        pod["metadata"] |= {"name": name, "ownerReferences": [reference]}
        assert injected(pod) == [[OURS]]


def test_with_a_map_the_author_decides_what_the_container_runtime_shows() -> None:
    runtime = {"name": RUNTIME, "value": "all"}

    assert injected(a_pod([runtime], gpu_scheduling_map="0=n:0")) == [[runtime, OURS]]


names = st.sampled_from([CUDA, RUNTIME, "A", "B"])
entries = st.one_of(
    st.builds(lambda n, v: {"name": n, "value": v}, names, st.sampled_from(["0", "all", "void"])),
    st.builds(lambda n: {"name": n, "valueFrom": LATER}, names),
    st.builds(lambda n: {"name": n}, names),
)
environment_lists = st.one_of(st.none(), st.lists(entries, max_size=8))


@given(st.lists(environment_lists, min_size=1, max_size=4), st.integers(0, 3), st.booleans())
def test_nothing_is_put_in_twice_and_nothing_else_is_touched(
    envs: list[list[Json] | None], init: int, shares: bool
) -> None:
    pod = a_pod(*envs, init=init, **({"fairlead.dev__gpu_share": "0.5"} if shares else {}))

    for before, after in zip(environments(pod), injected(pod), strict=True):
        assert [one for one in after if one["name"] == CUDA] == [OURS]
        ours = (CUDA, RUNTIME)
        kept = [one for one in before or () if one["name"] not in ours]
        assert [one for one in after if one["name"] not in ours] == kept


# -- whom it concerns ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "request_change"),
    [
        ({"schedulerName": "default-scheduler"}, {}),
        ({}, {"operation": "UPDATE"}),
        ({}, {"subResource": "ephemeralcontainers"}),
        ({}, {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}),
        ({}, {"object": None}),
    ],
)
def test_everybody_else_passes_untouched(change: Json, request_change: Json) -> None:
    pod = a_pod([{"name": CUDA, "value": "0"}], **{"fairlead.dev__gpu_share": "nonsense"})
    pod["spec"] |= change
    body = review(pod, **request_change)

    for answer in (HANDLER.mutate(body), HANDLER.validate(body)):
        assert answered(answer.body) == {"uid": "u-1", "allowed": True}
        assert answer.outcome == "untouched"


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "resources", "sentence"),
    [
        ({"fairlead.dev/gpu-share": "2"}, {}, "write a share of one GPU such as 0.5"),
        ({"fairlead.dev/gpu-count": "2"}, {}, "but not how much of them"),
        ({"gpu-fraction": "0.5", "fairlead.dev/gpu-share": "0.5"}, {}, "in several ways"),
        ({}, {"alnair/vgpu-compute": "50"}, "; request both"),
        ({}, {"nvidia.com/gpu": "one"}, "the pod is invalid"),
        ({"fairlead.dev/gpus": "0"}, {}, "fairlead.dev/gpus is set by the scheduler"),
        ({"fairlead.dev/assignment": "{}"}, {}, "is set by the scheduler; remove it"),
        ({"fairlead.dev/epoch": "7"}, {}, "is set by the scheduler; remove it"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(
    annotations: dict[str, str], resources: dict[str, str], sentence: str
) -> None:
    pod = a_pod(None)
    pod["metadata"]["annotations"] = annotations
    pod["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}

    answer = HANDLER.validate(review(pod))

    said = answered(answer.body)
    assert said["allowed"] is False
    assert said["status"]["code"] == 422
    assert sentence in said["status"]["message"]
    assert answer.outcome == "refused"
    # Variables are put in all the same: the other question is the one that refuses.
    assert answered(HANDLER.mutate(review(pod)).body)["allowed"] is True


def test_what_makes_sense_is_allowed() -> None:
    answer = HANDLER.validate(review(a_pod(None, **{"fairlead.dev__gpu_share": "0.5"})))

    assert answered(answer.body) == {"uid": "u-1", "allowed": True}
    assert answer.outcome == "allowed"


# -- what cannot be answered -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "not an AdmissionReview"),
        (b"[]", "not an AdmissionReview"),
        (b"\xff\xfe", "not an AdmissionReview"),
        (b"[" * 100_000, "not an AdmissionReview"),
        (b"{}", "send an AdmissionReview of admission.k8s.io/v1"),
        (review({}).replace(b"k8s.io/v1", b"k8s.io/v1beta1"), "admissionReviewVersions: [v1]"),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "no request with a uid"),
        (review({}, uid=""), "no request with a uid"),
        (review({}, uid=7), "not an AdmissionReview"),
        (review([]), "is not a pod"),
        (review({"metadata": {}}), "is not a pod"),
        (review(a_pod([{"name": 7}])), "is not a pod"),
    ],
    ids=range(12),
)
def test_a_bad_review_is_told_so(body: bytes, sentence: str) -> None:
    with pytest.raises(BadReview) as told:
        HANDLER.mutate(body)
    assert sentence in str(told.value)
    assert len(str(told.value)) < 400


@given(st.binary(max_size=200))
def test_nothing_that_is_sent_breaks_it(body: bytes) -> None:
    with pytest.raises(BadReview):
        HANDLER.validate(body)


def test_the_policy_knows_the_same_names() -> None:
    text = (Path(__file__).parents[2] / "deploy/inject-policy.yaml").read_text()
    assert all(f"'{name}'" in text for name in (CUDA, RUNTIME, *(v.name for v in mps.VARIABLES)))
    assert f"[{', '.join(repr(one) for one in injection.HARMLESS)}]" in text


# -- ephemeral containers --------------------------------------------------------------------------


def debugged(*ephemeral: Json, **annotations: str) -> Json:
    pod = a_pod([OURS], **annotations)
    return pod | {"spec": pod["spec"] | {"nodeName": "n", "ephemeralContainers": list(ephemeral)}}


def update(pod: Json, before: Json) -> bytes:
    return review(pod, operation="UPDATE", subResource="ephemeralcontainers", oldObject=before)


@pytest.mark.parametrize("word", ["note", "fairlead.dev__gpu_share"])
def test_an_ephemeral_container_sees_the_gpus_of_its_pod(word: str) -> None:
    said = {word: "0.5"}
    bold = {"name": "debug", "env": [A, {"name": RUNTIME, "value": "all"}]}

    answer = answered(HANDLER.mutate(update(debugged(bold, **said), debugged(**said))).body)

    done = patched(debugged(bold, **said), json.loads(base64.b64decode(answer["patch"])))
    (env,) = [one["env"] for one in done["spec"]["ephemeralContainers"]]
    runtime = [] if word == "note" else [{"name": RUNTIME, "valueFrom": LATER}]
    assert sorted(env, key=str) == sorted([A, *runtime, OURS], key=str)


def test_ephemeral_containers_that_are_there_are_left_alone() -> None:
    """The API server lets nobody change them, so a patch would make every `kubectl debug` fail."""
    old = {"name": "old", "env": [{"name": RUNTIME, "value": "all"}]}
    before, after = debugged(old), debugged(old, {"name": "new"})

    answer = answered(HANDLER.mutate(update(after, before)).body)

    patch = json.loads(base64.b64decode(answer["patch"]))
    assert [step["path"] for step in patch] == ["/spec/ephemeralContainers/1/env"]
    assert answered(HANDLER.mutate(update(before, before)).body) == {"uid": "u-1", "allowed": True}


def test_checking_is_for_new_pods() -> None:
    odd = debugged({"name": "debug"}, **{"fairlead.dev__gpu_share": "nonsense"})
    assert HANDLER.validate(update(odd, odd)).outcome == "untouched"


# -- how much is read ------------------------------------------------------------------------------


def hostile(**shape: Any) -> Json:
    pod = a_pod([])
    pod["spec"] |= shape.get("spec", {})
    pod["metadata"] |= shape.get("metadata", {})
    return pod


ANTI = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
LONG_MAP = {"gpu-scheduling-map": "0=node1:0,1\n" * 30_000}
MANY_VALUES = {"key": "a", "operator": "In", "values": ["a"] * 100_002}
MANY_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [MANY_VALUES]}]}


def test_annotations_of_just_the_length_that_is_stored_are_read() -> None:
    pod = hostile(metadata={"annotations": {"a": "x" * 2**17, "b": "y" * 2**17}})
    assert answered(HANDLER.mutate(review(pod)).body)["allowed"] is True


@pytest.mark.parametrize(
    ("pod", "sentence"),
    [
        (hostile(spec={"containers": [{}] * 20_001}), "containers, variables, volumes"),
        (hostile(spec={"containers": [{"env": [{"name": CUDA}] * 20_001}]}), "variables, volumes"),
        (hostile(spec={"volumes": [{"emptyDir": {}}] * 10_001}), "volumes and other objects"),
        (
            hostile(spec={"affinity": {"podAntiAffinity": {"requiredDuring": [ANTI] * 7_000}}}),
            "Fairlead reads pods of up to 20000",
        ),
        (hostile(metadata={"labels": {f"l{n}": "" for n in range(100_001)}}), "labels, annotation"),
        (hostile(spec={"affinity": {"nodeAffinity": {"x": MANY_TERMS}}}), "values and other texts"),
        (hostile(spec={"containers": [{"args": [""] * 100_002}]}), "values and other texts"),
        (hostile(metadata={"annotations": LONG_MAP}), "longer than the 256 KiB that are stored"),
        (hostile(spec={"containers": [{"image": "x" * 2**22}]}), "the pod is longer than 4 MiB"),
    ],
    ids=[
        "containers",
        "variables",
        "volumes",
        "affinity",
        "labels",
        "values",
        "args",
        "map",
        "long",
    ],
)
def test_a_pod_beyond_the_limits_is_refused_before_it_is_decoded(
    pod: Json, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_handler, "decode_pod", pytest.fail)
    for ask in (HANDLER.mutate, HANDLER.validate):
        given = ask(review(pod))
        assert given.outcome == "refused"
        assert sentence in answered(given.body)["status"]["message"]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"limit": {f"x/r{n}": "1" for n in range(100_001)}}, "the queue has 100"),
        ({"namespaces": ["n"] * 100_002}, "values and other texts; Fairlead reads queues of up to"),
        ({"description": "x" * 2**22}, "the queue is longer than 4 MiB"),
    ],
    ids=["resources", "namespaces", "long"],
)
def test_a_queue_beyond_the_limits_is_refused_before_it_is_decoded(
    spec: Json, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_reviews, "decode_queue", pytest.fail)
    queue = {"metadata": {"name": "q"}, "spec": spec}
    given = HANDLER.validate(review(queue, kind={"group": "fairlead.dev", "kind": "Queue"}))
    assert given.outcome == "refused"
    assert sentence in answered(given.body)["status"]["message"]


def test_the_pod_before_a_debug_container_has_the_same_limits() -> None:
    before = debugged(*[{"name": "old"}] * 20_001)
    given = HANDLER.mutate(update(debugged({"name": "new"}), before))
    assert given.outcome == "refused"
    assert "Fairlead reads pods of up to 20000" in answered(given.body)["status"]["message"]


@pytest.mark.parametrize(
    ("pod", "literal"),
    [
        (a_pod(*[[]] * 10_000), None),
        (a_pod([{"name": CUDA, "value": "0"}] * 19_000), None),
        (a_pod(*[[]] * 1000), "0" * 100_000),
    ],
    ids=["containers", "variables", "value"],
)
def test_an_answer_is_never_longer_than_its_bound(pod: Json, literal: str | None) -> None:
    given = AdmissionHandler(HANDLER.schedulers, lambda _: literal).mutate(review(pod))

    assert given.outcome == "refused"
    assert "longer than 1 MiB" in answered(given.body)["status"]["message"]


def test_a_large_pod_within_the_limits_is_served() -> None:
    env = [{"name": f"V{n}", "value": "x" * 100} for n in range(900)]
    pod = a_pod(*[env] * 20)

    assert len(steps(HANDLER, pod)) == 20
    assert HANDLER.validate(review(pod)).outcome == "allowed"


@pytest.mark.parametrize("word", ["0", "-5m", "36500d", "soon"])
def test_a_run_time_that_is_none_is_warned_of_and_not_refused(word: str) -> None:
    pod = a_pod(None)
    pod["metadata"]["annotations"] = {"fairlead.dev/run-time": word, "fairlead.dev/gpu-shar": "1"}
    said = answered(HANDLER.validate(review(pod)).body)
    assert said["allowed"] is True
    odd, wrong = said["warnings"]
    assert "fairlead.dev/gpu-shar" in odd
    assert wrong.startswith(f"fairlead.dev/run-time is {word!r} and is ignored: ")
