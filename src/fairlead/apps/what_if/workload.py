"""The pods that manifests stand for: of pods themselves, and of controllers by their templates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fairlead.apps.what_if.manifest_claims import claim_of, is_claim
from fairlead.engine.events import ClaimObjectSeen, Event, GangSeen, PodSeen
from fairlead.kube.codec import decode_pod
from fairlead.kube.gangs.registry import ALL, GangDialects, decode_object
from fairlead.model.behaviour import Behaviour
from fairlead.model.claims import ResourceClaim
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.run_times import JOB_DEADLINE, RunTime

Json = Mapping[str, Any]

#: Pods that are looked at together, and bytes of a file.
MOST_PODS = 5000
_MOST_BYTES = 8 << 20
_REPLICATED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")


@dataclass(frozen=True, slots=True)
class ManifestDefaults:
    """What the API server would fill in."""

    namespace: str = "default"
    #: By name of the PriorityClass; the default one has an empty name.
    priorities: Mapping[str, int] | None = None
    behaviour: Behaviour | None = None
    gangs: GangDialects = ALL


@dataclass(frozen=True, slots=True)
class ManifestPods:
    #: Gangs and claims, then pods.
    events: tuple[Event, ...]
    #: Kinds of objects that have no pods, and were left out.
    left_out: tuple[str, ...] = ()
    #: What its ResourceClaimTemplates ask for, by "namespace/name".
    templates: Mapping[str, ResourceClaim] = field(default_factory=dict)

    @property
    def pods(self) -> list[Pod]:
        return [event.pod for event in self.events if isinstance(event, PodSeen)]


def read_workload(path: Path, defaults: ManifestDefaults) -> ManifestPods:
    """Raises ConfigError with one sentence for a file that cannot be used."""
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if data is None:
        raise ConfigError(f"{path} is larger than 8 MiB")
    try:
        return workload_of(list(_objects(yaml.safe_load_all(data))), defaults)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not YAML: {str(error).splitlines()[0]}") from error
    except FairleadError as error:
        raise ConfigError(f"{path}: {error}") from error


def _objects(found: Any) -> Iterator[Json]:
    for body in found:
        if body is None:
            continue
        if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
            raise ConfigError("it has something that is no Kubernetes object: kind is missing")
        if body["kind"].endswith("List") and isinstance(body.get("items"), list):
            yield from _objects(body["items"])
        else:
            yield body


def workload_of(objects: Sequence[Json], defaults: ManifestDefaults) -> ManifestPods:
    others: list[Event] = []
    pods: list[Event] = []
    left_out: list[str] = []
    templates: dict[str, ResourceClaim] = {}
    for body in objects:
        if (gang := _gang(body, defaults)) is not None:
            others.append(gang)
            continue
        if (claim := _claim(body, defaults)) is not None:
            if claim.uid:
                others.append(ClaimObjectSeen(claim))
            else:
                templates[claim.key] = claim
            continue
        made = list(_pods(body, defaults, MOST_PODS - len(pods)))
        pods += made
        if not made:
            left_out.append(f"{body['kind']}/{_name(body)}")
    if not pods:
        raise ConfigError("it has no pods; use Pods, Jobs, JobSets, Deployments or StatefulSets")
    return ManifestPods((*others, *pods), tuple(left_out), templates)


def _gang(body: Json, defaults: ManifestDefaults) -> Event | None:
    """The object of a gang, in whichever API."""
    group = str(body.get("apiVersion", "")).partition("/")[0]
    for dialect in defaults.gangs.dialects:
        kind = dialect.kind
        if kind is not None and (kind.group, kind.kind) == (group, body["kind"]):
            placed = {**body, "metadata": _metadata(body, defaults)}
            return GangSeen(decode_object(dialect, msgspec.json.encode(placed)).spec)
    return None


def _claim(body: Json, defaults: ManifestDefaults) -> ResourceClaim | None:
    return claim_of(body, _metadata(body, defaults)) if is_claim(body) else None


def _pods(body: Json, defaults: ManifestDefaults, most: int) -> Iterator[Event]:
    for number, (template, owner, deadline_s) in enumerate(_templates(body)):
        if number >= most:
            raise ConfigError(f"it has more than {MOST_PODS} pods")
        yield PodSeen(_pod(body, template, owner, deadline_s, defaults))


_Template = tuple[Json, str, int | None]


def _templates(body: Json) -> Iterator[_Template]:
    """The template of each pod, its name, and the deadline of its Job."""
    kind, name, spec = body["kind"], _name(body), _map(body.get("spec"))
    if kind == "Pod":
        yield body, name, None
    elif kind == "Job":
        yield from _of_job(spec, name)
    elif kind == "JobSet":
        for each in spec.get("replicatedJobs") or ():
            job = _map(_map(_map(each).get("template")).get("spec"))
            for replica in range(_count(_map(each).get("replicas"), 1)):
                yield from _of_job(job, f"{name}-{_map(each).get('name', 'job')}-{replica}")
    elif kind in _REPLICATED:
        template = _map(spec.get("template"))
        for replica in range(_count(spec.get("replicas"), 1)):
            yield template, f"{name}-{replica}", None


def _of_job(spec: Json, name: str) -> Iterator[_Template]:
    template, completions = _map(spec.get("template")), spec.get("completions")
    pods = _count(spec.get("parallelism"), 1)
    if completions is not None:
        pods = min(pods, _count(completions, 1))
    deadline = spec.get("activeDeadlineSeconds")
    for index in range(pods):
        yield template, f"{name}-{index}", deadline if isinstance(deadline, int) else None


def _pod(
    body: Json, template: Json, name: str, deadline_s: int | None, defaults: ManifestDefaults
) -> Pod:
    meta, spec = _metadata(body, defaults), dict(_map(template.get("spec")))
    own = _map(template.get("metadata"))
    said: dict[str, Any] = {
        "metadata": {
            "namespace": meta["namespace"],
            "name": name,
            "uid": f"what-if-{meta['namespace']}-{name}",
            "labels": own.get("labels") or {},
            "annotations": own.get("annotations") or {},
        },
        "spec": spec,
    }
    if body["kind"] != "Pod":
        owner = {"kind": body["kind"], "name": _name(body), "uid": "what-if", "controller": True}
        said["metadata"]["ownerReferences"] = [
            {"apiVersion": str(body.get("apiVersion", "v1")), **owner}
        ]
    spec.setdefault("priority", _priority(spec, defaults))
    for key in ("containers", "initContainers"):
        spec[key] = [_requesting(_map(each)) for each in spec.get(key) or ()]
    if "overhead" in spec:
        spec["overhead"] = _quantities(spec["overhead"])
    pod = _decoded(said, defaults)
    if deadline_s is None or pod.run_time is not None:
        return pod
    return replace(pod, run_time=RunTime(bound_s=float(deadline_s), source=JOB_DEADLINE))


def _requesting(container: Json) -> Json:
    """A limit without a request is one, too."""
    resources = _map(container.get("resources"))
    limits = _quantities(resources.get("limits"))
    requests = {**limits, **_quantities(resources.get("requests"))}
    return {**container, "resources": {**resources, "limits": limits, "requests": requests}}


def _quantities(amounts: Any) -> dict[str, Any]:
    """As the API server returns them: a number in YAML, such as 4, is the quantity "4"."""
    return {
        name: str(amount) if isinstance(amount, int | float) else amount
        for name, amount in _map(amounts).items()
    }


def _decoded(said: Json, defaults: ManifestDefaults) -> Pod:
    raw = msgspec.json.encode(said)
    try:
        pod = (
            decode_pod(raw, behaviour=defaults.behaviour, gang_dialects=defaults.gangs)
            if defaults.behaviour
            else decode_pod(raw, gang_dialects=defaults.gangs)
        )
    except (FairleadError, msgspec.MsgspecError) as error:
        raise ConfigError(f"pod {said['metadata']['name']}: {error}") from error
    return replace(pod, node="", grant=None)


def _priority(spec: Json, defaults: ManifestDefaults) -> int:
    name = str(spec.get("priorityClassName") or "")
    known = defaults.priorities or {}
    if name and name not in known:
        raise ConfigError(f"there is no PriorityClass {name}")
    return known.get(name, 0)


def _metadata(body: Json, defaults: ManifestDefaults) -> dict[str, Any]:
    meta = dict(_map(body.get("metadata")))
    return {**meta, "namespace": meta.get("namespace") or defaults.namespace, "name": _name(body)}


def _name(body: Json) -> str:
    meta = _map(body.get("metadata"))
    return str(meta.get("name") or meta.get("generateName") or "what-if").rstrip("-")


def _count(value: Any, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"{value!r} is not a number of pods")
    return min(value, MOST_PODS + 1)


def _map(value: Any) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{str(value)[:40]!r} is no object")
    return value
