"""The queues `root` and `default` of Volcano, which its scheduler creates when it starts.

Volcano's controller ignores a Job whose queue does not exist. Only where Fairlead serves the name
of Volcano's scheduler, it creates what is missing; what is there is left as it is.
"""

import msgspec
import structlog

from fairlead.kube.errors import ApiError
from fairlead.kube.http.transport import Transport

log = structlog.get_logger(__name__)

#: Only who serves this scheduler name creates them.
VOLCANO = "volcano"
PATH = "/apis/scheduling.volcano.sh/v1beta1/queues"
_SPECS: dict[str, dict[str, object]] = {
    "root": {"weight": 1, "reclaimable": False},
    "default": {"weight": 1, "reclaimable": True, "parent": "root"},
}
_OPEN = msgspec.json.encode({"status": {"state": "Open"}})
_MERGE = "application/merge-patch+json"
_TIMEOUT_S = 5.0


async def create_queues(client: Transport) -> None:
    """Raises ApiError if the API server cannot be asked; what it refuses is logged."""
    for name, spec in _SPECS.items():
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        reply = await client.request(
            "POST", PATH, body=msgspec.json.encode(body), timeout_s=_TIMEOUT_S
        )
        if reply.status == 201:
            await _open(client, name)
        elif reply.status == 403:
            log.warning("cannot create the queue of Volcano", queue=name, reason=reply.message)
        elif reply.status != 409:
            raise ApiError(f"cannot create the queue {name}: {reply.message}")


async def _open(client: Transport, name: str) -> None:
    """A queue without a state is as good as closed to those who read it."""
    reply = await client.request(
        "PATCH",
        f"{PATH}/{name}/status",
        body=_OPEN,
        content_type=_MERGE,
        timeout_s=_TIMEOUT_S,
    )
    said = "is open" if reply.status == 200 else reply.message
    log.info("created the queue of Volcano", queue=name, state=said)
