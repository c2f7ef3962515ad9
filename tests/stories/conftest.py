"""What a story has of its own on the shared control plane."""

from plane_fixtures import *  # noqa: F403
