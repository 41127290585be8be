"""A feed of ticks that a test has written down, cut into batches where the test wants them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.options import named_options, refuse_unknown
from strand.ticks import FIELDS, KIND_ORDER, KIND_QUOTE, KIND_TRADE, PRICE_SCALE, TICK, UNDEF_PRICE, limits, zeros
from strand.validate import is_whole, several, whole

if TYPE_CHECKING:
    from strand.feeds.base import Flags, TicksAre

__all__ = ["ListFeed", "feed"]

#: A tick by the names of its fields, or a trade as (symbol, time, price, size).
TickLike: TypeAlias = Mapping[str, Any] | tuple[str, int, Any, int]

#: The letters of a tick of text.
_LETTERS: Final = ("action", "side")
#: The fields that a tick may be given by, beside its price.
_NAMES: Final = frozenset(FIELDS) - {"instrument_id"} | {"symbol", "time", "bid", "bid_size", "ask", "ask_size"}


class InfoOptions(TypedDict, total=False):
    """Fields of ``strand.feeds.FeedInfo``."""

    format: str
    path: str
    date: str | None
    venue: str | None
    price_unit: float | None
    span: tuple[int, int] | None
    details: dict[str, Any]
    undated: bool
    size_unit: str | float | Decimal | None
    ticks: TicksAre | None
    ticks_assumed: bool
    prices_assumed: bool
    zone: str | None
    flags: Flags | None
    has_sizes: bool
    bars: int | None


class ListFeed(BaseFeed):
    """The feed that ``strand.testing.feed`` makes. All batches share one buffer, which each overwrites, as readers of
    files do.

    Attributes:
        ticks: All ticks, shape (n,), dtype ``strand.TICK``.
        names: The names by index, as they are known in the end.
        closed: How often the feed was closed.
    """

    def __init__(
        self,
        ticks: npt.NDArray[Any],
        /,
        symbols: Sequence[str],
        *,
        batches: int | Sequence[int] | None = None,
        error: Exception | None = None,
        error_at: int | None = None,
        known_from: int = 0,
        max_symbols: int | None = None,
        **info: Unpack[InfoOptions],
    ) -> None:
        super().__init__()
        self.ticks = ticks
        self.closed = 0
        self.names, self._given = list(symbols), 0
        self._known_from = whole("known_from", known_from, 0, len(ticks))
        self._max_symbols = len(self.names) if max_symbols is None else whole("max_symbols", max_symbols, 0)
        if error is None and error_at is not None:
            raise ConfigurationError("error_at", "give the error too, error=TruncatedFeedError(...)")
        self._error = error
        self._end = whole("error_at", len(ticks) if error_at is None else error_at, 0, len(ticks))
        self._starts = _starts(batches, self._end)
        span = (int(ticks["ts_recv"].min()), int(ticks["ts_recv"].max())) if len(ticks) else None
        known: dict[str, Any] = {"format": "list", "path": "memory", "span": span, **info}
        self._info = FeedInfo(**known)

    @property
    def info(self) -> FeedInfo:
        return self._info

    @property
    def symbols(self) -> Sequence[str]:
        return self.names if self._given >= self._known_from else []

    @property
    def max_symbols(self) -> int:
        return self._max_symbols

    def count(self) -> int | None:
        """All its ticks, also where an error comes before the last of them."""
        return len(self.ticks)

    def batches(self) -> Iterator[TickBatch]:
        pieces = list(itertools.pairwise([*self._starts, self._end]))
        buffer = zeros(max((end - start for start, end in pieces), default=0))
        self._given = 0
        for start, end in pieces:
            buffer.view(np.uint8)[:] = 0  # who keeps a batch does not find its ticks there any more
            batch = buffer[: end - start]
            batch[:] = self.ticks[start:end]
            self._given = end
            yield batch
        if self._error is not None:
            raise self._error

    def statistics(self) -> dict[str, int]:
        return {"ticks": self._given}

    def close(self) -> None:
        self.closed += 1


@named_options("feed()", more=InfoOptions, like=FeedInfo)
def feed(
    records: Sequence[TickLike] | npt.NDArray[Any],
    /,
    symbols: Sequence[str] | None = None,
    *,
    batches: int | Sequence[int] | None = None,
    error: Exception | None = None,
    error_at: int | None = None,
    known_from: int = 0,
    max_symbols: int | None = None,
    **info: Unpack[InfoOptions],
) -> ListFeed:
    """Makes a feed of ticks from a list, for ``strand.replay``, ``strand.testing.reference`` and
    ``strand.testing.seeded``.

    A tick that is a dict has

    - ``symbol``, a name;
    - ``time``, ns since the epoch, which becomes ``ts_recv`` and ``ts_event``; without it, 1 ns after the tick before;
    - ``price`` in natural units (``10.25``: a number, or a Decimal), taken to the nearest 1e-9, and ``size``, a whole
      number of ``size_unit``; or for a quote ``bid``, ``bid_size``, ``ask`` and ``ask_size``, and one side may be left
      out;
    - any other field of a tick by its name: ``action``, ``side``, ``order_id``, ``flags``, ``kind``, ...

    It is a trade (``action`` T, ``side`` N) unless it says otherwise; with another ``action`` it is of kind order.
    ``sequence`` counts from 1.

    Args:
        records: The ticks: dicts, tuples ``(symbol, time, price, size)``, or an array of ``strand.TICK``, shape (n,).
            The array's ``instrument_id`` are places in ``symbols``.
        symbols: The names by index; by default those of the ticks, in the order in which they come.
        batches: The number of ticks per batch, or the positions at which batches begin (``[0, 1, 5]``; 0 may be left
            out). By default all ticks are one batch.
        error: Raised in place of the tick at position ``error_at``.
        error_at: The position of ``error``; None: behind the last tick.
        known_from: How many ticks are given before the names are known, as with a directory in mid-stream.
        max_symbols: The number of indices that the feed may use; by default as many as there are names.
        **info: Fields of ``strand.feeds.FeedInfo``: ``ticks="orders"``, ``date=``, ``venue=``, ``size_unit=``, ...

    Raises:
        ConfigurationError: If a tick or an option cannot work. The message names the option, or the tick and its field.
    """
    if isinstance(records, np.ndarray):
        if records.dtype != TICK or records.ndim != 1:
            raise ConfigurationError("ticks", f"an array of {records.dtype}, shape {records.shape}: give strand.TICK")
        if symbols is None:
            raise ConfigurationError("symbols", "give the names of the array's instrument_id, in their order")
        array, names = records, list(symbols)
    else:
        array, names = _written(records, symbols)
    return ListFeed(
        array,
        names,
        batches=batches,
        error=error,
        error_at=error_at,
        known_from=known_from,
        max_symbols=max_symbols,
        **info,
    )


def _starts(batches: int | Sequence[int] | None, end: int) -> list[int]:
    """The positions at which batches begin."""
    if batches is None:
        return [0] if end else []
    if is_whole(batches):
        return list(range(0, end, whole("batches", batches, 1)))
    cuts = [whole("batches", cut, 0) for cut in several("batches", batches, "[0, 1, 5]")]
    if cuts != sorted(cuts):
        raise ConfigurationError("batches", f"the positions {cuts} must rise")
    return [0, *(cut for cut in cuts if 0 < cut <= end)]


def _written(ticks: Sequence[TickLike], symbols: Sequence[str] | None) -> tuple[npt.NDArray[Any], list[str]]:
    names = [] if symbols is None else several("symbols", symbols, "['A', 'B']")
    index = {name: at for at, name in enumerate(names)}
    array = zeros(len(ticks))
    time = 0
    for at, given in enumerate(ticks):
        fields = _fields(at, given)
        symbol = fields.pop("symbol")
        if symbol not in index:
            if symbols is not None:
                raise ConfigurationError("ticks", f"{at}: symbol: {symbol!r} is not one of symbols")
            index[symbol] = len(names)
            names.append(symbol)
        time = fields.pop("time", time + 1)
        tick = array[at]
        tick["instrument_id"] = index[symbol]
        for name, value in {"sequence": at + 1, "ts_recv": time, "ts_event": time, **fields}.items():
            text = name in _LETTERS
            tick[name] = value if text else _whole(f"ticks: {at}: {name}", value, name)
    return array, names


def _fields(at: int, given: TickLike) -> dict[str, Any]:
    """A tick's fields as they are in ``TICK``, but for its symbol and time."""
    if isinstance(given, tuple):
        if len(given) != 4:
            raise ConfigurationError("ticks", f"{at}: {given!r} is not (symbol, time, price, size)")
        given = dict(zip(("symbol", "time", "price", "size"), given, strict=True))
    fields = dict(given)
    refuse_unknown(fields, _NAMES, f"the tick at {at}")
    if not isinstance(fields.get("symbol"), str):
        raise ConfigurationError("ticks", f"{at}: symbol: give its name")
    if fields.keys() & {"bid", "ask"}:
        bid, ask = (_price(at, side, fields.pop(side, None)) for side in ("bid", "ask"))
        quote = {"kind": KIND_QUOTE, "action": "N", "side": "N", "price": bid, "order_id": ask}
        sizes = {"size": fields.pop("bid_size", 0), "ref_id": fields.pop("ask_size", 0)}
        return quote | sizes | fields
    fields["price"] = _price(at, "price", fields.get("price"))
    kind = KIND_TRADE if fields.get("action", "T") == "T" else KIND_ORDER
    return {"kind": kind, "action": "T", "side": "N", **fields}


def _whole(where: str, value: Any, name: str) -> int:
    try:
        return whole(where, value, *limits(name))
    except ConfigurationError as error:
        if name not in ("size", "ref_id") or not isinstance(value, float | Decimal):
            raise
        raise ConfigurationError(
            error.field, f"{error.reason}: it counts units of size_unit, so 0.5 is 500 with size_unit='0.001'"
        ) from None


def _price(at: int, name: str, given: Any) -> int:
    """Price in units of 1e-9; UNDEF_PRICE for None."""
    if given is None:
        return UNDEF_PRICE
    try:
        price = round(Decimal(str(given)) * PRICE_SCALE)
    except (InvalidOperation, ValueError, OverflowError):
        price = UNDEF_PRICE
    if abs(price) < UNDEF_PRICE:
        return price
    raise ConfigurationError(
        "ticks", f"{at}: {name}: {given!r} is not a price between -9,223,372,036.85 and 9,223,372,036.85"
    )
