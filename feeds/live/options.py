"""The options of live feeds: their types, defaults, what each takes and its text; and addresses of lines."""

# Not with annotations as text: the declarations of options stand in types.

import datetime as dt
import ipaddress
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from strand.errors import ConfigurationError
from strand.feeds.formats.json.ticks import FeedEvent
from strand.fixed import dataclass
from strand.options import File, Number, Text, Whole
from strand.ticks import MAX_SEQUENCE


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


_SECONDS = Number(0, 1e9, "s", above=True, metavar="SECONDS")


class _Ends(TypedDict, total=False):
    """Options of all live feeds: where a feed ends."""

    max_messages: Annotated[int | None, None, Whole(1), "The feed ends after so many messages. None: no bound."]
    max_seconds: Annotated[float | None, None, _SECONDS, "The feed ends after so many seconds. None: no bound."]
    idle_timeout_s: Annotated[
        float | None, None, _SECONDS, "The feed ends after so many seconds without a message. None: no bound."
    ]


class _Recorded(_Ends, total=False):
    """Options of the live feeds that write a recording: its file, and the clock, whose times it has."""

    record: Annotated[
        str | os.PathLike[str] | None,
        None,
        File(),
        "A file to write everything received to, in order, for ``strand.replay``.",
    ]
    clock_s: Annotated[
        float | None,
        None,
        _SECONDS,
        "Where no tick comes for so many seconds, the feed's time goes on by this machine's clock, so that bars and "
        "other timers end. None: only ticks tell the time.",
    ]


class MoldOptions(_Recorded, total=False):
    """Options of ``MoldFeed``."""

    group: Annotated[
        Sequence[str],
        (),
        Text("ADDRESS"),
        "Multicast groups of the lines, in their order, if ``line`` names the address to bind to.",
    ]
    interface: Annotated[
        str | None,
        None,
        Text("ADDRESS"),
        "The IPv4 address of this machine on which multicast groups are joined. None: the system chooses.",
    ]
    rerequest: Annotated[
        str | Address | None, None, Text("HOST:PORT"), "HOST:PORT of the server that sends missing messages again."
    ]
    session: Annotated[str | None, None, Text("NAME"), "The session to follow. None: the first one heard."]
    first_sequence: Annotated[
        int | None,
        None,
        Whole(1, MAX_SEQUENCE),
        "The first message wanted: all messages between it and the first one heard count as missing. None: the feed "
        "begins with the first message it hears (``joined_at``).",
    ]
    gap_timeout_s: Annotated[
        float,
        0.05,
        Number(0, 1e9, "s", metavar="SECONDS"),
        "How long to wait for messages that are missing on all lines, seconds.",
    ]
    request_after_s: Annotated[
        float | None,
        None,
        _SECONDS,
        "How old a gap is before it is asked for, and the time between two requests, seconds. None: an eighth of "
        "``gap_timeout_s``.",
    ]
    jump_window: Annotated[
        int,
        1_000_000,
        Whole(1, MAX_SEQUENCE, metavar="MESSAGES"),
        "A packet that is more than so many messages beyond everything heard is taken only when a second one agrees "
        "with it.\nWithout ``first_sequence`` the very first packet waits so too, at most for ``gap_timeout_s``.",
    ]
    on_gap: Annotated[
        Literal["continue", "raise"],
        "continue",
        'What to do at a gap that stays: ``"continue"`` behind it, or ``"raise"`` GapError after all ticks before it.',
    ]
    receive_bytes: Annotated[
        int,
        64 << 20,
        Whole(1, metavar="BYTES"),
        "Bytes of receive buffer to ask the kernel for, for each socket.\n``warnings`` says if it gave less.",
    ]
    date: Annotated[dt.date | str | None, None, Text("YYYY-MM-DD"), "The trading day. None: today's in New York."]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        'What to do with a message that is no ITCH 5.0: ``"raise"`` FormatError, or ``"skip"`` it and count it.',
    ]


class _Messages(TypedDict, total=False):
    """Options of the live feeds whose messages have symbols by name."""

    on_event: Annotated[
        Callable[[FeedEvent], None] | None,
        None,
        "Called with each ``FeedEvent`` by the iterating thread.\n``events`` has the newest ones.",
    ]
    symbols: Annotated[Sequence[str], (), "Names that have their index from the start.\nOthers follow as they come."]
    max_symbols: Annotated[int, 65_536, Whole(1), "The greatest number of symbols in all."]


class WebSocketOptions(_Messages, _Recorded, total=False):
    """Options of ``WebSocketFeed``."""

    subscribe: Annotated[
        Sequence[Any], (), Text(), "Messages to send after each connect: texts, or values that become JSON."
    ]
    client: Annotated[
        Literal["websockets", "picows"],
        "websockets",
        "The package that connects.\n``picows`` (extra ``picows``) takes a tenth of the time of ``websockets`` per "
        "message, and no compressed messages.",
    ]
    headers: Annotated[Mapping[str, str] | None, None, "Headers of the request, by name."]
    reconnect: Annotated[
        int | None, None, Whole(), "Attempts in a row before the feed gives up with FeedError. None: no bound."
    ]
    reconnect_min_s: Annotated[
        float,
        0.25,
        _SECONDS,
        "The wait before the first attempt, seconds.\nIt doubles with each attempt in a row, and each wait is "
        "shortened by up to half of it by chance. A message that arrives starts anew.",
    ]
    reconnect_max_s: Annotated[float, 30.0, _SECONDS, "The wait doubles up to so many seconds."]
    silence_s: Annotated[
        float,
        60.0,
        _SECONDS,
        "A server that sends nothing for so many seconds counts as gone, and so does one that answers no ping.",
    ]
    open_timeout_s: Annotated[float | None, 10.0, _SECONDS, "How long a connect may take, seconds. None: no bound."]
    max_message_bytes: Annotated[int, 1 << 20, Whole(1), "A longer message is refused."]
    reconnect_at_gap: Annotated[
        bool,
        False,
        "Connect anew where messages of a ``gapless`` rule are missing, for venues that send a snapshot at each start.",
    ]
    snapshot: Annotated[
        Callable[[str], Any] | None,
        None,
        "Called with a symbol's name where its book needs a snapshot that the venue sends on request: at the first "
        'change, and after a gap.\nIt returns the message that a rule with ``snapshot = "rest"`` reads: text, bytes, '
        "or a value that becomes JSON. A thread of the feed calls it. After an exception, and where the snapshot was "
        "too old, it is called again, after waits as before attempts to reconnect.",
    ]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        'What to do with a message that is no JSON, or that the profile cannot read: ``"raise"`` FormatError, or '
        '``"skip"`` it.\nMessages that no rule of the profile is for are skipped and counted either way.',
    ]
    batch_ticks: Annotated[int, 4_096, Whole(1), "The greatest number of ticks in a batch."]


class KafkaOptions(_Messages, _Ends, total=False):
    """Options of ``KafkaFeed``."""

    consumer_group: Annotated[
        str | None,
        None,
        Text("NAME"),
        "The consumer group whose offsets are read at the start, and committed behind what has been handled.\nNone: "
        "no offset is committed.",
    ]
    share: Annotated[
        bool,
        False,
        "Share the partitions with the other members of ``consumer_group``, as the broker assigns them.\nFalse: this "
        "feed reads all of ``partitions``.",
    ]
    partitions: Annotated[Sequence[int], (), "The partitions of each topic to read.\nEmpty: all."]
    begin: Annotated[
        Literal["earliest", "latest"],
        "earliest",
        "Where a partition begins for which ``consumer_group`` has no offset: with its first message, or behind its "
        "last one.",
    ]
    on_gone: Annotated[
        Literal["raise", "earliest", "latest"],
        "raise",
        "What to do where the next offset is no longer, or not, in its partition, as after the topic's retention: "
        '``"raise"`` GapError, or go on with the first message that is there, or behind the last one.\nMessages that '
        "are passed over are counted as a gap.",
    ]
    on_moved: Annotated[
        Literal["raise", "continue"],
        "raise",
        'What to do with a symbol that comes from a second partition, so that its order is lost: ``"raise"`` '
        'FeedError, or ``"continue"`` and count its ticks.',
    ]
    duplicates: Annotated[
        Literal["keep", "drop"],
        "keep",
        '``"drop"`` leaves out, and counts, each message of a symbol whose ``sequence`` is not above those of its '
        "messages before.\nIt is right where each symbol's sequence rises, also from kind to kind.",
    ]
    until_end: Annotated[bool, False, "The feed ends where the partitions ended when it began."]
    wait_s: Annotated[
        float | None,
        30.0,
        _SECONDS,
        "Seconds that messages wait at most for a partition that has more messages and brings none; then the others go "
        "on, and the event ``overtaken`` tells it. None: no bound.",
    ]
    commit_s: Annotated[float, 1.0, _SECONDS, "The time between two commits of offsets, seconds."]
    open_timeout_s: Annotated[float, 10.0, _SECONDS, "How long the first answer of a broker may take, seconds."]
    config: Annotated[Mapping[str, Any] | None, None, "Further settings of librdkafka, as for TLS and passwords."]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        'What to do with a message that cannot be read: ``"raise"`` FormatError, or ``"skip"`` it and count it.',
    ]
    batch_messages: Annotated[int, 10_000, Whole(1), "The greatest number of messages in a batch."]


class JoinOptions(TypedDict, total=False):
    """Options of ``join``."""

    by: Annotated[
        Literal["line", "symbol", "rising"] | None,
        None,
        'What ``sequence`` counts: ``"line"`` all messages, one by one; ``"symbol"`` those of each symbol, one by one; '
        '``"rising"`` is any number that rises in each symbol and kind of tick, which shows no gap.\nNone: ``"line"`` '
        'for ITCH, else ``"rising"``.',
    ]
    wait_s: Annotated[
        float,
        5.0,
        Number(0, 1e9, "s", metavar="SECONDS"),
        "How long to wait, in all, for a recording that is still being written to reach the line's first message, "
        "seconds.",
    ]
    on_gap: Annotated[
        Literal["continue", "raise"],
        "continue",
        'What to do if messages between the recording and the line are missing: ``"continue"`` behind them, or '
        '``"raise"`` GapError after all ticks before them.',
    ]
    memory_bytes: Annotated[
        int, 64 << 20, Whole(1, metavar="BYTES"), "Bytes of the line's ticks that wait in memory; more are in a file."
    ]
    disk_bytes: Annotated[
        int,
        16 << 30,
        Whole(1, metavar="BYTES"),
        "Bytes of the line's ticks that wait in all.\nBeyond it the line is not read, and loses what its receiver "
        "cannot hold.",
    ]
