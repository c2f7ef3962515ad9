"""What a user asked of a real API server, and what he may ask."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fairlead.sim.controlplane import ControlPlane

#: API group, resource or path, verb.
Permission = tuple[str, str, str]
Object = dict[str, Any]

_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
"""


class Audited:
    """A control plane of its own that writes down who asked for what."""

    def __init__(self, start: Callable[..., ControlPlane], folder: Path) -> None:
        self._log = folder / "audit.log"
        policy = folder / "policy.yaml"
        policy.write_text(_POLICY)
        flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._log}"]
        # Without streamed lists, so that it must list: it does so everywhere, but seldom.
        self.plane = start(apiserver_flags=[*flags, "--feature-gates=WatchList=false"])

    def asked_by(self, user: str) -> list[Object]:
        whole, _, _ = self._log.read_text().rpartition("\n")  # the last may be half written
        entries = [json.loads(line) for line in whole.splitlines()]
        return [entry for entry in entries if entry["user"]["username"] == user]

    def refused(self, user: str) -> list[Object]:
        """What was asked without the right to."""
        return [e for e in self.asked_by(user) if e["responseStatus"].get("code") in (401, 403)]

    def used(self, user: str) -> set[Permission]:
        return {_permission(entry) for entry in self.asked_by(user)}


def _permission(entry: Object) -> Permission:
    asked, verb = entry.get("objectRef"), entry["verb"]
    if asked is None:
        # Versions of a group are granted together.
        return "", re.sub(r"^(/apis/[^/]+/).+", r"\1*", entry["requestURI"]), verb
    subresource = f"/{asked['subresource']}" if asked.get("subresource") else ""
    return asked.get("apiGroup", ""), asked["resource"] + subresource, verb


def granted(*roles: Object) -> set[Permission]:
    return {right for role in roles for right in _rights(role)}


def _rights(role: Object) -> Iterator[Permission]:
    for rule in role["rules"]:
        for verb in rule["verbs"]:
            for url in rule.get("nonResourceURLs", ()):
                yield "", url, verb
            for group in rule.get("apiGroups", ()):
                for resource in rule["resources"]:
                    yield group, resource, verb
