"""Which variables every container of a pod gets, as the steps that put them in.

`CUDA_VISIBLE_DEVICES` names the GPUs. They are chosen later, so it refers to the annotation that
is written with the bind; kubelet looks it up when the container starts. Until then, and for a pod
without GPUs, it is empty, which hides every GPU.

What the author of the pod wrote under that name is replaced, however it was written: nothing that
a user writes grants a GPU. `deploy/inject-policy.yaml` says the same in CEL, and a test holds
the two together.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from fairlead.kube.admission.bounds import bounded
from fairlead.kube.admission.review import Operation
from fairlead.kube.dialects import kai
from fairlead.kube.dialects.fairlead import MEMORY, SHARE, SHOWN, SLICE, VISIBLE
from fairlead.model.scheduling_map import MAP

CUDA, RUNTIME = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"
#: Values of the second that show no GPU.
HARMLESS = ("", "none", "void")


class _FieldRef(msgspec.Struct, rename="camel", omit_defaults=True):
    api_version: str = ""
    field_path: str = ""


class _Source(msgspec.Struct, rename="camel", omit_defaults=True):
    field_ref: _FieldRef | None = None


class Variable(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    value: str = ""
    value_from: _Source | None = None


class _Container(msgspec.Struct, gc=False):
    name: str = ""
    env: list[Variable] | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None


class _Meta(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_pods = msgspec.json.Decoder(_Pod)
_encode = msgspec.json.Encoder().encode


def _chosen_later(annotation: str) -> _Source:
    # The version is explicit: the API server adds it, and our own field would not be recognised.
    return _Source(_FieldRef("v1", f"metadata.annotations['{annotation}']"))


_SEEN, _SHOWN = _chosen_later(VISIBLE), _chosen_later(SHOWN)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The variables of every container, and whether another one may stay."""

    variables: tuple[Variable, ...]
    #: The pod itself says which GPUs the container runtime shows.
    keeps_runtime: bool

    def forbids(self, found: Variable) -> bool:
        """Whether it would make the container runtime show GPUs that were not assigned."""
        harmless = found.value_from is None and found.value in HARMLESS
        return found.name == RUNTIME and not self.keeps_runtime and not harmless


def patch(pod: bytes, literal: str | None = None, before: bytes | None = None) -> list[Operation]:
    """The steps that bring the variables into every container; none if they are there.

    With `literal` the GPUs are known already. `before` is the pod without its newest ephemeral
    containers: only these can be changed then. Raises msgspec.MsgspecError if it is no pod, and
    TooMuch if there is more to put in than is sent.
    """
    found = _pods.decode(pod)
    wanted = _wanted(found.metadata.annotations or {}, literal)
    spec = found.spec
    if before is None:
        places = _places("initContainers", spec.init_containers)
        places += _places("containers", spec.containers)
    else:
        known = {each.name for each in _pods.decode(before).spec.ephemeral_containers or ()}
        places = _places("ephemeralContainers", spec.ephemeral_containers, known)
    return list(bounded(step for path, env in places for step in _steps(path, env, wanted)))


def _places(
    field: str, containers: Sequence[_Container] | None, known: Container[str] = ()
) -> list[tuple[str, Sequence[Variable]]]:
    """Where the variables of each container are, and those that it has."""
    return [
        (f"/spec/{field}/{number}/env", container.env or ())
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
    return Wanted(tuple(variables), keeps_runtime=MAP in annotations)


def _steps(path: str, env: Sequence[Variable], wanted: Wanted) -> Iterator[Operation]:
    """Those in place first, then those taken out from the end, then those that are missing."""
    missing = {variable.name: variable for variable in wanted.variables}
    surplus = []
    for place, found in enumerate(env):
        if found.name not in (CUDA, RUNTIME):
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
