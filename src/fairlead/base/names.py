"""What names, label keys and label values may look like, with the messages of kube-apiserver."""

import re
from functools import lru_cache

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def subdomain_problems(name: str) -> list[str]:
    found = ["must be no more than 253 characters"] if len(name) > 253 else []
    return found if _SUBDOMAIN.fullmatch(name) else [*found, _SUBDOMAIN_TEXT]


@lru_cache(maxsize=32768)
def is_subdomain(name: str) -> bool:
    """Whether it is a DNS subdomain as Kubernetes has it, like the name of a node."""
    return not subdomain_problems(name)


def label_problems(name: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    if _LABEL.fullmatch(name):
        return found
    return [*found, "must not contain dots" if _SUBDOMAIN.fullmatch(name) else _LABEL_TEXT]


def path_segment_problems(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in name]


@lru_cache(maxsize=8192)
def label_name_problems(key: str) -> list[str]:
    """What is wrong with a label or annotation key (`[prefix/]name`)."""
    prefix, slash, name = key.rpartition("/")
    found: list[str] = []
    if slash:
        if not prefix:
            found.append("prefix part must be non-empty")
        elif "/" in prefix:
            return [_QUALIFIED_TEXT.replace("name part", "a valid label key") + _PREFIX_TEXT]
        else:
            found += [f"prefix part {problem}" for problem in subdomain_problems(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _QUALIFIED.fullmatch(name):
        found.append(_QUALIFIED_TEXT)
    return found


_PREFIX_TEXT = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


@lru_cache(maxsize=8192)
def label_value_problems(value: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(value.encode()) > 63 else []
    return found if _VALUE.fullmatch(value) else [*found, _VALUE_TEXT]


def config_key_problems(key: str) -> list[str]:
    if _CONFIG_KEY.fullmatch(key) and key not in (".", ".."):
        return []
    return [_CONFIG_KEY_TEXT]


_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',"
    "  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
