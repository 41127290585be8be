"""Sockets of a line: the size of the receive buffer, and multicast groups."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, ClassVar

import pytest
from mold_lines import listen

from strand.errors import (
    FeedError,
)
from strand.feeds.live import mold
from strand.feeds.live.mold import Address, MoldFeed

pytestmark = pytest.mark.python


def test_a_receive_buffer_that_the_kernel_caps_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(listen(receive_bytes=1 << 14)) as feed:
        assert feed.warnings == ()
    # What the kernel says after it gave 16 KiB: twice as much, its own overhead included.
    monkeypatch.setattr("strand.binding.live.Receiver.line_counts", lambda self, line: {"receive_bytes": 2 << 14})
    with contextlib.closing(listen(receive_bytes=1 << 20)) as feed:
        assert len(feed.warnings) == 1
        assert "gave 16,384 bytes" in feed.warnings[0]
        assert "raise net.core.rmem_max to 1048576" in feed.warnings[0]


class _Noted(socket.socket):
    options: ClassVar[list[tuple[int, int, Any]]] = []
    bound: ClassVar[list[tuple[str, int]]] = []

    def setsockopt(self, level: int, name: int, value: Any) -> None:  # type: ignore[override]
        _Noted.options.append((level, name, value))

    def bind(self, address: Any) -> None:
        _Noted.bound.append(address)
        super().bind(("127.0.0.1", 0))


def test_a_multicast_group_is_joined_on_the_interface_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mold.socket, "socket", _Noted)
    monkeypatch.setattr(_Noted, "options", [])
    monkeypatch.setattr(_Noted, "bound", [])
    with mold.receiving_socket(Address("0.0.0.0", 26_400), "239.1.2.3", "127.0.0.1", "line A"):
        pass
    assert _Noted.bound == [("239.1.2.3", 26_400)], "bound to the group: other groups on the port are not heard"
    member = socket.inet_aton("239.1.2.3") + socket.inet_aton("127.0.0.1")
    assert (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member) in _Noted.options
    assert (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1) in _Noted.options
    with mold.receiving_socket(Address("239.9.9.9", 1), None, None, "line A"):
        pass
    member = socket.inet_aton("239.9.9.9") + bytes(4)
    assert _Noted.options[-1] == (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)


def test_an_address_in_use_is_said() -> None:
    with contextlib.closing(listen()) as feed, pytest.raises(FeedError, match=r"line A cannot listen at .* in use"):
        MoldFeed(feed.addresses[0])
