"""What things are: quantities, pods, nodes, requests. Standard library only."""
