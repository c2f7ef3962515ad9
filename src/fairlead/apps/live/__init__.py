"""What explain, compare and top read: the cluster, its sources, a scheduler that runs."""
