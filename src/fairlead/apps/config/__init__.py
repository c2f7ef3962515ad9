"""Configuration files: from YAML, and from kube-scheduler's files, to what a program runs with."""
