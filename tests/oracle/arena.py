"""Two API servers in the same state, kube-scheduler at work on one and Fairlead on the other.

    with Arena.start(assets, folder) as arena:
        result = arena.run(generate(17))

Each probe is created on both sides, both answers are awaited and compared, and the probe goes
before the next one comes. An answer that differs is asked for again, since a scheduler may have
spoken before it had heard of everything; what still differs then is a difference. Nodes are written
once more before that: kube-scheduler counts the nodes that have an image when it copies a node for
an attempt, and copies it again only after the node has changed.

A probe with resource claims has claims of its own at each attempt. Where both sides choose
different nodes, Fairlead is asked once more for the node of kube-scheduler, to compare devices.
"""

import asyncio
import contextlib
import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairlead.placement.explain import Explanation
from fairlead.sim.controlplane import ControlPlane
from fairleads import fairlead
from oracle import claims_asked, exceptions
from oracle.answers import Answer, answer, answer_with_claims, cleared, made_room, victims
from oracle.api import Api, together
from oracle.case import Case, Object, copied, key_of, nominated, pinned, uses_claims, waits
from oracle.compare import Difference, difference
from oracle.configurations import as_file, configuration
from oracle.judge import Judge
from oracle.kinds import BY_NAME, KINDS

#: They would change what a case says, or need controllers that are not there.
_NO_ADMISSION = (
    "ServiceAccount", "TaintNodesByCondition", "Priority", "StorageObjectInUseProtection",
    "RuntimeClass",
)  # fmt: skip
_ANSWER_S = 60.0
#: Before the second attempt; each further one waits twice as long.
_PATIENCE_S = 0.5
_QUIET_S = 0.25
_ATTEMPTS = 5
#: The minor version that serves DeviceTaintRules by default.
_TAINT_RULES_SINCE = 37
_COUNTED = re.compile(r"^0/(\d+) nodes")

_numbers = itertools.count()


@dataclass(frozen=True)
class Probed:
    """One probe and what both sides made of it."""

    probe: Object
    theirs: Answer
    ours: Answer
    judged: Explanation
    difference: Difference | None = None
    #: Name of the exception that accounts for the difference.
    exception: str = ""
    #: How often it was asked.
    attempts: int = 1


@dataclass(frozen=True)
class Result:
    case: Case
    probed: list[Probed] = field(default_factory=list)

    @property
    def differences(self) -> list[Difference]:
        return [p.difference for p in self.probed if p.difference and not p.exception]


class Arena:
    """Runs cases, one at a time."""

    def __init__(self, theirs: Path, ours: Path, our_log: Path, minor: int) -> None:
        self.minor = minor
        self._runner = asyncio.Runner()
        self._theirs, self._ours = self._runner.run(_connected((theirs, None), (ours, our_log)))

    @staticmethod
    @contextlib.contextmanager
    def start(assets: Path, folder: Path) -> "Iterator[Arena]":
        """Ends both control planes, and all on them, with the block."""
        with contextlib.ExitStack() as stack:
            with ThreadPoolExecutor() as pool:
                sides = [folder / "theirs", folder / "ours"]
                planes = list(pool.map(lambda side: _start_plane(assets, side), sides))
            theirs, ours = (stack.enter_context(plane) for plane in planes)
            for plane in (theirs, ours):
                stack.enter_context(plane.start_controller_manager(["resourceclaim-controller"]))
            stack.enter_context(theirs.start_kube_scheduler(configuration()))
            file = folder / "configuration.yaml"
            file.write_text(as_file())
            served = fairlead(ours, "--config", str(file), env={"LOG_LEVEL": "debug"})
            running = stack.enter_context(served)
            minor = int(re.sub(r"\D", "", theirs.api("GET", "/version")[1]["minor"]))
            arena = Arena(theirs.kubeconfig_for(), ours.kubeconfig_for(), running.log, minor)
            stack.callback(arena.close)
            yield arena

    def run(self, case: Case, attempts: int = _ATTEMPTS) -> Result:
        """What both sides made of every probe. Raises `api.Refusal` if the case is not valid."""
        return self._runner.run(self._run(case, attempts))

    def close(self) -> None:
        self._runner.run(self._disconnect())
        self._runner.close()

    # -- inside ------------------------------------------------------------------------------

    @property
    def _sides(self) -> tuple[Api, Api]:
        return self._theirs, self._ours

    async def _disconnect(self) -> None:
        await together(*(side.close() for side in self._sides))

    async def _run(self, case: Case, attempts: int) -> Result:
        result = Result(case)
        async with self._theirs.following(), self._ours.following():
            try:
                judge = await self._load(case)
                for probe in case.probes:
                    result.probed.append(await self._try(case, probe, judge, attempts))
            finally:
                await self._clear(case)
                await together(*(_until_counted(side, 0) for side in self._sides))
        return result

    async def _clear(self, case: Case) -> None:
        used = {"Pod", "Node", *(f["kind"] for f in case.objects if self._is_served(f))}
        kinds = [kind for kind in KINDS if kind.name in used]
        kept = [found for found in case.objects if "finalizers" in found["metadata"]]
        await together(*(side.clear(kinds, kept) for side in self._sides))

    async def _load(self, case: Case) -> Judge:
        """Both sides in the same state, and known to both schedulers."""
        waiting = [pod for pod in case.of_kind("Pod") if waits(pod)]
        asked = claims_asked.named_by_probes(case)
        there = [
            found
            for found in case.objects
            if found not in waiting
            and not (_is_claim(found) and key_of(found) in asked)
            and self._is_served(found)
        ]
        _, ours = await together(*(side.load(there) for side in self._sides))
        await self._until_known(case)
        if waiting:
            told = (side.wait_to_be_nominated(waiting) for side in self._sides)
            ours += (await together(*told))[1]
            await self._until_known(case)
        namespaces = ({**n, "kind": "Namespace"} for n in await self._ours.namespaces())
        return Judge([*ours, *namespaces], self.minor)

    def _is_served(self, thing: Object) -> bool:
        return thing["kind"] != "DeviceTaintRule" or self.minor >= _TAINT_RULES_SINCE

    async def _until_known(self, case: Case) -> None:
        nodes = len(case.of_kind("Node"))
        await together(*(_until_counted(side, nodes) for side in self._sides))

    async def _try(self, case: Case, probe: Object, judge: Judge, attempts: int) -> Probed:
        """The answers, when they agree or have been given time to."""
        probed = await self._ask(case, probe, judge, 1)
        for attempt in range(2, attempts + 1):
            if probed.difference is None or probed.exception:
                break
            await together(*(side.touch(case.of_kind("Node")) for side in self._sides))
            await asyncio.sleep(_PATIENCE_S * 2 ** (attempt - 2))
            probed = await self._ask(case, probe, judge, attempt)
        return probed

    async def _ask(self, case: Case, probe: Object, judge: Judge, attempt: int) -> Probed:
        if uses_claims(probe, case):
            return await self._ask_for_claims(case, probe, judge, attempt)
        named = copied(probe)
        named["metadata"]["name"] = f"probe-{next(_numbers)}"
        asked = await together(*(_create(side, named) for side in self._sides))
        others = case.of_kind("Pod")
        answers: list[Answer] = []
        try:
            answers += await together(*(_answer(side, named, others) for side in self._sides))
        finally:
            await together(*(side.delete(named) for side in self._sides))
            for side, told in zip(self._sides, answers, strict=False):
                await _put_back(side, told, case)
        judged = judge.explain(asked[1])
        found = difference(case, probe, *answers, judged)
        excused = exceptions.excuse(asked[1], answers[0], judge, self.minor) if found else ""
        return Probed(probe, *answers, judged, found, excused, attempt)

    async def _ask_for_claims(
        self, case: Case, probe: Object, judge: Judge, attempt: int
    ) -> Probed:  # fmt: skip
        asking = [_Claiming(side, case, probe) for side in self._sides]
        theirs, ours = await together(*(each.ask() for each in asking))
        if theirs.node and ours.node and theirs.node != ours.node:
            there = await _Claiming(self._ours, case, pinned(probe, theirs.node)).ask()
            ours = replace(ours, claims=there.claims)
        judged, failures = judge.explain_claims(asking[1].asked, asking[1].before)
        told = {claims_asked.in_plain_words(asking[1].names, each) for each in failures}
        found = difference(case, probe, theirs, ours, judged, told)
        excused = ""
        if found:
            excused = exceptions.excuse_claims(case, probe, theirs, ours, self.minor)
        return Probed(probe, theirs, ours, judged, found, excused, attempt)


class _Claiming:
    """One attempt of a probe that uses claims, on one side."""

    def __init__(self, side: Api, case: Case, probe: Object) -> None:
        self._side, self._case, self._probe = side, case, probe
        #: The pod and its claims, before it was tried.
        self.asked: Object = {}
        self.before: list[Object] = []
        self.names: dict[str, str] = {}

    async def ask(self) -> Answer:
        side, number = self._side, next(_numbers)
        named = claims_asked.renamed(self._probe, number)
        key = key_of(named)
        try:
            await claims_asked.make(side, self._case, self._probe, number)
            self.asked = await side.create(named)
            found = await side.until(lambda: answer_with_claims(side, key), _ANSWER_S) or Answer()
            self.before = claims_asked.before(side, self._case, self._probe, number, key)
            self.names = claims_asked.names_of(side, key)
            told = side.pods[key]["status"].get("resourceClaimStatuses", [])
            self.asked["status"]["resourceClaimStatuses"] = told
            if found.node:
                return replace(found, claims=await claims_asked.written(side, key))
            condition, event = map(self.in_plain_words, (found.condition, found.event))
            return replace(found, condition=condition, event=event)
        finally:
            await claims_asked.remove(side, named)

    def in_plain_words(self, told: Object) -> Object:
        texts = {name: value for name, value in told.items() if isinstance(value, str)}
        plain = claims_asked.in_plain_words
        return told | {name: plain(self.names, value) for name, value in texts.items()}


async def _connected(*sides: tuple[Path, Path | None]) -> list[Api]:
    return [Api(kubeconfig, log) for kubeconfig, log in sides]


def _start_plane(assets: Path, folder: Path) -> ControlPlane:
    folder.mkdir(parents=True)
    return ControlPlane.start(assets, folder, disable_admission=_NO_ADMISSION)


def _is_claim(thing: Object) -> bool:
    return bool(thing["kind"] == "ResourceClaim")


async def _create(side: Api, probe: Object) -> Object:
    return await (side.create_nominated(probe) if nominated(probe) else side.create(probe))


async def _answer(side: Api, pod: Object, others: list[Object]) -> Answer:
    key = key_of(pod)
    found: Any = await side.until(lambda: answer(side, key, nominated(pod)), _ANSWER_S)
    if found and found.nominated:
        await side.quiet(_QUIET_S)  # victims are told to go one after another
        found = answer(side, key, nominated(pod)) or found
    gone = victims(side, others)
    if found and found.node and gone:
        found = made_room(side, key, found.node) or found
    return replace(found or Answer(), victims=gone, cleared=cleared(side, others))


async def _put_back(side: Api, told: Answer, case: Case) -> None:
    """Undoes what the scheduler did beside binding."""
    if told.waits and case.of_kind("PersistentVolumeClaim"):
        kinds = [BY_NAME["PersistentVolumeClaim"], BY_NAME["PersistentVolume"]]
        things = [found for kind in kinds for found in case.of_kind(kind.name)]
        await side.clear(kinds, [found for found in things if "finalizers" in found["metadata"]])
        await together(*(side.create(found) for found in things))
    for pod in case.of_kind("Pod"):
        if key_of(pod) in told.victims:
            await side.delete(pod)
            await side.create(pod)
        elif key_of(pod) in told.cleared:
            await side.nominate(pod)


async def _until_counted(side: Api, nodes: int) -> None:
    """Returns when the scheduler says of a pod that fits nowhere that it saw this many nodes."""
    async with asyncio.timeout(90.0):
        while await _count(side) != nodes:
            await asyncio.sleep(0.02)


async def _count(side: Api) -> int:
    pod = {
        "kind": "Pod",
        "metadata": {"name": f"count-{next(_numbers)}", "namespace": "team-a"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "x"}],
            "nodeSelector": {"oracle": "nobody"},
        },
    }
    await side.create(pod)
    try:
        told = await _answer(side, pod, [])
    finally:
        await side.delete(pod)
    counted = _COUNTED.match(told.message)
    return int(counted[1]) if counted else 0 if told.condition else -1
