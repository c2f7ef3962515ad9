"""Resource claims and their templates in manifests."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.claims.kinds import CLAIMS
from fairlead.kube.claims.templates import TEMPLATES, decode_template
from fairlead.model.claims import ResourceClaim
from fairlead.model.errors import ConfigError, FairleadError

Json = Mapping[str, Any]

_DECODERS = {CLAIMS.kind: decode_claim, TEMPLATES.kind: decode_template}


def is_claim(body: Json) -> bool:
    group = str(body.get("apiVersion", "")).partition("/")[0]
    return group == CLAIMS.group and body["kind"] in _DECODERS


def claim_of(body: Json, metadata: Json) -> ResourceClaim:
    """A claim that is new; without a uid: what a template asks for. Raises ConfigError."""
    kind, named = body["kind"], {key: metadata[key] for key in ("namespace", "name")}
    try:
        raw = msgspec.json.encode({"metadata": named, "spec": body.get("spec") or {}})
        found = _DECODERS[kind](raw)
    except (FairleadError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{kind} {named['name'][:253]}: {error}") from error
    if found.problem:
        raise ConfigError(f"{kind} {named['name'][:253]}: {found.problem}")
    return found if kind == TEMPLATES.kind else replace(found, uid=f"what-if-{found.key}")
