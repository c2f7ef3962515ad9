"""Objects that `fairlead up` creates in its cluster before pods come."""

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead.kube.http.client import Client
from fairlead.model.errors import FairleadError


async def create_object(client: Client, path: str, body: Mapping[str, Any]) -> None:
    """What is there from an earlier run stays. Raises FairleadError if it is refused."""
    reply = await client.request("POST", path, body=msgspec.json.encode(body))
    if reply.status not in (201, 409):
        raise FairleadError(f"the API server refused {path}: {reply.message}")
