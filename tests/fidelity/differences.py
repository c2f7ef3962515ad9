"""Cases in which the embedded server deliberately answers otherwise, with the reason.

A case listed here must differ: one that no longer does fails until it is taken off the list.
`docs/embedded-server.md` explains each to users.
"""

DIFFERENCES: dict[str, str] = {
    "apply conflicts with an update": "only what is applied has an owner here; updates have none",
}
