"""Queues as they are reported, in as few words as a test needs."""

from fairlead.model.queues import GPUS, GpuBudget, PastUse, Period, QueueReport, QueueSpec


def gpus(number: float) -> tuple[tuple[str, int], ...]:
    return ((GPUS, round(1000 * number)),)


def report(name: str, parent: str = "", depth: int = 0, **more) -> QueueReport:
    """Keys that are fields of the spec go there."""
    fields = QueueSpec.__dataclass_fields__
    spec = QueueSpec(
        f"fairlead/{name}",
        f"fairlead/{parent}" if parent else "",
        **{key: value for key, value in more.items() if key in fields},
    )
    known = {
        "used": (), "asked": (), "fair_share": (), "past": None,
        "pending_units": 0, "pending_pods": 0, "running_pods": 0,
    }  # fmt: skip
    return QueueReport(
        spec, depth, **known | {key: value for key, value in more.items() if key not in fields}
    )


TREE = [
    report("company", guaranteed=gpus(64), used=gpus(60), fair_share=gpus(64), pending_units=1,
           pending_pods=8, running_pods=7),
    report("research", "company", 1, guaranteed=gpus(32), used=gpus(20), fair_share=gpus(40),
           asked=gpus(16), pending_units=1, pending_pods=8, running_pods=3,
           limit=gpus(32), weight=2.0),
    report("product", "company", 1, guaranteed=gpus(32), used=gpus(40), fair_share=gpus(24),
           running_pods=4, past=PastUse(0.0, 3600.0 * 7.5, 90.0, 200.0),
           budgets=(GpuBudget(Period.DAY, 100.0),)),
    report("search", "product", 2, guaranteed=gpus(32), used=gpus(12), running_pods=2),
    report("ads", "product", 2, used=gpus(28), fair_share=gpus(10), running_pods=2),
    report("broken", problem="its parent fairlead/none does not exist; create it"),
]  # fmt: skip
