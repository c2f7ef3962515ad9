"""A TLS context that can be replaced as a whole while it is in use.

OpenSSL can add authorities to a context, and take none away. So everything that makes a connection
holds this one, and each new connection is made with the context that is current then. Open
connections go on.
"""

import ssl
from typing import Any, Self


class ReplaceableContext(ssl.SSLContext):
    """Give it to event loops in place of a plain context."""

    current: ssl.SSLContext

    def __new__(cls, current: ssl.SSLContext, *_args: object, **_kwargs: object) -> Self:
        context = super().__new__(cls, current.protocol)
        context.current = current
        context.check_hostname, context.verify_mode = current.check_hostname, current.verify_mode
        return context

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        return self.current.wrap_socket(*args, **kwargs)

    def get_ca_certs(self, *args: Any, **kwargs: Any) -> Any:
        return self.current.get_ca_certs(*args, **kwargs)
