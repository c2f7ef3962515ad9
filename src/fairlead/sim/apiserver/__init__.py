"""An embedded Kubernetes API server: real HTTP on loopback, state in memory or in SQLite."""

from fairlead.sim.apiserver.server import EmbeddedServer, StartError

__all__ = ["EmbeddedServer", "StartError"]
