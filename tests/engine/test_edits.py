"""An ask that is edited after the bind is reported once, and changes nothing."""

from dataclasses import replace

from builders import SCHEDULER, a_node, a_pod, decide_once
from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen, PodSeen
from fairlead.engine.instructions import AnnounceWarning, Bind, Instruction
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, GrantSource, Inventory
from fairlead.model.pods import Pod

HALF = GpuRequest(1, whole=False, milli=500, dialect="fairlead")
GRANT = Grant((GpuUse("GPU-0", False, 500, 0),), "fairlead")


def an_engine() -> Engine:
    engine = Engine({SCHEDULER: built_in(SCHEDULER)})
    gpus = Inventory((Gpu("GPU-0", 0, "H100", 16_000),), dialects=frozenset({"fairlead"}))
    engine.handle(NodeSeen(a_node("n1", inventory=gpus)), now=0.0)
    return engine


def bound(**more: object) -> Pod:
    return a_pod("p", uid="p", gpu_request=HALF, grant=GRANT, node="n1", **more)


def see(engine: Engine, *pods: Pod) -> list[Instruction]:
    return [made for pod in pods for made in engine.handle(PodSeen(pod), now=0.0)]


def asks(pod: Pod, ask: GpuRequest | None) -> Pod:
    return replace(pod, request=replace(pod.request, gpu_request=ask))


def free(engine: Engine) -> int:
    return int(engine.cluster.columns.devices.milli_free[0, 0])


def test_a_pod_that_is_as_it_was_bound_is_not_reported() -> None:
    engine = an_engine()
    assert see(engine, bound()) == []
    assert see(engine, replace(bound(), labels={"new": "label"})) == []


def test_a_difference_is_reported_once_and_again_when_it_changes() -> None:
    engine = an_engine()
    see(engine, bound())
    edited = replace(asks(bound(), None), edited="they now request no GPU")

    (warning,) = see(engine, edited)

    assert isinstance(warning, AnnounceWarning)
    assert warning.reason == "RequestChangeIgnored"
    assert "they now request no GPU. The pod keeps what it was assigned." in warning.message
    assert see(engine, replace(edited, labels={"new": "label"})) == []
    assert len(see(engine, replace(edited, edited="something else"))) == 1
    assert see(engine, bound()) == [], "put back as it was"
    assert free(engine) == 500


def test_a_difference_from_before_the_start_is_reported() -> None:
    assert len(see(an_engine(), replace(bound(), edited="they now request no GPU"))) == 1


def test_an_ask_that_only_we_remember_is_reported() -> None:
    engine = an_engine()
    see(engine, bound())
    more = replace(HALF, memory_milli=500)

    assert len(see(engine, asks(bound(), more))) == 1
    assert see(engine, asks(bound(), more)) == []


def test_an_assignment_that_is_removed_frees_nothing_and_is_reported() -> None:
    engine = an_engine()
    see(engine, bound())
    unknown = Grant((GpuUse("", False, 500),), "fairlead", source=GrantSource.ASKED)

    assert len(see(engine, replace(bound(), grant=unknown))) == 1
    assert free(engine) == 500
    see(engine, replace(asks(bound(), None), grant=None))
    assert free(engine) == 500


def test_an_assignment_that_is_forged_while_we_run_changes_nothing_and_is_reported() -> None:
    """Without the policy: less than was assigned, other GPUs, or some for a pod that had none."""
    engine = an_engine()
    see(engine, bound(), a_pod("plain", uid="plain", node="n1"))
    less = Grant((GpuUse("GPU-0", False, 1),), "fairlead")

    assert len(see(engine, replace(bound(), grant=less))) == 1
    assert see(engine, replace(bound(), grant=less)) == []
    see(engine, replace(bound(), grant=None))
    see(engine, replace(bound(), grant=less))
    see(engine, a_pod("plain", uid="plain", node="n1", grant=less))
    assert free(engine) == 500


def test_a_device_plugin_that_picks_the_gpu_is_believed() -> None:
    engine = an_engine()
    see(engine, bound())
    took = Grant((GpuUse("GPU-0", False, 700),), "fairlead", source=GrantSource.TAKEN)

    assert see(engine, replace(bound(), grant=took)) == []
    assert free(engine) == 300
    see(engine, bound())
    assert free(engine) == 300, "what it took is not taken back"


def test_an_ask_that_is_added_to_a_running_pod_books_nothing() -> None:
    engine = an_engine()
    plain = a_pod("p", uid="p", node="n1")
    see(engine, plain)
    unknown = Grant((GpuUse("", False, 500),) * 64, "fairlead", source=GrantSource.ASKED)

    (warning,) = see(engine, replace(asks(plain, HALF), grant=unknown))

    assert isinstance(warning, AnnounceWarning)
    assert free(engine) == 1000
    assert int(engine.cluster.columns.devices.elsewhere[0]) == 0


def test_pods_of_other_schedulers_are_not_reported() -> None:
    engine = an_engine()
    see(engine, bound(scheduler="other"))

    assert see(engine, asks(bound(scheduler="other"), None)) == []


def test_a_misspelt_annotation_is_reported_once_and_the_pod_goes_on() -> None:
    engine = an_engine()
    pod = a_pod("p", uid="p", misspelt="annotation fairlead.dev/gpu-shares is unknown")

    (warning,) = see(engine, pod)

    assert warning == AnnounceWarning(pod, "UnknownAnnotation", pod.misspelt)
    assert see(engine, replace(pod, labels={"new": "label"})) == []
    assert len(see(engine, replace(pod, misspelt="another one"))) == 1
    assert isinstance(decide_once(engine, now=1.0)[0], Bind)
