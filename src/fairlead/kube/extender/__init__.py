"""The extender protocol of kube-scheduler: its questions, and our answers."""
