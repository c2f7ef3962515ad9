"""What a Prometheus server reads from the webhook."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)


class AdmissionMetrics:
    """Counters that the webhook feeds as it answers, on a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.answers = Counter(
            "fairlead_webhook_answers",
            "Answers to the API server, by route and outcome.",
            ("route", "outcome"),
            registry=self.registry,
        )
        self.answer_seconds = Histogram(
            "fairlead_webhook_answer_duration_seconds",
            "Seconds from the headers of a request to its answer.",
            ("route",),
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 2),
            registry=self.registry,
        )
        self.certificate_ends = Gauge(
            "fairlead_webhook_certificate_expiry_timestamp_seconds",
            "When the serving certificate expires, in seconds since 1970.",
            registry=self.registry,
        )
        self.certificates_shown = Counter(
            "fairlead_webhook_certificates_shown",
            "Serving certificates loaded since the start.",
            registry=self.registry,
        )
        self.certificate_troubles = Counter(
            "fairlead_webhook_certificate_troubles",
            "Failed certificate rotations.",
            registry=self.registry,
        )
