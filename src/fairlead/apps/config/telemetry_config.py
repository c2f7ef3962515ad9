"""`telemetry:` of the configuration: which sources are asked, where and how often.

telemetry:
  sources:
    - kind: dcgm
      url: http://{address}:9400/metrics   # the node's InternalIP; {node} is its name
      every: 15s
"""

from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from fairlead.apps.config import typed_yaml
from fairlead.base.durations import seconds
from fairlead.model.errors import ConfigError

if TYPE_CHECKING:
    from fairlead.telemetry.sources import SourcePlan

_SHORTEST_S = 1.0


class SourceConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    kind: Literal["agent", "dcgm", "prometheus", "alnair"]
    name: str = ""
    url: str = ""
    every: str = "15s"
    timeout: str = "5s"
    at_once: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 64
    token_file: str = ""
    ca_file: str = ""
    queries: dict[str, str] = msgspec.field(default_factory=dict)

    def plan(self) -> "SourcePlan":
        from fairlead.telemetry.sources import KINDS, SourcePlan  # where there is one

        url = self.url or KINDS[self.kind]
        if url or self.kind == "prometheus":
            _check(url)
        _check_queries(self.kind, self.queries)
        return SourcePlan(
            kind=self.kind,
            name=self.name or self.kind,
            url=url,
            every_s=_seconds("every", self.every, _SHORTEST_S),
            timeout_s=_seconds("timeout", self.timeout, 0.1),
            at_once=self.at_once,
            token_file=self.token_file,
            ca_file=self.ca_file,
            queries=self.queries,
        )


class TelemetryConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    sources: list[SourceConfig] = msgspec.field(default_factory=list)

    def plans(self) -> "list[SourcePlan]":
        """What is to be run, or a ConfigError that names the source."""
        found = []
        for number, source in enumerate(self.sources):
            try:
                found.append(source.plan())
            except ConfigError as error:
                raise ConfigError(
                    f"telemetry source {number + 1} ({source.kind}): {error}"
                ) from error
        _refuse_namesakes([plan.name for plan in found])
        return found


def endpoint_plan(endpoint: str) -> "SourcePlan":
    """What `DCGM_ENDPOINT` asks for, as the tutorial's scheduler has it."""
    url = endpoint if urlsplit(endpoint).path.strip("/") else f"{endpoint.rstrip('/')}/metrics"
    try:
        return SourceConfig("dcgm", url=url).plan()
    except ConfigError as error:
        raise ConfigError(f"DCGM_ENDPOINT: {error}") from error


def _check(url: str) -> None:
    parts = urlsplit(url.replace("{address}", "a").replace("{node}", "n"))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not a valid URL; use http://… or https://…")


def _check_queries(kind: str, queries: dict[str, str]) -> None:
    if queries and kind != "prometheus":
        raise ConfigError("queries are only for kind prometheus; remove them")
    from fairlead.telemetry.sources.prometheus import MEANINGS, TIME

    for name in queries:
        if name not in (*MEANINGS, TIME):
            hint = typed_yaml.hint(name, (*MEANINGS, TIME))
            raise ConfigError(f"unknown reading {name!r} in queries; {hint}")


def _seconds(key: str, text: str, least_s: float) -> float:
    found = seconds(text)
    if found is None or found < least_s:
        raise ConfigError(
            f"{key}: {text!r} is not a time of {least_s:g} s or more; use a value such as 15s or 1m"
        )
    return found


def _refuse_namesakes(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"two telemetry sources have the name {twice[0]!r}; give each its own name"
        )
