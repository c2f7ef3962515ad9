"""The extender without its server: it watches like a scheduler, and acts only on requests."""

import asyncio

import structlog

from fairlead.apps.extender.refusal_delay import RefusalDelay
from fairlead.apps.run.options import SchedulerOptions
from fairlead.apps.run.scheduler import Scheduler
from fairlead.engine import events, instructions
from fairlead.kube.codec import decode_pod
from fairlead.kube.errors import ApiError
from fairlead.kube.extender.extender_handler import ExtenderHandler
from fairlead.kube.extender.wire import ExtenderBindingArgs
from fairlead.kube.failures import Failures
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import pod_path
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.leadership.election import Terms
from fairlead.kube.nesting import of_any_depth
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Pod
from fairlead.placement.profile import Profile
from fairlead.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)

#: kube-scheduler's usual timeout is 5 s; the answer comes before it.
_PATIENCE_S = 4.0


class ExtenderDriver:
    """Serves no scheduler name, so it binds only what kube-scheduler asks it to bind."""

    def __init__(
        self,
        client: Client,
        profile: Profile,
        *,
        metrics: Metrics,
        terms: Terms | None = None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._client = client
        self._patience_s = patience_s
        self._scheduler = Scheduler(
            client, {}, SchedulerOptions(terms=terms, extender_profile=profile), metrics=metrics,
            on_event=self._on_event, on_instruction=self._on_instruction,
        )  # fmt: skip
        self.handler = ExtenderHandler(self._scheduler.engine)
        self.refusal_delay = RefusalDelay()
        #: What will have become of binds under way, by uid: a sentence, empty if all is well.
        self._outcomes: dict[str, asyncio.Future[str]] = {}

    @property
    def failures(self) -> Failures:
        return self._scheduler.failures

    async def run(self) -> None:
        await self._scheduler.run()

    def unready_because(self) -> str:
        """Why questions cannot be answered right now; empty when they can."""
        return self._scheduler.unready_because() or self._scheduler.standby

    async def bind(self, asked: ExtenderBindingArgs) -> str:
        """Writes node and GPUs in one Binding. Returns what went wrong; nothing if it is bound."""
        pod = await self._pod(asked)
        if isinstance(pod, str):
            return pod
        outcome = self._outcomes.get(pod.uid)
        held = self._scheduler.engine.cluster.holdings.get(pod.uid)
        if held is not None and held.node == asked.node and outcome is None:
            return ""  # our last answer was lost
        if held is None and outcome is None:
            outcome = self._outcomes[pod.uid] = asyncio.get_running_loop().create_future()
            self._scheduler.choose(pod, asked.node)
        if outcome is None or (held is not None and held.node != asked.node):
            return f"{pod.key} is on {held.node if held else 'a node'}, or is being bound there"
        return await self._awaited(outcome, pod)

    async def _awaited(self, outcome: asyncio.Future[str], pod: Pod) -> str:
        done, _ = await asyncio.wait([outcome], timeout=self._patience_s)
        if done:
            return outcome.result()
        return f"the outcome of the bind of {pod.key} is not known yet; its GPUs stay reserved"

    async def _pod(self, asked: ExtenderBindingArgs) -> Pod | str:
        """The pod, read from the API server if our watch has not shown it; else what is wrong."""
        seen = self._scheduler.pod(asked.key)
        if seen is not None and seen.uid == asked.uid:
            return seen
        pod = await self._read_pod(asked)
        if isinstance(pod, Pod) and pod.uid != asked.uid:
            return f"{asked.key} is a different pod now: its uid is {pod.uid}, not {asked.uid}"
        return pod

    async def _read_pod(self, asked: ExtenderBindingArgs) -> Pod | str:
        try:
            path = pod_path(asked.namespace, asked.name)
            reply = await self._client.request("GET", path, timeout_s=self._patience_s)
            if reply.status != 200:
                return f"{asked.key} cannot be read: {reply.message}"
            behaviour = self._scheduler.engine.cluster.behaviour
            return of_any_depth(lambda raw: decode_pod(raw, behaviour))(reply.body)
        except (ApiError, FairleadError, ValueError, *UNREADABLE) as error:
            return f"{asked.key} cannot be read: {error}"

    def _on_event(self, event: events.Event) -> None:
        self.refusal_delay.note(event)
        if isinstance(event, events.BindDone):
            self._settle(event.uid, "")
        elif isinstance(event, events.BindFailed):
            self._settle(event.uid, event.message)

    def _on_instruction(self, instruction: instructions.Instruction) -> None:
        if isinstance(instruction, instructions.Decline):
            self._settle(instruction.pod.uid, instruction.message)

    def _settle(self, uid: str, problem: str) -> None:
        outcome = self._outcomes.pop(uid, None)
        if outcome is not None:
            outcome.set_result(problem)
