"""A variable of a container, with a value or as a reference to an annotation of its pod."""

import msgspec

CUDA, RUNTIME = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"


class _FieldRef(msgspec.Struct, rename="camel", omit_defaults=True):
    api_version: str = ""
    field_path: str = ""


class EnvVarSource(msgspec.Struct, rename="camel", omit_defaults=True):
    field_ref: _FieldRef | None = None


class Variable(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


def from_annotation(key: str) -> EnvVarSource:
    # The version is explicit: the API server adds it, and our own field would not be recognised.
    return EnvVarSource(_FieldRef("v1", f"metadata.annotations['{key}']"))
