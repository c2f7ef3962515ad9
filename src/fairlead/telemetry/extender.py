"""What a Prometheus server reads about the extender's answers."""

from prometheus_client import CollectorRegistry, Counter, Histogram


class ExtenderMetrics:
    """Counters that the extender feeds as it answers, beside those of the scheduler."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.answers = Counter(
            "fairlead_extender_answers",
            "Answers to kube-scheduler, by verb and outcome.",
            ("verb", "outcome"),
            registry=registry,
        )
        self.answer_seconds = Histogram(
            "fairlead_extender_answer_duration_seconds",
            "Seconds from the headers of a request to its answer.",
            ("verb",),
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 2, 5),
            registry=registry,
        )
