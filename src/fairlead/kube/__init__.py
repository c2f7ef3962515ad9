"""The real cluster: the only room that knows Kubernetes JSON and HTTP."""
