"""Claims of waiting pods that are not made from their templates yet, for looks ahead."""

from collections.abc import Iterable, Mapping, Sequence

from fairlead.cluster.claim_groups import ClaimGroups
from fairlead.engine.events import ClaimObjectSeen, Event, GangSeen, PodSeen
from fairlead.kube.claims.templates import TEMPLATES, decode_template
from fairlead.kube.errors import ApiError
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.claims import ResourceClaim
from fairlead.model.pods import Pod
from fairlead.sim.virtual.claims import with_own_claims

#: Different templates that are read, one by one.
_MOST = 200

Templates = Mapping[str, ResourceClaim]


def missing_templates(pods: Iterable[Pod]) -> dict[str, Pod]:
    """Templates ("namespace/name") without a claim of the pod, each with a pod that names it."""
    found: dict[str, Pod] = {}
    for pod in pods:
        for use in pod.request.claims:
            if use.template and not use.key:
                found.setdefault(f"{pod.namespace}/{use.template}", pod)
    return found


async def read_templates(client: Client, keys: Iterable[str]) -> dict[str, ResourceClaim]:
    """Those that are there and that the user may read."""
    found = {}
    for key in sorted(keys)[:_MOST]:
        try:
            reply = await client.request("GET", _path(*key.split("/", 1)))
            if reply.status == 200:
                found[key] = decode_template(reply.body)
        except (ApiError, ValueError, *UNREADABLE):
            continue
    return found


def _path(namespace: str, name: str) -> str:
    root = f"/apis/{TEMPLATES.group}/{TEMPLATES.versions[0]}"
    return named(in_namespace(root, namespace, TEMPLATES.plural), name)


def with_made_claims(
    events: Sequence[Event], templates: Templates, gangs: Iterable[Event] = ()
) -> list[Event]:
    """The events with a claim for each pod that waits for one, if its template is known.

    `gangs`: events that come before, for claims of PodGroups.
    """
    groups, made = ClaimGroups(), dict[str, ResourceClaim]()
    for event in (*gangs, *events):
        if isinstance(event, GangSeen):
            groups.put(event.spec)
    found: list[Event] = []
    for event in events:
        if isinstance(event, PodSeen) and event.pod.request.claims:
            pod, claims = with_own_claims(event.pod, templates, groups)
            new = {claim.key: claim for claim in claims if claim.key not in made}
            made |= new
            found += [*map(ClaimObjectSeen, new.values()), PodSeen(pod)]
        else:
            found.append(event)
    return found


async def with_live_claims(client: Client, events: list[Event]) -> list[Event]:
    """The same for the pods of a cluster that was just read; most clusters have none."""
    pods = (event.pod for event in events if isinstance(event, PodSeen))
    wanted = missing_templates(pod for pod in pods if pod.request.claims and not pod.node)
    return with_made_claims(events, await read_templates(client, wanted)) if wanted else events
