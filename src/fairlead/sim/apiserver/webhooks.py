"""Admission webhooks: who is asked, in which order, and what the answer does."""

import base64
import ssl
import uuid
from typing import Any

import aiohttp
import msgspec

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver.call import Call
from fairlead.sim.apiserver.jsonpatch import PatchError, apply_json_patch
from fairlead.sim.apiserver.selectors import matches
from fairlead.sim.apiserver.status import ApiStatusError, internal

Object = dict[str, Any]
_encode = msgspec.json.Encoder().encode
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}


@dataclass(slots=True)
class WebhookRequest:
    """One write that webhooks are asked about."""

    call: Call
    operation: str
    obj: Object | None
    old: Object | None
    namespace_labels: dict[str, str] | None

    def request(self) -> Object:
        kind, call = self.call.kind, self.call
        group, version, name = _SUBRESOURCE_KINDS.get(
            call.subresource, (kind.group, kind.version, kind.kind)
        )
        named = {"group": group, "version": version, "kind": name}
        resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
        request: Object = {
            "uid": str(uuid.uuid4()), "kind": named, "resource": resource, "requestKind": named,
            "requestResource": resource, "name": call.name, "operation": self.operation,
            "userInfo": {"username": call.user, "groups": ["system:authenticated"]},
            "object": self._shown(self.obj), "oldObject": self._shown(self.old),
            "dryRun": call.dry_run, "options": self._options(),
        }  # fmt: skip
        if call.subresource:
            request |= {"subResource": call.subresource, "requestSubResource": call.subresource}
        if call.namespace:
            request["namespace"] = call.namespace
        return request

    def _options(self) -> Object:
        kind = f"{self.operation.capitalize()}Options"
        options: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        query = self.call.query
        if self.call.dry_run:
            options["dryRun"] = [query["dryRun"]]
        options |= {
            name: query[name] for name in ("fieldManager", "fieldValidation") if name in query
        }
        return options

    def _shown(self, obj: Object | None) -> Object | None:
        if obj is None:
            return None
        named = _SUBRESOURCE_KINDS.get(self.call.subresource)
        if named is None:
            kind = self.call.kind
            return {"kind": kind.kind, "apiVersion": kind.api_version, **obj}
        group, version, name = named
        api_version = f"{group}/{version}" if group else version
        metadata = {"namespace": self.call.namespace, **(obj.get("metadata") or {})}
        return {"kind": name, "apiVersion": api_version, **obj, "metadata": metadata}

    def labels(self) -> list[dict[str, str]]:
        """Label sets that an objectSelector is tried on: after the write, and before it."""
        return [
            obj.get("metadata", {}).get("labels") or {}
            for obj in (self.obj, self.old)
            if obj is not None
        ]


class Webhooks:
    """The configured webhooks; `mutating` and `validating` are empty when none is to be called."""

    def __init__(self) -> None:
        self.mutating: list[Object] = []
        self.validating: list[Object] = []
        self._session: aiohttp.ClientSession | None = None

    def configure(self, mutating: list[Object], validating: list[Object]) -> None:
        """Takes over the stored configurations; the real server asks in order of their names."""
        self.mutating, self.validating = _hooks(mutating), _hooks(validating)

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def mutate(self, review: WebhookRequest) -> Object:
        """The object after every webhook that matches it; the same one if none changed it."""
        again = False
        for hook in self.mutating:
            before = review.obj
            await self._mutate_once(hook, review)
            again = again or (review.obj is not before)
        if again:
            for hook in self.mutating:
                if hook.get("reinvocationPolicy") == "IfNeeded":
                    await self._mutate_once(hook, review)
        assert review.obj is not None
        return review.obj

    async def _mutate_once(self, hook: Object, review: WebhookRequest) -> None:
        if not _wants(hook, review):
            return
        response = await self._ask(hook, review)
        patch = response.get("patch")
        if not patch or review.obj is None:
            return
        steps = msgspec.json.decode(base64.b64decode(patch))
        try:
            review.obj = apply_json_patch(review._shown(review.obj), steps)
        except PatchError as error:
            raise internal(str(error)) from error

    async def validate(self, review: WebhookRequest) -> None:
        for hook in self.validating:
            if _wants(hook, review):
                await self._ask(hook, review)

    async def _ask(self, hook: Object, review: WebhookRequest) -> Object:
        """The webhook's response; {} when it failed and may be ignored."""
        try:
            response = await self._call(hook, review)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError, KeyError) as error:
            if hook.get("failurePolicy") == "Ignore":
                return {}
            why = f'failed calling webhook "{hook["name"]}": failed to call webhook: {error}'
            raise internal(why) from error
        review.call.warnings += response.get("warnings") or []
        if not response.get("allowed"):
            raise _denial(hook["name"], response.get("status") or {})
        return response

    async def _call(self, hook: Object, review: WebhookRequest) -> Object:
        client, request = hook.get("clientConfig") or {}, review.request()
        url = client.get("url")
        if not url:
            raise ValueError(
                "services cannot be reached from the embedded server; use clientConfig.url"
            )
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        wait = aiohttp.ClientTimeout(total=hook.get("timeoutSeconds", 10))
        if self._session is None:
            self._session = aiohttp.ClientSession()
        sent = self._session.post(
            url, data=_encode(body), timeout=wait, ssl=_trust(client.get("caBundle")),
            params={"timeout": f"{hook.get('timeoutSeconds', 10)}s"},
            headers={"Content-Type": "application/json"}, allow_redirects=False,
        )  # fmt: skip
        async with sent as answer:
            if answer.status != 200:
                raise ValueError(f"the server responded with status code {answer.status}")
            review_back: Object = msgspec.json.decode(await answer.read())
        response: Object = review_back["response"]
        if response.get("uid") != request["uid"]:
            raise ValueError(
                f'expected response.uid="{request["uid"]}", got "{response.get("uid")}"'
            )
        return response


def _trust(bundle: str | None) -> ssl.SSLContext:
    if not bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())


def _hooks(configurations: list[Object]) -> list[Object]:
    ordered = sorted(configurations, key=lambda each: str(each["metadata"]["name"]))
    return [hook for each in ordered for hook in each.get("webhooks", [])]


def _denial(name: str, status: Object) -> ApiStatusError:
    message = f'admission webhook "{name}" denied the request'
    why = status.get("message") or status.get("reason")
    message += f": {why}" if why else " without explanation"
    code = status.get("code") or 403
    return ApiStatusError(code, status.get("reason", "Forbidden" if code == 403 else ""), message)


def _wants(hook: Object, review: WebhookRequest) -> bool:
    if review.call.kind.group == "admissionregistration.k8s.io":
        return False  # a broken webhook must not keep itself from being removed
    if not any(_rule_matches(rule, review) for rule in hook.get("rules") or []):
        return False
    labels = review.namespace_labels
    if labels is not None and not matches(hook.get("namespaceSelector") or {}, labels):
        return False
    selector = hook.get("objectSelector") or {}
    return any(matches(selector, each) for each in review.labels())


def _rule_matches(rule: Object, review: WebhookRequest) -> bool:
    kind, sub = review.call.kind, review.call.subresource
    scope = rule.get("scope", "*")
    return (
        _among(rule.get("operations"), review.operation)
        and _among(rule.get("apiGroups"), kind.group)
        and _among(rule.get("apiVersions"), kind.version)
        and any(_resource_matches(each, kind.plural, sub) for each in rule.get("resources") or [])
        and (scope == "*" or (scope == "Namespaced") == kind.namespaced)
    )


def _among(allowed: list[str] | None, value: str) -> bool:
    return bool(allowed) and ("*" in allowed or value in allowed)  # type: ignore[operator]


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    if pattern == "*/*":
        return True
    resource, _, wanted = pattern.partition("/")
    return resource in ("*", plural) and wanted in (("*", subresource) if subresource else ("",))
