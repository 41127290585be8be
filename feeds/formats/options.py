"""The options of readers with a decoder, and of those of arrays; and the types of the options of all readers."""

# Not with annotations as text: the declarations of options stand in types.

import datetime as dt
import os
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from strand.binding.itch import MAX_HELD
from strand.feeds.base import Selection, TicksAre
from strand.feeds.io.sources import InflateLimits
from strand.feeds.mapping.column_options import ColumnOptions
from strand.options import Choice, Flag, Kind, Whole

if TYPE_CHECKING:
    from strand.feeds.formats.json.profile import JsonProfile

__all__ = [
    "DatedOptions", "DbnOptions", "DecodedOptions", "NpyOptions", "ParquetOptions", "PcapOptions", "ReaderOptions",
    "RecordedOptions",
]  # fmt: skip

_ANY = Kind()


class ReaderOptions(ColumnOptions, total=False):
    """Options of files' readers. The class of each reader lists its own options and their meaning."""

    on_bad_record: Literal["raise", "skip"]
    batch_ticks: int
    limits: InflateLimits | None
    profile: "JsonProfile | Mapping[str, Any] | str | os.PathLike[str] | None"
    symbol: str | None
    columns: Mapping[str, str | Mapping[str, Any] | None] | None
    ticks: TicksAre | None
    flags: Mapping[str, int] | None
    event: str | Sequence[str] | None
    array: str | None
    bars: str | None
    levels: int | None
    max_symbols: int | None
    threads: int | None
    port: int | Collection[int] | None
    session: str | None
    blank_headers: bool
    hold: int
    hold_ns: int


class _Packed(TypedDict, total=False):
    """Options of all files of messages."""

    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        Choice(("raise", "skip")),
        '``"raise"``, or ``"skip"`` to skip what is damaged, and to count and sample it in ``skipped``.',
    ]
    batch_ticks: Annotated[int, 16_384, _ANY, "Ticks in a full batch.\nA multiple of 4,096 for all but DBN."]
    limits: Annotated[
        InflateLimits | None, None, _ANY, "How far a compressed file may expand. None: as far as ``InflateLimits()``."
    ]


class DecodedOptions(_Packed, total=False):
    """Options of all readers with a decoder in C."""

    select: Annotated[
        Selection | None, None, _ANY, "Only these ticks are read.\nThe decoder makes no others. None: all."
    ]


class _Day(TypedDict, total=False):
    """Day of files that do not say it."""

    date: Annotated[
        dt.date | str | None,
        None,
        _ANY,
        'The trading day, which the file does not say: ``datetime.date`` or ``"YYYY-MM-DD"``. None: the one in the '
        "file's name.\nWith neither, times count from 1970-01-01T00:00 instead of that day's midnight in New York, and "
        "``info.date`` is None.",
    ]


class DatedOptions(_Day, DecodedOptions, total=False):
    """Options of ``ItchFeed`` and ``PitchFeed``."""


class RecordedOptions(_Day, _Packed, total=False):
    """Options of ``RecordedFeed``."""


class PcapOptions(DatedOptions, total=False):
    """Options of ``PcapFeed``."""

    port: Annotated[
        int | Collection[int] | None,
        None,
        _ANY,
        "The feed's UDP destination port, or several (lines A and B). None: all packets that look like MoldUDP64.",
    ]
    session: Annotated[
        str | None, None, _ANY, "The MoldUDP64 session to read. None: the first one, and a second one is an error."
    ]
    blank_headers: Annotated[
        bool,
        False,
        Flag(),
        "Whether to read packets whose session and sequence are zeros too, as published captures have them.\nEach goes "
        "on where the last one ended. Nothing then tells of gaps, or that a second line brings the same.",
    ]
    hold: Annotated[
        int, MAX_HELD, Whole(0, MAX_HELD), "How many packets are held while others before them are missing."
    ]
    hold_ns: Annotated[
        int,
        100_000_000,
        Whole(0),
        "How long packets are held, in ns of capture time, before what is missing counts as a gap.",
    ]


class DbnOptions(DecodedOptions, total=False):
    """Options of ``DbnFeed``."""

    levels: Annotated[int, 1, Whole(1, 10), "How many levels of an MBP-10 record become quotes."]
    bars: Annotated[
        str | None,
        None,
        _ANY,
        'The schema of the file\'s bars, such as ``"ohlcv-1m"``, where the metadata names no schema: a recording of a '
        "live stream, or several schemas in a file.\nWithout it handlers take a bar for a trade at the bar's end.",
    ]
    max_symbols: Annotated[
        int | None,
        None,
        _ANY,
        "The greatest number of symbols. None: those that the metadata names and 4,096 more, or 65,536 if it "
        "names none.",
    ]


class _TableOptions(TypedDict, total=False):
    """Options of readers of columns that are arrays."""

    columns: Annotated[
        Mapping[str, str | Mapping[str, Any] | None] | None,
        None,
        _ANY,
        "A map from tick field to column, to a table of a profile's keys, or to None for no column "
        "(docs/feeds/parquet.md).\nA field that is missing from the map is recognised by common names. Of quotes "
        "there are "
        "also ``bid_price``, ``bid_size``, ``ask_price`` and ``ask_size``.",
    ]
    constants: Annotated[
        Mapping[str, int | str | bytes] | None, None, _ANY, "Tick fields that have one value for all ticks, by name."
    ]
    price_unit: Annotated[
        str | Decimal | None,
        None,
        _ANY,
        'What 1 in the source\'s price is worth, a power of ten (``"0.01"``). None: currency.',
    ]
    size_unit: Annotated[
        str | Decimal | None, None, _ANY, "What 1 in a tick's ``size`` is worth, for quantities that are fractions."
    ]
    inexact: Annotated[
        Literal["raise", "round"],
        "raise",
        _ANY,
        "At a price that is no whole number of 1e-9, or a size that is no whole number of ``size_unit``, "
        '``"raise"``, or ``"round"`` to the nearest, ties to even.\n``statistics()["rows_rounded"]`` counts rounded '
        "rows. A size above 0 that rounds to 0 is a bad row.",
    ]
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        None,
        _ANY,
        "The unit of times that are plain numbers. None: what the file or the column's name says.\nIntegers that "
        "only ns "
        "can be need no word. Others are refused. Timestamps may have any unit.",
    ]
    zone: Annotated[str | None, None, _ANY, "The time zone of times that do not say theirs. None: UTC."]
    ticks: Annotated[
        TicksAre | None,
        None,
        _ANY,
        "What the ticks mean, a ``TicksAre``: what is a trade, and what a fill does to its order. None: what the file "
        'says, else ``"plain"``.',
    ]
    flags: Annotated[
        Mapping[str, int] | None,
        None,
        _ANY,
        'Masks of the ticks\' flags by meaning, the names of ``strand.feeds.Flags``: ``{"unprinted": 1}``. None: as '
        "the "
        "file says.\nElse an array of dtype ``TICK`` has Strand's own, and bits of a column have no meaning.",
    ]
    event: Annotated[
        str | Sequence[str] | None,
        None,
        _ANY,
        'What rows of one message of the venue have in common: ``"ts_recv"``, or several fields. None: each row is an '
        "event, or the flags say where one ends.\nBooks change at the last of these rows.",
    ]
    nulls: Annotated[
        Literal["raise", "undefined"],
        "raise",
        _ANY,
        '``"raise"``: a null or NaN is a bad row; ``"undefined"``: it is the field\'s undefined value, except in '
        "times and "
        "symbols.",
    ]
    symbol: Annotated[str | None, None, _ANY, "The one symbol of a file without a column for it."]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        _ANY,
        '``"raise"``, or ``"skip"`` to skip bad rows, and to count and sample them.',
    ]
    limits: Annotated[
        InflateLimits | None, None, _ANY, "How far a packed file may expand. None: as far as ``InflateLimits()``."
    ]


class NpyOptions(_TableOptions, total=False):
    """Options of ``NpyFeed``."""

    symbols: Annotated[
        Sequence[str] | None,
        None,
        _ANY,
        "The names by index. None: those of the array ``symbols`` of an .npz; without that every name is empty.",
    ]
    max_symbols: Annotated[
        int | None,
        None,
        Whole(1),
        "The greatest number of symbols. None: as many as there are names.\nWithout names, one scan of the keys "
        "finds it.",
    ]
    array: Annotated[
        str | None, None, _ANY, "The array of an .npz to read. None: ``ticks``, or the only one beside ``symbols``."
    ]
    batch_ticks: Annotated[int, 65_536, Whole(1), "Ticks in a full batch."]


class ParquetOptions(_TableOptions, total=False):
    """Options of ``ParquetFeed``."""

    max_symbols: Annotated[int | None, None, Whole(1, 1 << 24), "The greatest number of symbols. None: 65,536."]
    select: Annotated[
        Selection | None,
        None,
        _ANY,
        "Only these ticks are read. None: all.\nRow groups whose statistics lie outside of it are not read; other "
        "rows are "
        "skipped before they become ticks.",
    ]
    batch_ticks: Annotated[int, 131_072, Whole(1, 1 << 24), "The greatest number of rows that are read at a time."]
