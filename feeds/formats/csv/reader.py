"""CSV files through profiles: LOBSTER, Tardis, Binance, SSE and SZSE level 2, TAQ, Databento, or one of the user's own.

A profile says which column is which field of a tick (docs/feeds/csv.md). Arrow splits the lines; the text of prices,
sizes and times goes straight to integers, without a float in between. Extra ``[csv]``.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from strand.errors import ConfigurationError, FormatError
from strand.feeds.base import BaseFeed, FeedInfo, Skipped, TickBatch
from strand.feeds.formats.csv.columns import LONGEST_LINE
from strand.feeds.formats.csv.profile import (
    Match,
    Profile,
    built_in,
    choose,
    match,
    matches,
    named_profile,
)
from strand.feeds.formats.csv.ticks import CsvRows, TickMaker
from strand.feeds.formats.options import CsvOptions
from strand.feeds.io.prefetch import Chunks, read_chunks
from strand.feeds.io.streams import STANDARD_INPUT, names_of, open_stream, split_member
from strand.feeds.mapping.events import Rolls, with_ends
from strand.feeds.mapping.options import check_options
from strand.feeds.mapping.rules import PRICES, FieldRule, Plus, bar_ns, bars_of, place_of, symbol_in
from strand.feeds.times import as_date, date_in_name, date_in_names
from strand.options import named_options
from strand.symbols import check_name
from strand.validate import unit_power
from strand.zones import checked_zone

_CHUNK_BYTES: Final = 2 << 20
_DAY_FOLDER: Final = re.compile(r"(?:allstocks_)?\d{8}|\d{4}-\d{2}-\d{2}")
#: A folder of CoinAPI, above that of an exchange: a day, or an hour of one.
_COINAPI_FOLDER: Final = re.compile(r"D-(\d{8})(?:\d\d)?")
_HEAD_BYTES: Final = 1 << 15


def recognise(head: bytes) -> bool:
    """Tells whether a built-in profile knows a file that starts with ``head`` (whole lines of it: 4,096 bytes are
    enough)."""
    if b"\0" in head:
        return False
    return next(matches(head), None) is not None


def profiles() -> dict[str, str]:
    """The built-in profiles: what each is for, by name."""
    return {profile.name: profile.about for profile in built_in()}


@named_options("CsvFeed()", declares=CsvOptions)
class CsvFeed(BaseFeed):
    """Reads a CSV file as batches of ticks, line by line in the file's order.

    ``sequence`` is a line's place among the lines of data, from 1, unless the profile has a column for it. Times that
    run backwards are kept as they are, and counted in ``statistics()``.

    Args:
        path: The file.

    Raises:
        UnknownFormatError: If no profile, or more than one, recognises the file.
        FormatError: If a line is not as the profile says; it names the line.
        MissingExtraError: If pyarrow is not installed.
        ConfigurationError: If an option or the profile cannot work.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[CsvOptions]) -> None:
        super().__init__()
        self._levels, self._limits, self._select = options["levels"], options["limits"], options["select"]
        self._path: str | Path = STANDARD_INPUT if str(path) == STANDARD_INPUT else Path(path)
        said = check_options(inexact=options["inexact"], on_bad_record=options["on_bad_record"])
        self._skip, self._rounds = said.skips, said.rounds
        self._batch_ticks, self._max_symbols = options["batch_ticks"], options["max_symbols"]
        cores = len(os.sched_getaffinity(0))
        self._threads = min(3, cores - 1) if options["threads"] is None else options["threads"]
        self._chunks: Chunks | None = None
        with open_stream(self._path, limits=self._limits) as stream:
            head = stream.head(_HEAD_BYTES)
            self._compression = stream.compression
            names = names_of(self._path, stream)
        found = self._matched(head, options["profile"], names)
        self._match = replace(found, profile=replace(found.profile, symbol=found.symbol))
        self._match = replace(self._match, profile=_in_zone(self._match.profile, options["zone"], place_of(names)))
        self._bar_span = self._bar_length(options["bars"], place_of(names))
        if self._bar_span is not None:
            self._match = replace(self._match, profile=_ending_after(self._match.profile, *self._bar_span))
        if options["price_unit"] is not None:
            power = unit_power("price_unit", options["price_unit"])
            self._match = replace(self._match, profile=_priced(self._match.profile, power))
        self._sample = _sample(self._match, head)
        own = self._match.profile.size_power
        self._size_power = own if options["size_unit"] is None else unit_power("size_unit", options["size_unit"])
        # A date in a name is that of lines without one, and never beats the dates of lines that have theirs.
        self._is_dated = options["date"] is not None
        self._date = _date_of(names) if options["date"] is None else as_date(options["date"])
        self._symbol = self._one_symbol(options["symbol"], names)
        self._names: list[str] = [] if self._symbol is None else [self._symbol]
        try:
            self._rows = self._new_rows()
        except FormatError as error:
            raise FormatError(str(error), path=self._path, line=1) from None

    @property
    def info(self) -> FeedInfo:
        found = self._match
        power = self._maker.price_power
        details = {
            "profile": found.profile.name,
            "columns": list(found.columns),
            "delimiter": found.delimiter,
            "encoding": found.encoding,
            "compression": self._compression,
        }
        return FeedInfo(
            "csv",
            str(self._path),
            str(self._date) if self._date is not None and (self._is_dated or self._maker.needs_date) else None,
            found.profile.venue,
            None if power is None else float(f"1e{power}"),
            details=details | self._bars_of() | self._rows.rolls.details(self.symbols),
            undated=self._date is None and self._maker.needs_date,
            size_unit=float(f"1e{self._size_power}"),
            ticks=found.profile.ticks or "plain",
            ticks_assumed=found.profile.ticks is None,
            flags=found.profile.flags,
            has_sizes=found.has_sizes,
            bars=self._bars(),
            # A market that never closes has its clock in UTC, and files of any other may be in UTC, too.
            zone=None if found.profile.zone == "UTC" else found.profile.zone,
        )

    def _bars_of(self) -> dict[str, str]:
        """The zone whose days or months the bars are; nothing where they are shorter, or days of UTC."""
        zone = self._match.profile.zone
        return {} if self._bars() is None else bars_of(*(self._bar_span or (0, 0)), zone)

    def _bar_length(self, given: str | None, place: str) -> tuple[int, int] | None:
        """The length of all bars in ns, and in months; None where rows are none, or have their own."""
        rule, column = self._match.profile.bars, self._match.bar_column
        by_row = bool(column) and self._match.column(column) is not None
        if given is not None and (rule is None or by_row):
            why = "each row says its bar's length" if by_row else "its rows are no bars"
            raise ConfigurationError("bars", f"leave it out: {self._match.profile.name} says that {why}")
        if column and not by_row and given is None:
            lacks = f"{place} has no column {' or '.join(map(repr, column))}, which says their length"
            raise ConfigurationError("bars", f"{lacks}: give it, as in bars='1m'")
        return None if rule is None or by_row else rule.span(given, place)

    def _bars(self) -> int | None:
        """The length of the first row's bar, where rows are bars of trades."""
        profile = self._match.profile
        if profile.bars is None or any(rule.field == "bid_price" for rule in profile.fields):
            return None  # a quote at a bar's end holds from there on, as any quote does
        if self._bar_span is not None:
            return bar_ns(*self._bar_span)
        plus = next(rule.plus for rule in profile.fields if rule.field == "ts_recv" and rule.plus is not None)
        at = self._match.column(plus.columns)
        text = "" if at is None else self._sample.get(at, "").strip()
        return dict(plus.ns).get(text)

    @property
    def rolls(self) -> Rolls | None:
        """The instruments of names, as far as they were read; None: the file does not tell them."""
        return None if self._maker.instrument is None else self._rows.rolls

    @property
    def symbols(self) -> Sequence[str]:
        known = self._maker.names
        if known is not None:
            self._names += known[len(self._names) :]
        return self._names

    @property
    def max_symbols(self) -> int:
        return 1 if self._symbol is not None else self._max_symbols

    def statistics(self) -> dict[str, int]:
        return dict(self._rows.counts)

    def close(self) -> None:
        self._closed = True
        if self._chunks is not None:
            self._chunks.close()

    def batches(self) -> Iterator[TickBatch]:
        self._check_open()
        self.skipped = Skipped()
        self._rows = self._new_rows()
        if self._symbol is not None and self._select is not None and not self._select.keeps(self._symbol):
            return
        self._names = self._names if self._symbol is not None else []
        stream = open_stream(self._path, limits=self._limits)
        self._chunks = read_chunks(stream, chunk_bytes=_CHUNK_BYTES, headroom=LONGEST_LINE)
        rows = self._rows.ticks(self._chunks, stream, self._threads)
        profile = self._match.profile
        by_fields = bool(profile.sets_last) and profile.event != ("row",)
        try:
            for ticks in with_ends(rows, profile.event, profile.sets_last) if by_fields else rows:
                for at in range(0, len(ticks), self._batch_ticks):
                    self._check_open()
                    yield ticks[at : at + self._batch_ticks]
        finally:
            rows.close()  # type: ignore[attr-defined]

    def _matched(self, head: bytes, profile: str | os.PathLike[str] | None, names: list[str]) -> Match:
        if profile is None:
            return choose(head, self._path, names)
        if not isinstance(profile, str | os.PathLike):
            raise ConfigurationError("profile", f"give a built-in one's name, or a .toml file's path, not {profile!r}")
        found = match(named_profile(os.fspath(profile)), head, self._path)
        if isinstance(found, FormatError):
            raise found
        return found

    def _one_symbol(self, given: str | None, names: list[str]) -> str | None:
        rule = self._match.profile.symbol
        if given is not None:
            if rule.columns:
                raise ConfigurationError(
                    "symbol", f"{self._match.profile.name} has a column of symbols: leave symbol out"
                )
            return check_name("symbol", given)
        if rule.constant is not None or rule.columns:
            return rule.constant
        assert rule.file_name is not None
        return symbol_in(rule.file_name, names, self._path)

    def _new_rows(self) -> CsvRows:
        self._maker = TickMaker(
            self._match,
            self._sample,
            levels=self._levels,
            date=self._date,
            size_power=self._size_power,
            max_symbols=self._max_symbols,
            rounds=self._rounds,
            select=self._select,
        )
        return CsvRows(
            self._path,
            self._match,
            self._maker,
            skipped=self.skipped if self._skip else None,
            rounds=self._rounds,
            max_symbols=self._max_symbols,
            whole=self._compression != "none",
        )


def _in_zone(profile: Profile, given: str | None, place: str) -> Profile:
    """The profile with the zone that was given, or that is known of files in this place."""
    known = next((zone for path, zone in profile.zones if path.search(place)), profile.zone)
    zone = known if given is None else checked_zone("zone", given)
    if not zone:
        raise ConfigurationError(
            "zone",
            f"{profile.name} does not know the zone of {place}: give it, as in "
            "zone='America/New_York' (--zone America/New_York)",
        )
    return replace(profile, zone=zone)


def _ending_after(profile: Profile, ns: int, months: int) -> Profile:
    """The profile with receive times so long after the events: nobody knows a bar before its end."""
    (begin,) = (rule for rule in profile.fields if rule.field == "ts_event")
    end = replace(begin, field="ts_recv", plus=Plus((), (("", ns),), months))
    return replace(profile, fields=(*(rule for rule in profile.fields if rule.field != "ts_recv"), end))


def _priced(profile: Profile, power: int) -> Profile:
    """The profile with the power of ten that 1 in its prices is worth."""
    if not any(rule.field in PRICES and rule.columns for rule in profile.every_rule):
        raise ConfigurationError("price_unit", f"leave it out: {profile.name} reads no prices")

    def of(fields: tuple[FieldRule, ...]) -> tuple[FieldRule, ...]:
        return tuple(
            replace(rule, power=power, whole_power=None) if rule.field in PRICES and rule.columns else rule
            for rule in fields
        )

    parts = tuple(replace(part, fields=of(part.fields)) for part in profile.parts)
    return replace(profile, fields=of(profile.fields), parts=parts)


def _sample(found: Match, head: bytes) -> dict[int, str]:
    """Sample of each column: by position, the first field that is not empty, of the lines of data in ``head``."""
    sample: dict[int, str] = {}
    lines = re.split(rb"\r\n|\n|\r", head[found.skip :])
    whole = lines if len(head) < _HEAD_BYTES else lines[:-1] or lines
    for line in whole:
        text = line.decode(found.encoding, "replace")
        for at, field in enumerate(found.fields(text)):
            if field.strip():
                sample.setdefault(at, field)
        if len(sample) == len(found.columns):
            break
    return sample


def _date_of(names: list[str]) -> dt.date | None:
    """Date from a file's names, or from that of a folder that is called as a day. Standard input is in no folder."""
    if (date := date_in_names(names)) or names[0] == STANDARD_INPUT:
        return date
    folder = (split_member(Path(names[0]))[0] if not Path(names[0]).exists() else Path(names[0])).absolute().parent
    if found := _COINAPI_FOLDER.fullmatch(folder.parent.name):
        return date_in_name(found[1])
    return date_in_name(folder.name) if _DAY_FOLDER.fullmatch(folder.name) else None
