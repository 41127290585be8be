"""HOST:PORT as options give it, for UDP over IPv4."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from strand.errors import ConfigurationError

__all__ = ["Address", "ipv4", "parse_address"]


def ipv4(text: str, field: str) -> str:
    """A dotted IPv4 address, or ``localhost``. Raises ConfigurationError."""
    try:
        return str(ipaddress.IPv4Address("127.0.0.1" if text == "localhost" else text))
    except ValueError:
        raise ConfigurationError(field, f"{text!r} is not an IPv4 address such as 127.0.0.1") from None


@dataclass(frozen=True, slots=True)
class Address:
    """An IPv4 address and a UDP port; port 0 lets the system choose where a socket is bound."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return ipaddress.IPv4Address(self.host).is_loopback

    @property
    def is_multicast(self) -> bool:
        return ipaddress.IPv4Address(self.host).is_multicast

    @property
    def packed(self) -> bytes:
        return socket.inet_aton(self.host)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(text: str | Address, field: str) -> Address:
    """``HOST:PORT``; ``:PORT`` and ``PORT`` are on 127.0.0.1. Raises ConfigurationError naming the field."""
    if isinstance(text, Address):
        return text
    host, _, port = str(text).rpartition(":")
    if not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65535:
        raise ConfigurationError(field, f"{text!r} is not HOST:PORT with a port from 0 to 65535")
    return Address(ipv4(host or "127.0.0.1", field), int(port))
