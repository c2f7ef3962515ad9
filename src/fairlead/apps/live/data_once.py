"""Where data is, listed once, if a profile counts the time to fetch it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

from fairlead.apps.live.live_cluster import NotListed, list_objects
from fairlead.apps.run.data_watches import count_data
from fairlead.engine.events import DataSeen, Event
from fairlead.kube.data_objects import DATA_KINDS, data_decoder
from fairlead.kube.errors import ApiError
from fairlead.kube.gangs.discovery import served_versions
from fairlead.kube.http.client import Client
from fairlead.placement.profile import Profile


async def data_events(client: Client, profiles: Iterable[Profile]) -> AsyncIterator[Event]:
    """Of the kinds that are served and that the user may list."""
    if not count_data(profiles):
        return
    with suppress(ApiError):
        for kind, version in (await served_versions(client, DATA_KINDS)).items():
            if not version:
                continue
            with suppress(NotListed):
                async for seen in list_objects(client, kind.path(version), data_decoder(kind)):
                    yield DataSeen(seen.described)
