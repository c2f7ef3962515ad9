"""Opinions about nodes: the contract, the registry, one file per concern."""
