"""Which variables every container of a pod gets, as the steps that put them in.

`CUDA_VISIBLE_DEVICES` names the GPUs. They are chosen later, so it refers to the annotation that
is written with the bind; kubelet looks it up when the container starts. Until then, and for a pod
without GPUs, it is empty, which hides every GPU.

What the author of the pod wrote under that name is replaced, however it was written: nothing that
a user writes grants a GPU. A pod that demands MPS also gets its limits and the pipe of the daemon
(`mps.py`). `deploy/inject-policy.yaml` says the same in CEL, and a test holds the two together.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import msgspec
from msgspec import Raw

from fairlead.kube.admission import mps
from fairlead.kube.admission.bounds import bounded
from fairlead.kube.admission.review import Operation
from fairlead.kube.admission.variables import CUDA, RUNTIME, Variable, from_annotation
from fairlead.kube.dialects import kai
from fairlead.kube.dialects.fairlead import ISOLATION, MEMORY, SHARE, SHOWN, SLICE, VISIBLE
from fairlead.kube.nesting import of_any_depth
from fairlead.model.gpus import Isolation
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.scheduling_map import MAP

#: Values of the second that show no GPU.
HARMLESS = ("", "none", "void")


class _Container(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    env: list[Variable] | None = None
    volume_mounts: list[mps.Mount] | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    volumes: list[mps.InjectedVolume] | None = None


class _Meta(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_pods = msgspec.json.Decoder(_Pod)
_encode = msgspec.json.Encoder().encode
_SEEN, _SHOWN = from_annotation(VISIBLE), from_annotation(SHOWN)
_ISOLATION_PATH = "/metadata/annotations/" + ISOLATION.replace("/", "~1")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The variables of every container, and whether another one may stay."""

    variables: tuple[Variable, ...]
    #: The pod itself says which GPUs the container runtime shows.
    keeps_runtime: bool
    #: It is a client of MPS: its containers mount the pipe.
    mps: bool = False

    def concerns(self, found: Variable) -> bool:
        return found.name in (CUDA, RUNTIME) or (self.mps and found.name.startswith(mps.PREFIX))

    def forbids(self, found: Variable) -> bool:
        """Whether it would show GPUs that were not assigned, or change limits."""
        if found.name.startswith(mps.PREFIX):
            return True
        harmless = found.value_from is None and found.value in HARMLESS
        return found.name == RUNTIME and not self.keeps_runtime and not harmless


def patch(
    pod: bytes,
    literal: str | None = None,
    before: bytes | None = None,
    default: Isolation | None = None,
) -> list[Operation]:
    """The steps that bring the variables into every container; none if they are there.

    With `literal` the GPUs are known already. `before` is the pod without its newest ephemeral
    containers: only these can be changed then. `default` is the isolation of shares that demand
    none. Raises msgspec.MsgspecError if it is no pod, and TooMuch if there is more to put in than
    is sent.
    """
    found = _pods.decode(pod)
    annotations = found.metadata.annotations or {}
    if default and _lacks_isolation(annotations):
        annotations = {**annotations, ISOLATION: default.value}
    wanted = _wanted(annotations, literal)
    if before is None:
        steps = _steps_of_new(found, wanted, annotations)
    else:
        old = of_any_depth(_pods.decode)(before)
        known = {each.name for each in old.spec.ephemeral_containers or ()}
        ephemeral = _places("ephemeralContainers", found.spec.ephemeral_containers, known)
        steps = _steps_of_ephemeral(ephemeral, wanted)
    return list(bounded(steps))


def _lacks_isolation(annotations: dict[str, str]) -> bool:
    return ISOLATION not in annotations and not annotations.keys().isdisjoint((SHARE, MEMORY))


def _steps_of_new(
    pod: _Pod, wanted: Wanted, annotations: dict[str, str]
) -> Iterator[Operation]:  # fmt: skip
    if annotations != (pod.metadata.annotations or {}):
        yield Operation("add", _ISOLATION_PATH, Raw(_encode(annotations[ISOLATION])))
    spec = pod.spec
    places = _places("initContainers", spec.init_containers)
    for path, container in [*places, *_places("containers", spec.containers)]:
        yield from _steps(f"{path}/env", container.env or (), wanted)
        if wanted.mps:
            yield from mps.mount_steps(path, container.volume_mounts or ())
    if wanted.mps:
        yield from mps.volume_steps(spec.volumes or ())


def _steps_of_ephemeral(
    places: Sequence[tuple[str, _Container]], wanted: Wanted
) -> Iterator[Operation]:
    if wanted.mps:
        wanted = replace(wanted, variables=mps.NO_GPU)
    for path, container in places:
        yield from _steps(f"{path}/env", container.env or (), wanted)


def _places(
    field: str, containers: Sequence[_Container] | None, known: Container[str] = ()
) -> list[tuple[str, _Container]]:
    """Each container, and where it is."""
    return [
        (f"/spec/{field}/{number}", container)
        for number, container in enumerate(containers or ())
        if container.name not in known
    ]


def _wanted(annotations: dict[str, str], literal: str | None) -> Wanted:
    if literal is not None:
        return Wanted((Variable(CUDA, literal),), keeps_runtime=True)
    variables = [Variable(CUDA, value_from=_SEEN)]
    # No device plugin is called for these, so nothing else configures the container runtime. For
    # KAI's there may be NvFractions, which shows the GPUs; then the annotation is not written.
    if not annotations.keys().isdisjoint((SHARE, MEMORY, SLICE)):
        variables.append(Variable(RUNTIME, value_from=_SEEN))
    elif any(map(kai.is_request, annotations)):
        variables.append(Variable(RUNTIME, value_from=_SHOWN))
    is_client = annotations.get(ISOLATION) == Isolation.MPS
    variables += mps.VARIABLES if is_client else ()
    return Wanted(tuple(variables), keeps_runtime=MAP in annotations, mps=is_client)


def _steps(path: str, env: Sequence[Variable], wanted: Wanted) -> Iterator[Operation]:
    """Those in place first, then those taken out from the end, then those that are missing."""
    missing = {variable.name: variable for variable in wanted.variables}
    surplus = []
    for place, found in enumerate(env):
        if not wanted.concerns(found):
            continue
        variable = missing.pop(found.name, None)
        if variable is None:
            ours = any(found.name == one.name for one in wanted.variables)
            surplus += [place] if ours or wanted.forbids(found) else []
        elif found != variable:
            yield Operation("replace", f"{path}/{place}", Raw(_encode(variable)))
    for place in reversed(surplus):
        yield Operation("remove", f"{path}/{place}")
    if missing and not env:
        yield Operation("add", path, Raw(_encode(list(missing.values()))))
        return
    for variable in missing.values():
        yield Operation("add", f"{path}/-", Raw(_encode(variable)))
