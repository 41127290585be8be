"""The options of readers of files: their types, defaults, what each takes and its text."""

# Not with annotations as text: the declarations of options stand in types.

import datetime as dt
import os
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, TypeVar

from strand.binding.captures import MAX_HELD
from strand.feeds.base import Selection, TicksAre
from strand.feeds.io.sources import InflateLimits
from strand.feeds.mapping.column_options import ColumnOptions
from strand.options import Text, Whole

if TYPE_CHECKING:
    from strand.feeds.formats.json.profile import JsonProfile

K = TypeVar("K", bound=type[Any])
_LIMITS = "How far a compressed file may expand. None: as far as ``InflateLimits()``."


class _Packed(TypedDict, total=False):
    """Options of all files of messages."""

    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        'At a damaged record, ``"raise"`` its error, or ``"skip"`` the record, count it, and sample it in ``skipped``.',
    ]
    batch_ticks: Annotated[int, 16_384, "Ticks in a full batch.\nA multiple of 4,096 for all but DBN."]
    limits: Annotated[
        InflateLimits | None, None, "How far a compressed file may expand. None: as far as ``InflateLimits()``."
    ]


class DecodedOptions(_Packed, total=False):
    """Options of all readers with a decoder in C."""

    select: Annotated[Selection | None, None, "Only these ticks are read. None: all.\nThe decoder makes no others."]


class _Day(TypedDict, total=False):
    """Day of files that do not say it."""

    date: Annotated[
        dt.date | str | None,
        None,
        'The trading day, which the file does not say: ``datetime.date`` or ``"YYYY-MM-DD"``. None: the one in the '
        "file's name.\nWith neither, times count from 1970-01-01T00:00 instead of that day's midnight in New York, and "
        "``info.date`` is None.",
    ]


class DatedOptions(_Day, DecodedOptions, total=False):
    """Options of ``ItchFeed`` and ``PitchFeed``."""


class RecordedOptions(_Day, _Packed, total=False):
    """Options of ``RecordedFeed``."""


class _Packets(TypedDict, total=False):
    """Options of captures of a network."""

    port: Annotated[
        int | Collection[int] | None,
        None,
        "The feed's UDP destination port, or several (lines A and B). None: all packets of the transport.",
    ]
    session: Annotated[
        str | None, None, "The transport's session to read. None: the first one, and a second one is an error."
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


class CaptureOptions(_Packets, DecodedOptions, total=False):
    """Options of ``IexFeed``."""


class _Mold(_Packets, total=False):
    """Options of captures of MoldUDP64."""

    blank_headers: Annotated[
        bool,
        False,
        "Whether to read packets whose session and sequence are zeros too, as published captures have them.\nEach goes "
        "on where the last one ended. Nothing then tells of gaps, or that a second line brings the same.",
    ]


class PcapOptions(_Mold, _Day, DecodedOptions, total=False):
    """Options of ``PcapFeed``."""


class _Dbn(TypedDict, total=False):
    """Options of DBN alone."""

    levels: Annotated[int, 1, Whole(1, 10), "How many levels of an MBP-10 record become quotes."]
    bars: Annotated[
        str | None,
        None,
        'The schema of the file\'s bars, such as ``"ohlcv-1m"``, where the metadata names no schema: a recording of a '
        "live stream, or several schemas in a file.\nWithout it handlers take a bar for a trade at the bar's end.",
    ]
    max_symbols: Annotated[
        int | None,
        None,
        "The greatest number of symbols. None: those that the metadata names and 4,096 more, or 65,536 if it "
        "names none.",
    ]


class DbnOptions(_Dbn, DecodedOptions, total=False):
    """Options of ``DbnFeed``."""


class _Tables(ColumnOptions, total=False):
    """Options of readers of columns that are arrays."""

    columns: Annotated[
        Mapping[str, str | Mapping[str, Any] | None] | None,
        None,
        "A map from tick field to column, to a table of a profile's keys, or to None for no column "
        "(docs/feeds/parquet.md).\nA field that is missing from the map is recognised by common names. Of quotes "
        "there are "
        "also ``bid_price``, ``bid_size``, ``ask_price`` and ``ask_size``.",
    ]
    ticks: Annotated[
        TicksAre | None,
        None,
        "What the ticks mean, a ``TicksAre``: what is a trade, and what a fill does to its order. None: what the file "
        'says, else ``"plain"``.',
    ]
    flags: Annotated[
        Mapping[str, int] | None,
        None,
        'Masks of the ticks\' flags by meaning, the names of ``strand.feeds.Flags``: ``{"unprinted": 1}``. None: as '
        "the "
        "file says.\nElse an array of dtype ``TICK`` has Strand's own, and bits of a column have no meaning.",
    ]
    event: Annotated[
        str | Sequence[str] | None,
        None,
        'What rows of one message of the venue have in common: ``"ts_recv"``, or several fields. None: each row is an '
        "event, or the flags say where one ends.\nBooks change at the last of these rows.",
    ]
    symbol: Annotated[str | None, None, "The one symbol of a file without a column for it."]
    on_bad_record: Annotated[
        Literal["raise", "skip"], "raise", '``"raise"``, or ``"skip"`` to skip bad rows, and to count and sample them.'
    ]
    limits: Annotated[
        InflateLimits | None, None, "How far a packed file may expand. None: as far as ``InflateLimits()``."
    ]


class _Zoned(TypedDict, total=False):
    """Zone of tables that do not say it."""

    zone: Annotated[str | None, None, "The time zone of times that do not say theirs. None: UTC."]


class _Arrays(TypedDict, total=False):
    """Options of arrays of numpy alone."""

    array: Annotated[
        str | None, None, "The array of an .npz to read. None: ``ticks``, or the only one beside ``symbols``."
    ]
    max_symbols: Annotated[
        int | None,
        None,
        Whole(1),
        "The greatest number of symbols. None: as many as there are names.\nWithout names, one scan of the keys "
        "finds it.",
    ]
    batch_ticks: Annotated[int, 65_536, Whole(1), "Ticks in a full batch."]


class NpyOptions(_Arrays, _Zoned, _Tables, total=False):
    """Options of ``NpyFeed``."""

    symbols: Annotated[
        Sequence[str] | None,
        None,
        "The names by index. None: those of the array ``symbols`` of an .npz; without that every name is empty.",
    ]


class ParquetOptions(_Zoned, _Tables, total=False):
    """Options of ``ParquetFeed``."""

    max_symbols: Annotated[int | None, None, Whole(1, 1 << 24), "The greatest number of symbols. None: 65,536."]
    select: Annotated[
        Selection | None,
        None,
        "Only these ticks are read. None: all.\nRow groups whose statistics lie outside of it are not read; other "
        "rows are skipped before they become ticks.",
    ]
    batch_ticks: Annotated[int, 131_072, Whole(1, 1 << 24), "The greatest number of rows that are read at a time."]


class _Lines(TypedDict, total=False):
    """Options of CSV files alone."""

    profile: Annotated[
        str | os.PathLike[str] | None,
        None,
        Text("NAME|PATH"),
        "The name of a built-in profile, or the path of your own TOML file. None: the one built-in profile that "
        "recognises the file.",
    ]
    symbol: Annotated[
        str | None, None, "The symbol of all lines, if the file's name does not say it. None: the name says it."
    ]
    price_unit: Annotated[
        str | Decimal | None,
        None,
        'What 1 in the file\'s prices is worth, a power of ten (``"0.001"``), in place of what the profile says. '
        "None: as the profile says.",
    ]
    size_unit: Annotated[
        str | Decimal | None,
        None,
        'What 1 in a tick\'s ``size`` is worth, if amounts are no whole numbers: a power of ten (``"0.001"``). None: '
        "as the profile says.",
    ]
    inexact: Annotated[
        Literal["raise", "round"],
        "raise",
        'At a number that has more decimals than a tick, ``"raise"``, or ``"round"`` to the nearest, ties to even.\n'
        "Examples are 35821.088778456004 s with times in ns, and an amount of 0.0015 with a ``size_unit`` of 0.001. "
        '``statistics()["rows_rounded"]`` counts rounded rows. A size above 0 that rounds to 0 is an error.',
    ]
    bars: Annotated[
        str | None,
        None,
        'The length of the rows\' bars, as ``"1m"``, or ``"1mo"`` for calendar months, where the profile says that '
        "rows are bars. None: the profile or the file's path says it.",
    ]
    levels: Annotated[
        int | None, None, Whole(1, 64), "How many levels of a row that holds a book become ticks. None: all."
    ]
    max_symbols: Annotated[int, 65_536, Whole(1, 1 << 30), "The greatest number of symbols in a symbol column."]
    threads: Annotated[
        int | None,
        None,
        Whole(1, 64),
        "How many threads parse lines with quotes; other lines are split in place. None: up to three, one for each "
        "core besides the caller's.",
    ]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        '``"raise"``, or ``"skip"`` to skip lines that do not fit the profile, and to count them in ``skipped``.',
    ]
    batch_ticks: Annotated[int, 65_536, Whole(1), "The greatest number of ticks in a batch."]
    limits: Annotated[InflateLimits | None, None, _LIMITS]


class CsvOptions(_Lines, total=False):
    """Options of ``CsvFeed``."""

    date: Annotated[
        dt.date | str | None,
        None,
        "The day of files whose lines have only the time of day. None: the one in the file's name, or its folder's.\n"
        "Without it, times count from 1970-01-01T00:00.",
    ]
    zone: Annotated[
        str | None,
        None,
        "The time zone of times that do not say theirs, in place of the profile's. None: the profile says it.",
    ]
    select: Annotated[
        Selection | None,
        None,
        "Only these ticks are read. None: all.\nOf other lines only the symbol and the time are looked at.",
    ]


class LeanOptions(TypedDict, total=False):
    """Options of ``LeanFeed``."""

    batch_ticks: Annotated[int, 65_536, Whole(1), "The greatest number of ticks in a batch."]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        '``"raise"``, or ``"skip"`` to skip rows that are no trade or quote, and to count them in ``skipped``.',
    ]
    limits: Annotated[InflateLimits | None, None, _LIMITS]


class _Records(TypedDict, total=False):
    """Options of files of records of one size."""

    size_unit: Annotated[
        str | Decimal | None,
        None,
        'What 1 in a tick\'s ``size`` is worth, a power of ten (``"0.001"``). None: 1 of the instrument.',
    ]
    inexact: Annotated[
        Literal["raise", "round"],
        "raise",
        'At a volume that is no whole number of ``size_unit``, ``"raise"``, or ``"round"`` to the nearest, ties to '
        "even.",
    ]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        '``"raise"``, or ``"skip"`` to skip bad records, and what follows damage in a file, and to count and sample '
        "them.",
    ]
    batch_ticks: Annotated[int, 65_536, Whole(1, 1 << 24), "The greatest number of ticks in a batch."]
    limits: Annotated[InflateLimits | None, None, _LIMITS]
    select: Annotated[
        Selection | None, None, "Only these ticks are read. None: all.\nFiles without any are not opened."
    ]


class _Hours(TypedDict, total=False):
    """The option of files of an hour."""

    hour: Annotated[
        int | None, None, Whole(0, 23), "The hour (UTC) of a file whose name does not say it. None: the name does."
    ]


class Bi5Options(_Records, _Hours, total=False):
    """Options of ``DukascopyFeed``."""

    symbol: Annotated[str | None, None, "The instrument of a file whose folders do not say it. None: they do."]
    date: Annotated[
        dt.date | str | None,
        None,
        'The day of a file whose folders do not say it, in UTC: ``datetime.date`` or ``"YYYY-MM-DD"``. None: they do.',
    ]
    price_unit: Annotated[
        str | Decimal | None,
        None,
        'What 1 in the files\' prices is worth, a power of ten (``"0.00001"``). None: what Strand knows of the '
        "instrument.\nOf an unknown one it has to be given.",
    ]


class ScidOptions(_Records, total=False):
    """Options of ``ScidFeed``."""

    symbol: Annotated[str | None, None, "The file's symbol. None: its name up to ``.scid``."]
    price_unit: Annotated[
        str | Decimal | None,
        None,
        'What 1 in the file\'s prices is worth, a power of ten (``"0.01"``). None: currency.\nOf some sources Sierra '
        "Chart keeps whole numbers of the smallest price change.",
    ]


class _Messages(TypedDict, total=False):
    """Options of files of JSON messages."""

    batch_ticks: Annotated[int, 4_096, Whole(1), "A batch ends with the message that makes it so many ticks or more."]
    limits: Annotated[InflateLimits | None, None, _LIMITS]


class RecordedMessagesOptions(_Messages, total=False):
    """Options of ``RecordedMessages``."""

    profile: Annotated[
        "JsonProfile | Mapping[str, Any] | str | os.PathLike[str] | None",
        None,
        "Read the messages by this one: a ``JsonProfile``, a dict, or the path of a TOML file. None: by the "
        "recording's.",
    ]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        'At a damaged line, or a message that the profile cannot read, ``"raise"`` FormatError, or ``"skip"`` it.\n'
        "Messages that the live feed passed over are passed over again either way.",
    ]


class _JsonLines(_Messages, total=False):
    """Options of ``JsonLinesFeed`` but for the zone, which all files have."""

    profile: Annotated[
        "JsonProfile | Mapping[str, Any] | str | os.PathLike[str] | None",
        None,
        "A ``JsonProfile``, a dict, the path of a TOML file, or the name of a built-in one. None: the built-in profile "
        "that recognises the file.",
    ]
    symbol: Annotated[
        str | None,
        None,
        "The symbol of all messages, if the file's name does not say it. None: the name or the messages say it.",
    ]
    bars: Annotated[
        str | None,
        None,
        'The length of the messages\' bars, as ``"1m"``, where the profile says that messages are bars. None: the '
        "profile or the file's path says it.",
    ]
    size_unit: Annotated[
        str | Decimal | None,
        None,
        "What 1 in a tick's ``size`` is worth, in place of the profile's ``size_unit``. None: the profile's.",
    ]
    price_unit: Annotated[
        str | Decimal | None,
        None,
        "What 1 in the messages' prices is worth, a power of ten (``\"0.01\"``), in place of the profile's. None: the "
        "profile's.",
    ]
    inexact: Annotated[
        Literal["raise", "round"] | None,
        None,
        '``"raise"`` or ``"round"``, in place of the profile\'s ``inexact``. None: the profile\'s.',
    ]
    max_symbols: Annotated[int, 65_536, Whole(1), "The greatest number of symbols."]
    on_bad_record: Annotated[
        Literal["raise", "skip"],
        "raise",
        'At a line that is no JSON, or a message that the profile cannot read, ``"raise"`` FormatError, or ``"skip"`` '
        "it.\nMessages that no rule of the profile is for are skipped and counted either way.",
    ]


class JsonLinesOptions(_JsonLines, total=False):
    """Options of ``JsonLinesFeed``."""

    zone: Annotated[
        str | None,
        None,
        "The time zone of texts that do not say theirs, in place of the profile's. None: the profile's.",
    ]


def _types_alone(of: K) -> K:
    """A TypedDict with the types of another one alone: no default or text holds for all readers."""
    types = {name: getattr(hint, "__origin__", hint) for name, hint in of.__annotations__.items()}
    return TypedDict(of.__name__, types, total=False)  # type: ignore[operator, no-any-return]


@_types_alone
class ReaderOptions(_Hours, _Packed, _Mold, _Dbn, _Tables, _Lines, _JsonLines, _Arrays, total=False):  # type: ignore[misc]
    """Types of the options of files' readers, each the widest that a reader takes: of a name that several have, the
    last one's. The class of each reader lists its own options and their meaning."""
