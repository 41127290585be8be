"""NASDAQ TotalView-ITCH 5.0 files, as they are or compressed, and a selection found by several threads.

Passing over what is not wanted takes little more than reading it, so reading is what has to be shared out: each thread
reads and skims its stripes, in pieces that stay in its core's cache. Where a stripe's first frame begins is guessed;
the stripe is taken if the one before it ends exactly there, else decoded in turn (csrc/codec/itch/stripe.h).

Layout of the messages: Nasdaq, "TotalView-ITCH 5.0". The ticks of each message: csrc/codec/itch/itch.h.
In short: ``instrument_id`` is the stock locate, and ``sequence`` the message's position in the
file from 1; ``ref_id`` is the new order of a replace (action M) or the match number of an execution; a delete is action
C of size 0, which stands for all that is left; executions without a price of their own carry ``UNDEF_PRICE``. ``flags``
of orders and trades are the constants of this module.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple, Unpack, overload

from strand.binding import itch as _itch
from strand.binding.itch import (
    ATTRIBUTED,
    BROKEN_TRADE,
    CROSS,
    CROSS_CLOSING,
    CROSS_HALT,
    CROSS_INTRADAY,
    CROSS_MASK,
    CROSS_OPENING,
    DIRECT_LISTING,
    DIRECT_LISTING_OPEN,
    IMBALANCE,
    IPO_CANCELED,
    IPO_QUOTING,
    LOCATES,
    LULD_COLLAR,
    NON_PRINTABLE,
    OPERATIONAL_HALT,
    OPERATIONAL_RESUME,
    REG_SHO,
    RETAIL_INTEREST,
    ItchDecoder,
    Outlook,
    Stripe,
    StripeDecoder,
)
from strand.errors import FeedError
from strand.feeds.base import LineNumbers, StockAttributes
from strand.feeds.formats.decoded import DecodedFeed, orders_info, times_since
from strand.feeds.formats.options import DatedOptions
from strand.feeds.io.prefetch import Chunks
from strand.feeds.io.sources import RawStream
from strand.feeds.io.streams import InputStream
from strand.options import named_options

__all__ = [
    "ATTRIBUTED", "BROKEN_TRADE", "CROSS", "CROSS_CLOSING", "CROSS_HALT", "CROSS_INTRADAY", "CROSS_MASK",
    "CROSS_OPENING", "DIRECT_LISTING", "DIRECT_LISTING_OPEN", "IMBALANCE", "IPO_CANCELED", "IPO_QUOTING",
    "LULD_COLLAR", "NON_PRINTABLE", "OPERATIONAL_HALT", "OPERATIONAL_RESUME", "REG_SHO", "RETAIL_INTEREST", "ItchFeed",
    "ItchNames", "ItchSymbols", "MarketEvent", "StripedItch", "market_event", "recognise", "worth_striping",
]  # fmt: skip


class MarketEvent(NamedTuple):
    """A message about the market as a whole.

    ``type``: ``"S"`` system event, ``"V"`` the day's circuit breaker levels, ``"W"`` a level was breached.
    ``ts_ns``: ns since the UNIX epoch. ``code``: the event's or level's letter, ``""`` for V. ``levels``: the three
    index levels of V in units of 1e-8, none otherwise.
    """

    type: str
    ts_ns: int
    code: str = ""
    levels: tuple[int, ...] = ()


def market_event(message: bytes, midnight_ns: int) -> MarketEvent:
    """A message of type S, V or W, length field apart."""
    ts_ns = midnight_ns + int.from_bytes(message[5:11], "big")
    if message[:1] == b"V":
        return MarketEvent("V", ts_ns, levels=struct.unpack_from(">3Q", message, 11))
    return MarketEvent(chr(message[0]), ts_ns, code=chr(message[11]))


class ItchSymbols(Sequence[str]):
    """Names by stock locate, growing as the directory is read."""

    def __init__(self, decoder: ItchDecoder) -> None:
        self._decoder = decoder
        self._named = -1
        self._names: list[str] = []

    def follow(self, decoder: ItchDecoder) -> None:
        self._decoder = decoder

    def _current(self) -> list[str]:
        if self._named != self._decoder.named_locates:
            self._named = self._decoder.named_locates
            self._names = self._decoder.symbols()
        return self._names

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._current()[index]

    def __len__(self) -> int:
        return len(self._current())

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._current()))

    def market_events(self, midnight_ns: int) -> tuple[MarketEvent, ...]:
        return tuple(market_event(message, midnight_ns) for message in self._decoder.market_events())

    def attributes(self) -> Mapping[str, StockAttributes]:
        """Attributes by name; no two stocks share a name: the directory gives each locate its own."""
        kept = self._decoder.attributes
        if kept is None:
            return {}
        names = [field.name for field in fields(StockAttributes)][1:]
        found = {}
        for locate, name in enumerate(self._current()):
            if name:
                values = (kept[field][locate] for field in names)
                plain = (v.decode("latin-1").rstrip(" ") if isinstance(v, bytes) else int(v) for v in values)
                found[name] = StockAttributes(locate, *plain)  # type: ignore[arg-type]
        return found


class ItchNames:
    """Symbols of a feed of ITCH: the common part of all such feeds."""

    #: An index is a stock locate: in all files of a venue and date the same stock.
    locates: Final = True
    _symbols: ItchSymbols
    _options: dict[str, Any]

    @property
    def symbols(self) -> Sequence[str]:
        """Names by stock locate, as far as directory messages have come: grows while batches are read."""
        return self._symbols

    @property
    def max_symbols(self) -> int:
        """65,536: a stock locate has 16 bits."""
        return LOCATES

    @property
    def directory(self) -> Mapping[str, StockAttributes]:
        """Attributes of each stock from directory messages, by name: grows while batches are read. A later message
        replaces an earlier one."""
        return self._symbols.attributes()

    @property
    def market_events(self) -> tuple[MarketEvent, ...]:
        """System events and market-wide circuit breakers so far, in order; of more than 64 the first 64."""
        return self._symbols.market_events(self._options["midnight_ns"])


#: Bytes of a stripe: enough to make handing it over cheap, few enough to lose little when the decoder refuses it.
_STRIPE: Final = 4 << 20
#: Bytes read at once where the file is decoded in turn: the directory, and parts that no stripe covers.
_IN_TURN: Final = 1 << 19
#: Bytes read at once in a stripe.
_PIECE: Final = 1 << 17
_THREADS: Final = 4
#: Bytes of a file below which starting threads costs more than they save.
_MIN_BYTES: Final = 16 << 20
#: Once refused stripes outnumber adopted ones by so many, the rest of the file is decoded in turn.
_PATIENCE: Final = 8
_NOTHING: Final = memoryview(b"")
_CLOSED: Final = "the feed was closed while it was being read"


def worth_striping(size: int) -> bool:
    """True if stripes read a file of ``size`` bytes faster."""
    return size >= _MIN_BYTES


def thread_count() -> int:
    """Number of threads that look for ticks: one per core of this process, up to a bound."""
    return min(len(os.sched_getaffinity(0)), _THREADS)


class _Stripes:
    """Stripes in the order of the file, from byte ``begin`` on, which so many threads make ahead of their user.

    ``outlook``: the state with which stripes begun from now on are decoded.
    """

    def __init__(self, file: RawStream, begin: int, outlook: Outlook, threads: int) -> None:
        self.outlook = outlook
        self.working_ns = 0
        self._file, self._begin = file, begin
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="strand read")
        self._own = threading.local()
        self._free = [Stripe(_STRIPE) for _ in range(2 * threads)]
        self._coming: deque[Future[tuple[Stripe, int]]] = deque()
        self._begun = 0
        self._closed = False

    def first(self) -> Stripe | None:
        """The next stripe in the order of the file; None: there are no more. Raises what making it raised."""
        try:
            while self._free and self._begin + self._begun * _STRIPE < self._file.size:
                self._coming.append(self._pool.submit(self._make, self._begun, self._free.pop()))
                self._begun += 1
            return self._coming[0].result()[0] if self._coming else None
        except (CancelledError, RuntimeError):
            if self._closed:
                raise FeedError(_CLOSED) from None
            raise

    def drop(self) -> None:
        """Gives up the next stripe, so that its room can be used again."""
        stripe, ns = self._coming.popleft().result()
        self.working_ns += ns
        self._free.append(stripe)

    def close(self) -> None:
        """Waits for the stripes under way; no more are begun."""
        self._closed = True
        self._pool.shutdown(cancel_futures=True)

    def _make(self, number: int, stripe: Stripe) -> tuple[Stripe, int]:
        begun, start = time.perf_counter_ns(), self._begin + number * _STRIPE
        if not hasattr(self._own, "decoder"):
            self._own.decoder = StripeDecoder(_PIECE)
        self._own.decoder.take(self._file.fileno(), start, start + _STRIPE, self.outlook, stripe, exact=number == 0)
        return stripe, time.perf_counter_ns() - begun


class StripedItch(Chunks):
    """``Chunks`` of a file for the decoder of a selection. Between chunks the decoder adopts stripes.

    Where the decoder adopted one, ``next`` returns no bytes, and the caller need not keep the ``carry`` that it gave.
    """

    def __init__(self, file: RawStream, decoder: ItchDecoder, *, headroom: int) -> None:
        super().__init__(file, chunk_bytes=_IN_TURN, headroom=headroom)
        self._file = file
        self._decoder = decoder
        self._read_to = 0
        self._stripes: _Stripes | None = None
        self._named = -1
        self._patience = _PATIENCE
        self._drop_first = False
        self._in_turn_ns = 0

    def next(self, carry: memoryview) -> memoryview | None:
        """See ``Chunks.next``. Raises FeedError too when closed by another thread meanwhile."""
        begun = time.perf_counter_ns()
        try:
            size = self._adopt()
            if size == 0:
                return _NOTHING
            self._file.stand_at(self._read_to)
            in_turn = time.perf_counter_ns()
            data = self._read(carry, size)
            self._in_turn_ns += time.perf_counter_ns() - in_turn
            self._read_to = self._file.bytes_out
            return data
        finally:
            self.reading_ns = self._in_turn_ns + (self._stripes.working_ns if self._stripes is not None else 0)
            self.waiting_ns += time.perf_counter_ns() - begun

    def _adopt(self) -> int:
        """Lets the decoder adopt a stripe. Returns 0 if it has, else how much is to be read in turn."""
        if self._stripes is None and not self._begin():
            return _IN_TURN
        stripes, decoder = self._stripes, self._decoder
        assert stripes is not None
        if self._drop_first:
            self._drop_first = False
            stripes.drop()
        if not stripes.outlook.holds(decoder):
            stripes.outlook = Outlook(decoder)
        while self._patience >= 0 and (stripe := stripes.first()) is not None:
            if stripe.outlook is stripes.outlook and stripe.begin is not None:
                if stripe.end > decoder.offset and decoder.adopt(stripe.state, stripe.ticks):
                    self._read_to = stripe.end
                    self._file.stand_at(stripe.end)
                    self._patience += 1
                    self._drop_first = True
                    return 0
                if stripe.begin > self._read_to:
                    return min(stripe.begin - self._read_to, _IN_TURN)
            stripes.drop()
            self._patience -= 1
        return _IN_TURN

    def _begin(self) -> bool:
        """Starts the stripes once the directory, at the file's start, has been read. Returns whether there are
        stripes."""
        named, self._named = self._named, self._decoder.named_locates
        if named != self._named or not self._decoder.in_step:
            return False
        with self._lock:
            if self._closed:
                raise FeedError(_CLOSED)
            # The stripes start at the decoder's offset: bytes that it has not used yet are read again.
            self._stripes = _Stripes(self._file, self._decoder.offset, Outlook(self._decoder), thread_count())
        return True

    def close(self) -> None:
        """Stops the threads, waits for them, and closes the file. May be called again."""
        with self._lock:
            self._closed = True
            if self._stripes is not None:
                self._stripes.close()
            self._file.close()


_HEAD_BYTES: Final = 64
_DAY_NS: Final = 86_400_000_000_000


def recognise(head: bytes) -> bool:
    """Tells whether an uncompressed file that starts with ``head`` (16 bytes are enough) looks like ITCH 5.0.

    True when the first message has a known type, a length field that is 0 or that type's, and a time within a day.
    """
    if len(head) < 3:
        return False
    prefix = int.from_bytes(head[:2], "big")
    length = _itch.message_length(head[2])
    if length == 0 or prefix not in (0, length):
        return False
    return int.from_bytes(head[7:13].ljust(6, b"\0"), "big") < _DAY_NS


@named_options("ItchFeed()", declares=DatedOptions)
class ItchFeed(ItchNames, DecodedFeed):
    """Reads an ITCH 5.0 file as batches of ticks.

    The day may be in the file's name as in ``01302019.NASDAQ_ITCH50``, ``S010220-v50.txt.gz`` or ``20190130...``.
    Messages of unknown type or with an impossible field are damage, and so are stretches in which the frames are out of
    step (docs/feeds/itch.md).

    Args:
        path: The file.

    Raises:
        UnknownFormatError: If the file does not start as ITCH 5.0 does.
        FeedError: If the file cannot be read.
        ConfigurationError: If an option cannot work.
    """

    _decoder: ItchDecoder

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[DatedOptions]) -> None:
        super().__init__(path, options, headroom=_itch.MAX_FRAME)
        refusal = "does not start with an ITCH 5.0 message (a length of 0 or of the type's, then a known type)"
        _, names, details = self._read_head(_HEAD_BYTES, recognise, refusal)
        day = self._dated(options["date"], names)
        self._options["attributes"] = True
        self._decoder = ItchDecoder(**self._options)
        self._used = False
        self._symbols = ItchSymbols(self._decoder)
        self._info = orders_info(
            "itch50", self._path, _venue_in_names(names), day, details | times_since(day), flags=_itch.FLAGS
        )

    def takes_feeder(self, *, in_blocks: bool) -> bool:
        # Else stripes of a selection are decoded beside this, and come as arrays.
        return in_blocks or "keeps" not in self._options

    def _begin(self) -> ItchDecoder:
        if self._used:
            self._decoder = ItchDecoder(**self._options, directory_of=self._decoder)
            self._symbols.follow(self._decoder)
        self._used = True
        return self._decoder

    def _chunks_of(self, stream: InputStream, *, in_blocks: bool) -> Chunks:
        striped = "keeps" in self._options and not in_blocks
        if striped and isinstance(stream, RawStream) and worth_striping(stream.size):
            return StripedItch(stream, self._decoder, headroom=self._headroom)
        return super()._chunks_of(stream, in_blocks=in_blocks)

    def line_numbers(self) -> LineNumbers | None:
        """The positions of messages, which are their numbers where the file begins with the session."""
        return LineNumbers(1, self._decoder.statistics()["messages"] + 1, ())

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration, zeros before the first.

        ``messages``, ``ticks``, ``not_selected`` (ticks not made because they are not wanted), ``type_X`` (messages of
        type X), ``skipped_unknown_type``, ``skipped_bad_field``, ``skipped_bytes`` (searched for the next message),
        and what ``DecodedFeed`` adds of reading.
        """
        return super().statistics()


def _venue_in_names(names: Iterable[str]) -> str:
    """The market identifier: Nasdaq's other two markets name themselves in their files' names."""
    said = [Path(name).name.upper() for name in names]
    if any("PSX" in name for name in said):
        return "XPSX"
    return "XBOS" if any("BX_ITCH" in name for name in said) else "XNAS"
