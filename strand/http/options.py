"""Options of an application, and of a server."""

from __future__ import annotations

import ipaddress

from strand.errors import ConfigurationError
from strand.fixed import dataclass
from strand.options import File, Span, Text, Whole, named_fields, option, read_options
from strand.spans import SpanLike, span_ns


@named_fields
@dataclass(frozen=True, slots=True)
class AppOptions:
    """Bounds of an application.

    Raises:
        ConfigurationError: If a field cannot work; it names the field.
    """

    max_body_bytes: int = option(1 << 20, Whole(0), "Longest body of a request; a longer one is answered by 413.")
    max_header_bytes: int = option(
        16 << 10, Whole(256), "Longest headers of a request, names and values; longer ones are answered by 431."
    )
    body_timeout: SpanLike = option("30s", Span(), "Time to send a body in; a later one is answered by 408.")
    retry_after: SpanLike = option(
        "1s", Span(), "Time after which a refused client may try again: Retry-After of 429 and 503, in whole seconds."
    )
    max_accepted: int = option(1000, Whole(1), "Requests answered by 202 whose replies are kept or to come.")
    accepted_for: SpanLike = option("10min", Span(), "Time for which the reply to such a request is kept.")

    def __post_init__(self) -> None:
        read_options(self).end()

    @property
    def body_timeout_s(self) -> float:
        """``body_timeout`` in seconds."""
        return span_ns("body_timeout", self.body_timeout) / 1e9

    @property
    def accepted_for_s(self) -> float:
        """``accepted_for`` in seconds."""
        return span_ns("accepted_for", self.accepted_for) / 1e9

    @property
    def retry_after_s(self) -> int:
        """``retry_after`` in whole seconds, rounded up."""
        return -(-span_ns("retry_after", self.retry_after) // 1_000_000_000)


@named_fields
@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a server.

    Raises:
        ConfigurationError: If a field cannot work; it names the field.
    """

    host: str = option(
        "127.0.0.1", Text("ADDRESS"), "Address to listen at.", more="Another machine's needs a token.", flag=None
    )
    port: int = option(8000, Whole(0, 65535), "Port; 0 is any free one.", flag=None)
    token_file: str | None = option(
        None,
        File(),
        "File of the token that each request has to bring, as Authorization: Bearer TOKEN.",
        unset="requests need none, and come from this machine alone",
        flag=None,
    )
    stop_timeout: SpanLike = option(
        "90s", Span(), "Time that a stop waits for requests that were accepted; then they are cut off.", flag=None
    )
    max_connections: int = option(
        10_000, Whole(1), "Connections at a time; a request on a further one gets 503.", flag=None
    )
    max_head_bytes: int = option(
        64 << 10,
        Whole(1024, metavar="BYTES"),
        "Most bytes that a connection may send before a request's headers end.",
        flag=None,
    )
    head_timeout: SpanLike = option(
        "30s", Span(), "Time for the headers of a request, and for a new connection to send one.", flag=None
    )

    switch_interval: SpanLike = option(
        "1ms",
        Span(),
        "Longest time for which a handler that computes in Python keeps the event loop waiting for the GIL.",
        more="Python's own is 5 ms, of which a request takes several.",
        flag=None,
    )

    def __post_init__(self) -> None:
        faults = read_options(self)
        if not faults.has("host", "token_file") and self.token_file is None and not is_loopback(self.host):
            reason = f"{self.host} is reached from other machines: give token_file, or listen at 127.0.0.1"
            faults.append(ConfigurationError("host", reason))
        faults.end()

    @property
    def stop_timeout_s(self) -> float:
        """``stop_timeout`` in seconds."""
        return span_ns("stop_timeout", self.stop_timeout) / 1e9

    @property
    def head_timeout_s(self) -> float:
        """``head_timeout`` in seconds."""
        return span_ns("head_timeout", self.head_timeout) / 1e9

    @property
    def switch_interval_s(self) -> float:
        """``switch_interval`` in seconds."""
        return span_ns("switch_interval", self.switch_interval) / 1e9


def is_loopback(host: str) -> bool:
    """Tells whether only this machine reaches an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
