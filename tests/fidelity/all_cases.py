"""Every request script."""

from fidelity import (
    cases_claims,
    cases_kinds,
    cases_lists,
    cases_objects,
    cases_patches,
    cases_pods,
    cases_storage,
    cases_watches,
)
from fidelity.script import Case

ALL: list[Case] = [
    *cases_objects.CASES, *cases_patches.CASES, *cases_pods.CASES, *cases_lists.CASES,
    *cases_watches.CASES, *cases_kinds.CASES, *cases_storage.CASES,
    *cases_claims.CASES,
]  # fmt: skip
