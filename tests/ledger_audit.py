"""The auditor of the device ledger: everything again, slowly, from nodes and holdings alone.

It shares no arithmetic with the ledger, so that the two cannot be wrong in the same way.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, Isolation


@dataclass
class Account:
    """One GPU, and every use of it by the pods on its node, each with its dialect."""

    gpu: Gpu
    uses: list[tuple[GpuUse, str]] = field(default_factory=list)
    #: Whole uses by pods whose workload has the GPU by its map already: they take nothing more.
    sharing: list[tuple[GpuUse, str]] = field(default_factory=list)
    workloads: set[str] = field(default_factory=set)
    #: Uses that are MPS clients, and shares that are none.
    clients: int = 0
    advisory: int = 0

    def add(self, use: GpuUse, grant: Grant) -> None:
        workload = grant.member.workload if grant.member and use.whole and not use.slices else ""
        shared = bool(workload) and workload in self.workloads
        self.workloads |= {workload} if workload else set()
        (self.sharing if shared else self.uses).append((use, grant.dialect))
        is_client = grant.isolation is Isolation.MPS
        self.clients += is_client
        self.advisory += not (is_client or use.whole or use.slices)

    @property
    def users(self) -> int:
        return len(self.uses) + len(self.sharing)

    @property
    def plain(self) -> list[GpuUse]:
        return [use for use, _ in self.uses if not use.slices]

    @property
    def slices(self) -> list[int]:
        """Every memory slice in use, as often as it was given."""
        return [n for use, _ in self.uses if use.slices
                for n in range(use.start, use.start + use.slices)]  # fmt: skip

    @property
    def wholes(self) -> int:
        return sum(use.whole for use in self.plain)

    @property
    def milli_free(self) -> int:
        return 1000 - sum(1000 if use.whole else use.milli for use in self.plain)

    @property
    def memory_free(self) -> int:
        all_of_it = self.gpu.memory_mib
        return all_of_it - sum(all_of_it if use.whole else use.memory_mib for use in self.plain)

    def first_fit_memory(self, first_fit: Iterable[str]) -> int:
        spoken = set(first_fit)
        return sum(use.memory_mib for use, dialect in [*self.uses, *self.sharing]
                   if dialect in spoken and not use.slices)  # fmt: skip

    def complaint(self, limit_milli: int = 1000) -> str:
        """What is wrong with how the GPU was sold, or nothing.

        Shares of compute may add up to the limit; memory never to more than there is.
        """
        busy = [use for use in self.plain if use.whole or use.milli or use.memory_mib]
        if self.wholes and len(self.uses) > 1:
            return "somebody has it whole, and others have it too"
        if self.milli_free < 1000 - limit_milli or self.memory_free < 0:
            return f"{self.milli_free} thousandths and {self.memory_free} MiB are left"
        if len(self.slices) != len(set(self.slices)):
            return "slices overlap"
        if self.slices and busy:
            return "it is cut, and somebody has a part that is no slice"
        if self.clients and self.advisory:
            return "clients of MPS and shares that it does not limit"
        if self.advisory and self.gpu.mps and not self.slices:
            return "a share that its daemon does not limit"
        if self.clients > self.gpu.mps and not self.slices:
            return f"{self.clients} clients, and its daemon serves {self.gpu.mps}"
        if 0 < self.gpu.sharers < len(self.plain):
            return f"more than {self.gpu.sharers} pods"
        return ""


@dataclass
class Books:
    """The GPUs of one node, and how many GPUs are held of which nobody knows which."""

    accounts: list[Account]
    unknown: int
    pending: int


def books(inventory: Inventory | None, grants: Iterable[Grant]) -> Books:
    """What the node's books must say if these are the pods on it."""
    gpus = inventory.gpus if inventory and inventory.named else ()
    accounts = [Account(gpu) for gpu in gpus]
    by_name = {str(account.gpu.index): account for account in accounts}
    by_name |= {account.gpu.uuid: account for account in accounts}
    unknown = pending = 0
    for grant in grants:
        pending += grant.pending
        for use in grant.uses:
            if use.uuid in by_name:
                by_name[use.uuid].add(use, grant)
            else:
                unknown += 1
    return Books(accounts, unknown, pending)


def books_of(cluster: Cluster, name: str) -> Books:
    node = cluster.node_named(name)
    assert node is not None
    return books(node.inventory, grants_of(cluster, name))


def grants_of(cluster: Cluster, name: str) -> list[Grant]:
    """Of pods that are there, and of those that vanished and whose processes may go on."""
    here = [one for one in cluster.holdings.values() if one.node == name]
    return grants_among(here) + [kept.grant for kept in cluster.releasing.on(name)]


def grants_among(here: Iterable[Holding]) -> list[Grant]:
    """What these pods have: their own, and what they share with others only once."""
    own, shared = [], {}
    for one in here:
        own += [one.grant] if one.grant else []
        for holder, grant in one.shared:
            assert shared.setdefault(holder, grant) == grant, "a holder with two grants"
    return own + list(shared.values())


def audited(cluster: Cluster, name: str) -> dict[str, object]:
    """What the ledger must say about the node, in the words of `told`."""
    node = cluster.node_named(name)
    assert node is not None
    gpus = node.inventory if node.inventory and node.inventory.gpus else None
    found = books_of(cluster, name)
    first_fit = gpus.first_fit if gpus else ()
    by_kind: dict[int, int] = {}
    for grant in grants_of(cluster, name):
        whole = bool(grant.uses) and grant.uses[0].whole
        kind = min(len(grant.uses), 16) if whole else 0
        by_kind[kind] = by_kind.get(kind, 0) + 1
    return {
        "known": bool(gpus and gpus.named),
        "elsewhere": found.unknown,
        "spare": sum(map(_is_unused, found.accounts)) - found.unknown,
        "pending": found.pending,
        "kinds": by_kind,
        "gpus": [
            {
                "there": account.gpu.healthy,
                "model": account.gpu.model,
                "memory": account.gpu.memory_mib,
                "milli_free": account.milli_free,
                "memory_free": account.memory_free,
                "users": account.users,
                "wholes": account.wholes,
                "slices": sorted(set(account.slices)),
                "sharers": account.gpu.sharers,
                "mps": (account.clients, account.gpu.mps),
                "first_fit_memory": account.first_fit_memory(first_fit),
                "unused": _is_unused(account),
            }
            for account in found.accounts
        ],
    }


def told(cluster: Cluster, name: str) -> dict[str, object]:
    """What the ledger says about the node, in words that do not depend on order of arrival."""
    devices, row = cluster.columns.devices, cluster.row_of[name]
    models = {code: model for model, code in devices.codes.items()}
    used = int(devices.known[row]) * len(devices.gpus(row))
    assert not devices.there[row, used:].any()
    assert not devices.users[row, used:].any()
    return {
        "known": bool(devices.known[row]),
        "elsewhere": int(devices.elsewhere[row]),
        "spare": int(devices.spare[row]),
        "pending": int(devices.pending[row]),
        "kinds": {kind: int(n) for kind, n in enumerate(devices.kinds[row]) if n},
        "gpus": [
            {
                "there": bool(devices.there[row, slot]),
                "model": models[int(devices.model[row, slot])],
                "memory": int(devices.memory[row, slot]),
                "milli_free": int(devices.milli_free[row, slot]),
                "memory_free": int(devices.memory_free[row, slot]),
                "users": int(devices.users[row, slot]),
                "wholes": int(devices.wholes[row, slot]),
                "slices": [n for n in range(64) if int(devices.slices_used[row, slot]) >> n & 1],
                "sharers": int(devices.sharers[row, slot]),
                "mps": (int(devices.mps_users[row, slot]), int(devices.mps_limit[row, slot])),
                "first_fit_memory": int(devices.first_fit_memory[row, slot]),
                "unused": bool(devices.unused[row, slot]),
            }
            for slot in range(used)
        ],
    }


def could_serve(
    ask: GpuRequest, inventory: Inventory | None, grants: Iterable[Grant], limit_milli: int = 1000
) -> bool:
    """Whether the GPUs would do for a pod if these were the others on the node.

    Nothing is said against GPUs that are only counted (a list without any GPU tells of none),
    slices, and dialects whose plugin picks.
    """
    if not inventory or not inventory.gpus or not inventory.named:
        return True
    if ask.sliced or ask.dialect in inventory.first_fit:
        return True
    found = books(inventory, grants)
    wanted = [a for a in found.accounts if not ask.models or a.gpu.model in ask.models]
    unused = [a for a in found.accounts if _is_unused(a)]
    fresh = sum(_is_unused(a) and _has_room(a, ask, limit_milli) for a in wanted)
    fresh = min(fresh, max(0, len(unused) - found.unknown))
    joined = [a for a in wanted if a.uses and _has_room(a, ask, limit_milli)]
    beside = 0 if ask.whole else len(joined)
    return fresh + beside >= ask.gpus


def _is_unused(account: Account) -> bool:
    return account.gpu.healthy and not account.uses and not account.gpu.mig


def _has_room(account: Account, ask: GpuRequest, limit_milli: int) -> bool:
    gpu = account.gpu
    mib = ask.memory_mib + gpu.memory_mib * ask.memory_milli // 1000
    if not gpu.healthy or gpu.mig or account.wholes or account.slices:
        return False
    if 0 < gpu.sharers <= len(account.uses) or account.memory_free < 0:
        return False
    if not ask.whole and not _may_join(account, ask):
        return False
    free = account.milli_free + (0 if ask.whole else limit_milli - 1000)
    return free >= (0 if ask.whole else ask.milli) and account.memory_free >= mib


def _may_join(account: Account, ask: GpuRequest) -> bool:
    if ask.isolation is not Isolation.MPS:
        return not account.clients and not account.gpu.mps
    return account.users == account.clients < account.gpu.mps
