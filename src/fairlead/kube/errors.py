"""What can go wrong between us and the API server.

FairleadError
├── KubeconfigError    no cluster, or no way to log in; the message says what to change
└── ApiError           a request came to no end; a refusal is no error but a `Reply`
    ├── Unreachable    certainly not processed: it may be sent again
    └── ReplyLost      sent, no complete reply: find out by a GET before sending it again
        ├── Stalled    the connection stayed open, and no event came in time
        └── ReplyTooLong   the reply is longer than what the request allows
"""

from fairlead.model.errors import FairleadError

__all__ = ["ApiError", "KubeconfigError", "ReplyLost", "ReplyTooLong", "Stalled", "Unreachable"]


class KubeconfigError(FairleadError):
    """The kubeconfig, or the login it describes, cannot be used as it is."""


class ApiError(FairleadError):
    """A request to the API server came to no end."""


class Unreachable(ApiError):
    """No connection could be made, so the server has certainly not seen the request."""


class ReplyLost(ApiError):
    """The request was sent and no complete reply came: it may or may not have been processed."""


class Stalled(ReplyLost):
    """A watch stayed open without an event, not even a bookmark, for longer than its deadline."""


class ReplyTooLong(ReplyLost):
    """The reply is longer than what the request allows; a smaller page may be short enough."""
