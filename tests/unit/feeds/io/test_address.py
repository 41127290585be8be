"""HOST:PORT as options give it."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strand.errors import ConfigurationError
from strand.feeds.io.address import Address, parse_address

pytestmark = pytest.mark.python


@given(st.ip_addresses(v=4), st.integers(0, 65535))
def test_an_address_is_what_its_text_says(host: ipaddress.IPv4Address, port: int) -> None:
    found = parse_address(f"{host}:{port}", "line")
    assert found == Address(str(host), port) == parse_address(found, "line")
    assert str(found) == f"{host}:{port}"
    assert found.packed == host.packed
    assert (found.is_loopback, found.is_multicast) == (host.is_loopback, host.is_multicast)


def test_a_port_alone_is_on_this_machine() -> None:
    for text in ("26400", ":26400", "localhost:26400"):
        assert parse_address(text, "line") == Address("127.0.0.1", 26400)


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:\u0661", "1:000001"]
)
def test_what_has_no_port_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^line: .* is not HOST:PORT"):
        parse_address(text, "line")


@pytest.mark.parametrize("host", ["example.com", "127.0.0", "127.0.0.256", "[::1]", "010.0.0.1"])
def test_what_is_no_address_of_ipv4_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^line: .* is not an IPv4 address"):
        parse_address(f"{host}:1", "line")
