"""Rules for ObjectMeta: names, labels, annotations, finalizers, owners."""

from collections.abc import Callable
from typing import Any

from fairlead.base.names import (
    label_name_problems,
    label_value_problems,
    subdomain_problems,
)
from fairlead.sim.apiserver.status import Cause, forbidden_field, invalid, required

Object = dict[str, Any]
TOTAL_ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def validate_metadata(meta: Object, name_problems: Callable[[str], list[str]]) -> list[Cause]:
    causes = _validate_name(meta, name_problems)
    causes += validate_annotations(meta.get("annotations") or {})
    causes += validate_labels(meta.get("labels") or {}, "metadata.labels")
    causes += _validate_owners(meta.get("ownerReferences") or [])
    return causes + _validate_finalizers(meta.get("finalizers") or [])


def _validate_name(meta: Object, name_problems: Callable[[str], list[str]]) -> list[Cause]:
    prefix = meta.get("generateName")
    causes = []
    if prefix:
        shown = prefix.removesuffix("-") if prefix[-1:] == "-" else prefix
        problems = name_problems(shown or "a")
        causes += [invalid("metadata.generateName", prefix, why) for why in problems]
    name = meta.get("name", "")
    if not name:
        return [*causes, required("metadata.name", "name or generateName is required")]
    return causes + [invalid("metadata.name", name, why) for why in name_problems(name)]


def validate_annotations(annotations: Object) -> list[Cause]:
    path = "metadata.annotations"
    causes = [
        invalid(path, key, why) for key in annotations for why in label_name_problems(key.lower())
    ]
    total = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if total > TOTAL_ANNOTATIONS_LIMIT:
        why = f"may not be more than {TOTAL_ANNOTATIONS_LIMIT} bytes"
        causes.append(Cause(path, "FieldValueTooLong", f"Too long: {why}"))
    return causes


def validate_labels(labels: Object, path: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += [invalid(path, key, why) for why in label_name_problems(key)]
        causes += [invalid(path, value, why) for why in label_value_problems(value)]
    return causes


def _validate_owners(owners: list[Object]) -> list[Cause]:
    causes = []
    path = "metadata.ownerReferences"
    for owner in owners:
        causes += [
            invalid(f"{path}.{name}", "", why)
            for name, why in _OWNER_NEEDS.items()
            if not owner.get(name)
        ]
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        causes.append(
            invalid(
                "metadata.ownerReferences",
                owners,
                "Only one reference can have Controller set to true",
            )
        )
    return causes


_OWNER_NEEDS = {
    "apiVersion": "version must not be empty",
    "kind": "must not be empty",
    "name": "must not be empty",
    "uid": "must not be empty",
}


def _validate_finalizers(finalizers: list[str]) -> list[Cause]:
    causes = []
    for index, name in enumerate(finalizers):
        if name in _STANDARD_FINALIZERS:
            continue
        prefix, slash, _ = name.rpartition("/")
        problems = label_name_problems(name)
        if not problems and slash and subdomain_problems(prefix):
            problems = subdomain_problems(prefix)
        causes += [invalid("metadata.finalizers", name, why) for why in problems]
        if not problems and not slash:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(invalid(f"metadata.finalizers[{index}]", name, why))
    return causes


def validate_metadata_update(new: Object, old: Object) -> list[Cause]:
    """What no update may do: rename, take over an identity, or add finalizers to the dying."""
    causes = [
        invalid(f"metadata.{name}", new.get(name), "field is immutable")
        for name in ("name", "namespace", "uid", "creationTimestamp")
        if new.get(name) != old.get(name)
    ]
    if old.get("deletionTimestamp"):
        added = [
            name
            for name in new.get("finalizers") or []
            if name not in (old.get("finalizers") or [])
        ]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            why = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(forbidden_field("metadata.finalizers", why))
    return causes
