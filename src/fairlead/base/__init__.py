"""What kube, telemetry, sim and apps share: no scheduling, and nothing of one cluster."""
