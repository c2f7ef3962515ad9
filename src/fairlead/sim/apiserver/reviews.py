"""Reviews: questions about access, answered and not stored. Who has the token may do everything."""

from typing import Any

from fairlead.sim.apiserver.kinds import Kind

Object = dict[str, Any]
_USER = {"username": "fairlead-admin", "groups": ["system:masters", "system:authenticated"]}


def is_review(kind: Kind) -> bool:
    return kind.group in ("authorization.k8s.io", "authentication.k8s.io")


def answer(kind: Kind, asked: Any) -> Object:
    spec = asked.get("spec", {}) if isinstance(asked, dict) else {}
    return {
        "kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"creationTimestamp": None},
        "spec": spec, "status": _status(kind.kind),
    }  # fmt: skip


def _status(kind: str) -> Object:
    if kind == "SelfSubjectReview":
        return {"userInfo": _USER}
    if kind == "TokenReview":
        return {"authenticated": True, "user": _USER}
    if kind == "SelfSubjectRulesReview":
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        return {"resourceRules": [everything], "nonResourceRules": [], "incomplete": False}
    return {"allowed": True, "reason": "the token of the embedded server allows everything"}
