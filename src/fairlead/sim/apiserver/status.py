"""Answers that are no object: Status documents, worded as kube-apiserver words them."""

from collections.abc import Iterable
from typing import Any

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver.kinds import Kind

Object = dict[str, Any]


class ApiStatusError(Exception):
    """A request that fails. It becomes the HTTP answer as it stands."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details
        self.list_metadata: Object = {}

    def document(self) -> Object:
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
        }
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with one field."""

    field: str
    reason: str
    message: str

    @property
    def text(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, why: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", f"Required value{': ' + why if why else ''}")


def invalid(field: str, value: Any, why: str) -> Cause:
    return Cause(field, "FieldValueInvalid", f"Invalid value: {show(value)}: {why}")


def forbidden_field(field: str, why: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {show(value)}")


def too_many(field: str, count: int, most: int) -> list[Cause]:
    """One cause, or none."""
    message = f"Too many: {count}: must have at most {most} items"
    return [Cause(field, "FieldValueTooMany", message)] if count > most else []


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    names = ", ".join(f'"{name}"' for name in supported)
    message = f"Unsupported value: {show(value)}: supported values: {names}"
    return Cause(field, "FieldValueNotSupported", message)


def show(value: Any) -> str:
    """A value as Go prints it in validation messages."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        import msgspec

        return msgspec.json.encode(value).decode()
    return str(value)


def _named(kind: Kind, name: str) -> Object:
    details: Object = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    return details


def not_found(kind: Kind, name: str) -> ApiStatusError:
    message = f'{kind.group_resource} "{name}" not found'
    return ApiStatusError(404, "NotFound", message, _named(kind, name))


def already_exists(kind: Kind, name: str) -> ApiStatusError:
    message = f'{kind.group_resource} "{name}" already exists'
    return ApiStatusError(409, "AlreadyExists", message, _named(kind, name))


def generate_name_conflict(kind: Kind, name: str) -> ApiStatusError:
    message = (
        f'{kind.group_resource} "{name}" already exists, the server was not able to generate '
        "a unique name for the object"
    )
    return ApiStatusError(409, "AlreadyExists", message, _named(kind, name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(kind: Kind, name: str, why: str, resource: str = "") -> ApiStatusError:
    resource = resource or kind.group_resource
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    details = _named(kind, name)
    details["kind"] = resource.partition(".")[0]
    return ApiStatusError(409, "Conflict", message, details)


def invalid_object(kind: Kind, name: str, causes: list[Cause]) -> ApiStatusError:
    texts = list(dict.fromkeys(cause.text for cause in causes))
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    group = f".{kind.group}" if kind.group else ""
    details: Object = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.kind
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    message = f'{kind.kind}{group} "{name}" is invalid: {shown}'
    return ApiStatusError(422, "Invalid", message, details)


def bad_request(message: str) -> ApiStatusError:
    return ApiStatusError(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str) -> ApiStatusError:
    target = f'{kind.group_resource} "{name}"' if name else kind.group_resource
    return ApiStatusError(403, "Forbidden", f"{target} is forbidden: {why}", _named(kind, name))


def method_not_allowed() -> ApiStatusError:
    message = "the server does not allow this method on the requested resource"
    return ApiStatusError(405, "MethodNotAllowed", message, {})


def unsupported_media(accepted: Iterable[str]) -> ApiStatusError:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiStatusError(415, "UnsupportedMediaType", message)


def internal(message: str) -> ApiStatusError:
    details = {"causes": [{"message": message}]}
    return ApiStatusError(500, "InternalError", f"Internal error occurred: {message}", details)


def unauthorized() -> ApiStatusError:
    return ApiStatusError(401, "Unauthorized", "Unauthorized")


def too_large_body() -> ApiStatusError:
    message = "Request entity too large: limit is 3145728"
    return ApiStatusError(413, "RequestEntityTooLarge", message)


def expired(message: str) -> ApiStatusError:
    return ApiStatusError(410, "Expired", message)


def too_large_version(asked: int, current: int) -> ApiStatusError:
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiStatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})


def success(code: int = 201, details: Object | None = None) -> Object:
    body: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = details
    if code != 200:
        body["code"] = code
    return body
