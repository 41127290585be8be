"""UDP sockets for live feeds."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from strand.errors import ConfigurationError, FeedError
from strand.feeds.io.address import Address, ipv4

__all__ = ["receiving_socket", "replies_socket"]


@contextlib.contextmanager
def receiving_socket(address: Address, group: str | None, interface: str | None, what: str) -> Iterator[socket.socket]:
    """A socket bound to ``address``; where that or ``group`` is a multicast address, it is joined on ``interface``.

    Raises ConfigurationError, FeedError.
    """
    if group is None and address.is_multicast:
        group = address.host
    if group is not None and not Address(ipv4(group, "group"), 0).is_multicast:
        raise ConfigurationError(f"group: {group!r} is not a multicast address (224.0.0.0 to 239.255.255.255)")
    if group is None and interface is not None:
        raise ConfigurationError(
            "interface: it is for a multicast group, and no group is given: give group=, or leave it out"
        )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            if group is not None:
                # Bound to the group itself, so that no other group's packets on this port come in.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((group, address.port))
                local = ipv4(interface, "interface") if interface is not None else "0.0.0.0"
                request = socket.inet_aton(group) + socket.inet_aton(local)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            else:
                sock.bind((address.host, address.port))
        except OSError as error:
            raise FeedError(
                f"{what} cannot listen at {group or address.host}:{address.port}: {error.strerror}"
            ) from error
        yield sock


@contextlib.contextmanager
def replies_socket(server: Address) -> Iterator[socket.socket]:
    """A socket that takes packets from ``server`` only. Raises FeedError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.connect((server.host, server.port))
        except OSError as error:
            raise FeedError(f"the re-request server {server} cannot be reached: {error.strerror}") from error
        yield sock
