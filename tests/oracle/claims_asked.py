"""The resource claims of a probe: made for each attempt, read when it is answered, and removed.

Each attempt has claims of its own. A scheduler that has seen them has seen that those of earlier
attempts are gone, since it reads both in one watch.
"""

import json
from collections.abc import Iterator

from fairlead.model.quantities import exact
from oracle.api import Api, Key, Refusal, together
from oracle.case import Case, Object, copied, key_of

_WRITTEN_S = 60.0


def named_by_probes(case: Case) -> set[Key]:
    """Claims that are not there before a probe asks."""
    return {key for probe in case.probes for key in _named(probe)}


def amounts(case: Case, probe: Object) -> Iterator[str]:
    """Of capacity, that the claims and templates of a probe ask for."""
    uses = probe["spec"].get("resourceClaims", ())
    names = {name for use in uses for field, name in use.items() if field != "name"}
    kinds = ("ResourceClaim", "ResourceClaimTemplate")
    for each in (e for e in case.objects if e["kind"] in kinds and e["metadata"]["name"] in names):
        for request in each["spec"].get("spec", each["spec"])["devices"].get("requests", ()):
            for need in (request.get("exactly", {}), *request.get("firstAvailable", ())):
                yield from need.get("capacity", {}).get("requests", {}).values()


def renamed(probe: Object, number: int) -> Object:
    """The probe with names of its own for itself and its claims."""
    found: Object = copied(probe)
    found["metadata"]["name"] = f"probe-{number}"
    for use in found["spec"].get("resourceClaims", ()):
        if "resourceClaimName" in use:
            use["resourceClaimName"] += f"-{number}"
    return found


async def make(side: Api, case: Case, probe: Object, number: int) -> None:
    """The claims that the probe names, as the case has them."""
    there = {key_of(claim): claim for claim in case.of_kind("ResourceClaim")}
    for key in dict.fromkeys(_named(probe)):
        if key not in there:
            raise Refusal(f"the case has no claim {'/'.join(key)}")
        claim = copied(there[key])
        claim["metadata"]["name"] += f"-{number}"
        await side.create(claim)


def before(side: Api, case: Case, probe: Object, number: int, key: Key) -> list[Object]:
    """The claims of the probe as they were before it was tried, as the server has them."""
    own = {(space, f"{name}-{number}"): (space, name) for space, name in _named(probe)}
    told = {key_of(claim): claim.get("status", {}) for claim in case.of_kind("ResourceClaim")}
    found = [side.claims[each] for each in _by_entry(side, key).values() if each in side.claims]
    names = [own.get(key_of(claim), ("", "")) for claim in found]
    return [{**claim, "kind": "ResourceClaim", "status": told.get(name, {})}
            for claim, name in zip(found, names, strict=True)]  # fmt: skip


# -- what became of them -------------------------------------------------------------------------


async def written(side: Api, key: Key) -> tuple[str, ...]:
    """Of a pod that was placed: what is written about each claim, but for what is drawn by lot."""
    await side.until(lambda: _all_reserved(side, key), _WRITTEN_S)
    names = names_of(side, key)
    return tuple(
        in_plain_words(names, json.dumps([entry, *_shown(side.claims[each])], sort_keys=True))
        for entry, each in _all(side, key)
        if each in side.claims
    )


def names_of(side: Api, key: Key) -> dict[str, str]:
    """Names of this attempt, and what they are called on both sides."""
    claims = {name: f"<{entry}>" for entry, (_, name) in _all(side, key) if name}
    return {**claims, key[1]: "<probe>"}


def in_plain_words(names: dict[str, str], text: str) -> str:
    for name, entry in names.items():
        text = text.replace(name, entry)
    return text


def waits_for_devices(side: Api, key: Key) -> bool:
    """Whether all is written, and a driver has to prepare devices before the bind."""
    claims = [side.claims.get(each, {}) for _, each in _all(side, key)]
    conditions = [result.get("bindingConditions") for claim in claims for result in _results(claim)]
    return bool(claims) and _all_reserved(side, key) and any(conditions)


async def remove(side: Api, probe: Object) -> None:
    """The pod and its claims, and those that were made for it."""
    key = key_of(probe)
    uid = side.pods.get(key, {}).get("metadata", {}).get("uid")
    named = {each for _, each in _all(side, key)}
    await side.delete(probe)

    def left() -> list[Object]:
        return [claim for each, claim in side.claims.items() if each in named or _owns(uid, claim)]

    while claims := left():
        await together(*(side.remove(claim, "ResourceClaim") for claim in claims))
        await side.until(lambda: not left(), 1.0)


def _owns(uid: str | None, claim: Object) -> bool:
    owners = claim["metadata"].get("ownerReferences", ())
    return any(owner["uid"] == uid for owner in owners)


def _named(pod: Object) -> Iterator[Key]:
    for use in pod["spec"].get("resourceClaims", ()):
        if "resourceClaimName" in use:
            yield pod["metadata"]["namespace"], use["resourceClaimName"]


def _by_entry(side: Api, key: Key) -> dict[str, Key]:
    """The claims of the entries of a pod, by the name of the entry."""
    pod = side.pods.get(key, {})
    told = pod.get("status", {}).get("resourceClaimStatuses", ())
    made = {each["name"]: each.get("resourceClaimName", "") for each in told}
    uses = pod.get("spec", {}).get("resourceClaims", ())
    return {
        use["name"]: (key[0], use.get("resourceClaimName") or made.get(use["name"], ""))
        for use in uses
    }


def _all(side: Api, key: Key) -> list[tuple[str, Key]]:
    """The same with the claim that was made for extended resources."""
    status = side.pods.get(key, {}).get("status", {})
    special = status.get("extendedResourceClaimStatus", {}).get("resourceClaimName")
    more = [("extended", (key[0], special))] if special else []
    return [*_by_entry(side, key).items(), *more]


def _all_reserved(side: Api, key: Key) -> bool:
    uid = side.pods.get(key, {}).get("metadata", {}).get("uid")
    claims = [side.claims.get(each, {}) for _, each in _all(side, key)]
    return all(uid in [user["uid"] for user in _status(claim).get("reservedFor", ())]
               for claim in claims)  # fmt: skip


def _shown(claim: Object) -> tuple[Object, list[str], object, object]:
    allocation = copied(_status(claim).get("allocation", {}))
    allocation.pop("allocationTimestamp", None)
    for result in allocation.get("devices", {}).get("results", ()):
        if "shareID" in result:
            result["shareID"] = "share"
        # As values: kube-scheduler keeps the notation of the request or of the policy.
        for name, text in result.get("consumedCapacity", {}).items():
            result["consumedCapacity"][name] = str(exact(text))
    users = [user["name"] for user in _status(claim).get("reservedFor", ())]
    spec = claim["spec"] if claim["metadata"].get("generateName") else None
    return allocation, users, spec, claim["metadata"].get("finalizers")


def _results(claim: Object) -> list[Object]:
    found: list[Object] = _status(claim).get("allocation", {}).get("devices", {}).get("results", [])
    return found


def _status(claim: Object) -> Object:
    found: Object = claim.get("status", {})
    return found
