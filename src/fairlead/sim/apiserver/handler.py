"""HTTP requests in, answers out: authentication, discovery, and the way to each verb."""

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from aiohttp import web

from fairlead.sim.apiserver import discovery, openapi, verbs
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.paths import locate
from fairlead.sim.apiserver.status import ApiStatusError, internal, too_large_body, unauthorized
from fairlead.sim.apiserver.verbs import ApiResponse

log = logging.getLogger(__name__)
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_JSON = {"Content-Type": "application/json"}
_encode = msgspec.json.Encoder().encode
_HEALTH = ("/healthz", "/livez", "/readyz")
_NO_QUERY: Mapping[str, str] = {}


class Front:
    """Answers every request that carries the token."""

    def __init__(self, api: ApiState, token: str) -> None:
        self._api = api
        self._authorization = f"Bearer {token}".encode()
        self._documents = openapi.Documents(api.kinds)
        self.address = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Never raises: what goes wrong becomes a Status."""
        try:
            self._authenticate(request)
            if request.method == "GET":
                known = self._document(request)
                if known is not None:
                    return known
            return await self._serve(request)
        except ApiStatusError as error:
            return _refusal(error)
        except web.HTTPRequestEntityTooLarge:
            return _refusal(too_large_body())
        except Exception as error:
            log.exception("request failed: %s %s", request.method, request.path)
            return _refusal(internal(f"{type(error).__name__}: {error}"))

    def _authenticate(self, request: web.BaseRequest) -> None:
        sent = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(sent, self._authorization):
            raise unauthorized()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        url = request.rel_url
        query = request.query if url.query_string else _NO_QUERY
        call = locate(self._api.kinds, url.path, query)
        if call is None:
            return self._nothing_there(request.rel_url.path)
        if request.method == "GET" and verbs.is_watch(call):
            return await verbs.watch(self._api, call, request)
        answer = await verbs.perform(self._api, call, request)
        return _response(answer, call.warnings)

    def _nothing_there(self, path: str) -> web.Response:
        """Inside a group that is served a Status says so; anywhere else plain text does."""
        parts = path.split("/")[1:]
        is_core = parts[:2] == ["api", "v1"]
        if is_core or (
            parts[0] == "apis" and len(parts) > 2 and parts[1] in self._api.kinds.groups()
        ):
            raise ApiStatusError(
                404, "NotFound", "the server could not find the requested resource", {}
            )
        return web.Response(status=404, text="404 page not found\n")

    def _document(self, request: web.BaseRequest) -> web.Response | None:
        path = request.rel_url.path
        if path.startswith(_HEALTH):
            return web.Response(text="ok")
        if path.rstrip("/") == "/version":
            return _json(discovery.VERSION)
        if path.startswith("/openapi/"):
            found = self._documents.get(path.removeprefix("/openapi/").strip("/"))
            return web.Response(body=found, headers=_JSON) if found else None
        return self._discovery(path.rstrip("/"), request.headers.get("Accept", ""))

    def _discovery(self, path: str, accept: str) -> web.Response | None:
        kinds = self._api.kinds
        if path in ("/api", "/apis"):
            if "as=APIGroupDiscoveryList" in accept and "v=v2" in accept:
                found = discovery.aggregated(kinds, core=path == "/api")
                return web.Response(
                    body=_encode(found), headers={"Content-Type": discovery.AGGREGATED}
                )
            core = path == "/api"
            return _json(
                discovery.core_versions(self.address) if core else discovery.group_list(kinds)
            )
        parts = path.split("/")[1:]
        document = None
        if parts[0] == "api" and len(parts) == 2:
            document = discovery.resource_list(kinds, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            document = discovery.group(kinds, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            document = discovery.resource_list(kinds, parts[1], parts[2])
        return _json(document) if document else None


def _json(document: object) -> web.Response:
    return web.Response(body=_encode(document), headers=_JSON)


def _response(answer: ApiResponse, warnings: list[str]) -> web.Response:
    response = web.Response(status=answer.code, body=answer.body, headers=_JSON)
    for warning in dict.fromkeys(warnings):
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
    return response


def _refusal(error: ApiStatusError) -> web.Response:
    response = web.Response(status=error.code, body=_encode(error.document()), headers=_JSON)
    retry = (error.details or {}).get("retryAfterSeconds")
    if retry:
        response.headers["Retry-After"] = str(retry)
    return response
