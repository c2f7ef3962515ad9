"""What the engine learns of claims, from watches and from the answers to writes."""

from typing import cast

from claim_objects import a_claim, an_allocation
from fairlead.apps.run.claim_watches import ClaimWatches
from fairlead.apps.run.served_kinds import Supervise
from fairlead.engine import events
from fairlead.kube.http.client import Client
from fairlead.model.claims import ResourceClaim


class Shown(ClaimWatches):
    """Watches that have shown these claims."""

    def __init__(self, *claims: ResourceClaim) -> None:
        self.fed: list[events.Event] = []
        nothing = cast(Client, None), self.fed.append, cast(Supervise, None)
        super().__init__(*nothing, is_on=False)
        self.claims = {claim.key: claim for claim in claims}

    def get(self, key: str) -> ResourceClaim | None:
        return self.claims.get(key)


def test_the_answer_to_a_write_is_news() -> None:
    answer = a_claim(version="2", allocation=an_allocation("n1", "gpu-0"))
    watches = Shown(a_claim(version="1"))

    watches.written(answer)

    assert watches.fed == [events.ClaimObjectSeen(answer)]


def test_a_late_answer_about_a_claim_that_is_gone_holds_no_devices() -> None:
    answer = a_claim(version="2", allocation=an_allocation("n1", "gpu-0"))
    for watches in (Shown(), Shown(a_claim(uid="another", version="9"))):
        watches.written(answer)

        assert not watches.fed
