"""Which clients a server of ours answers: by their certificate, by their address, or all."""

import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from fairlead.apps.serving.http_limits import HttpRefusal
from fairlead.kube.admission.tls import ServingContext, read_authorities
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Callers:
    """Clients that are answered; without any of these, all are. Health and metrics are for all."""

    #: Certificates must be of one of these authorities; the file is read again when it changes.
    authorities: Path | None = None
    #: And for one of these names, if there are any: common name, DNS name, address or URI.
    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(
        cls, client_ca: Path | None, names: Sequence[str] = (), networks: Sequence[str] = ()
    ) -> "Callers":
        """As options say it. Raises ConfigError."""
        if names and client_ca is None:
            raise ConfigError("--client-name needs --client-ca")
        return cls(client_ca, frozenset(names), tuple(map(_network, networks)))

    def holds(self, address: str) -> bool:
        """Whether clients at this address are answered."""
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        plain = getattr(found, "ipv4_mapped", None) or found
        return any(plain in network for network in self.networks)


@dataclass(frozen=True, slots=True)
class Gate:
    """Looks at each request before it is read."""

    callers: Callers = Callers()
    #: The server's side of TLS, where there is TLS.
    shown: ServingContext | None = None

    def trust(self) -> bool:
        """Takes up what changed in the file of authorities; False if nothing did.

        Raises ConfigError, and goes on with the last ones.
        """
        file = self.callers.authorities
        return bool(file and self.shown and self.shown.trust(read_authorities(file)))

    def enter(self, request: web.Request) -> bool:
        """Raises Refusal unless this client is answered.

        True if its connection is older than the certificates: it is to be made again soon.
        """
        callers = self.callers
        if callers.networks and not callers.holds(_address(request)):
            raise HttpRefusal(403, "denied", "requests from this address are not accepted")
        if callers.authorities is None or self.shown is None:
            return False
        certificate, socket = _extra(request, "peercert"), _extra(request, "ssl_object")
        if not certificate or socket is None:
            raise HttpRefusal(
                403, "denied", "a client certificate from a CA in --client-ca is required"
            )
        if not self.shown.still_trusts(socket.context):
            raise HttpRefusal(403, "denied", "the client CAs have changed; connect again")
        if callers.names and callers.names.isdisjoint(names_in(certificate)):
            raise HttpRefusal(403, "denied", "the certificate has none of the accepted names")
        return bool(socket.context is not self.shown.context.current)


def names_in(certificate: Mapping[str, Any]) -> set[str]:
    """Common names and alternative names of a certificate that was verified."""
    parts = (part for group in certificate.get("subject", ()) for part in group)
    common = {value for key, value in parts if key == "commonName"}
    return common | {value for _, value in certificate.get("subjectAltName", ())}


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(
            f"--allow-from {text!r} is not a valid address; use 10.0.0.10 or 10.0.0.0/28"
        ) from error


def _address(request: web.Request) -> str:
    peer = _extra(request, "peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def _extra(request: web.Request, name: str) -> Any:
    return request.transport.get_extra_info(name) if request.transport else None
