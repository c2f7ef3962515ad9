"""Fairlead places GPU work on Kubernetes: node and device, with a reason for everything."""

__version__ = "0.2.0"
