"""Where the cluster is and who we are: kubeconfigs, credentials, certificates."""
