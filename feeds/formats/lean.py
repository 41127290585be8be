"""LEAN equity tick archives: zipped CSV of one symbol's trades or quotes a day.

The format is that of QuantConnect's LEAN data folder (``Data/equity/usa/tick``): times in ms since midnight in New
York, prices in 1e-4, the symbol and the date only in the names. Extra ``[csv]``.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Final, Unpack

import numpy as np

from strand.errors import ConfigurationError, FormatError
from strand.feeds.base import BaseFeed, FeedInfo, Skipped, TickBatch
from strand.feeds.formats.csv.columns import LONGEST_LINE, Scratch
from strand.feeds.formats.csv.profile import BOM, Match, named_profile
from strand.feeds.formats.csv.ticks import CsvRows, TickMaker
from strand.feeds.formats.options import LeanOptions
from strand.feeds.io.files import regular_file
from strand.feeds.io.prefetch import Chunks
from strand.feeds.io.sources import InflateLimits
from strand.feeds.io.streams import data_members, open_archive, open_member
from strand.feeds.mapping.options import check_options
from strand.feeds.merge.streams import merge_streams
from strand.feeds.times import NEW_YORK
from strand.fixed import dataclass
from strand.options import named_options
from strand.symbols import name_problem

#: Set in ``flags`` where the row is marked suspicious.
FLAG_SUSPICIOUS: Final = 1

_MEMBER = re.compile(r"(?P<date>\d{8})_(?P<symbol>.+)_(?P<kind>trade|quote)_tick\.csv", re.IGNORECASE)
_ARCHIVE = re.compile(r"(?:(?P<symbol>.+)_)?(?P<date>\d{8})_(?P<kind>trade|quote)\.zip", re.IGNORECASE)
#: Of Forex and CFD, which have no sizes, of crypto, and of futures and options, whose names end with the expiry and
#: whose prices are decimals: CSV profiles read them, or nothing does.
_NOT_EQUITY = re.compile(
    r"\d{8}_.+_(?:tick_(?:quote|trade|(?:trade|quote|openinterest)_.+)|(?:second|minute)_.+)\.csv",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LeanFile:
    """A tick archive of one symbol and day, as its names tell: ``kind`` is ``"trade"`` or ``"quote"``."""

    path: Path
    member: str
    symbol: str
    date: date
    kind: str


def named_as_lean(path: Path, tables: Sequence[str]) -> bool:
    """Tells whether the name of an archive of these CSV files, or of a member, is one that LEAN gives to equities."""
    names = [Path(name).name for name in tables]
    if any(_NOT_EQUITY.fullmatch(name) for name in names):
        return False
    return any(_MEMBER.fullmatch(name) for name in names) or (bool(names) and _ARCHIVE.fullmatch(path.name) is not None)


def lean_member(path: Path) -> LeanFile:
    """Content of an archive, from its member's name and its own name; the two must not disagree."""
    with open_archive(path) as archive:
        tables = [info.filename for info in data_members(archive) if info.filename.lower().endswith(".csv")]
    if len(tables) != 1:
        raise FormatError(f"holds {len(tables)} CSV files where a LEAN equity tick archive holds one", path=path)
    said = []
    if found := _MEMBER.fullmatch(Path(tables[0]).name):
        said.append((found["symbol"].upper(), found["date"], found["kind"].lower()))
    if found := _ARCHIVE.fullmatch(path.name):
        symbol = found["symbol"] or (path.parent.name if path.parent.parent.name == "tick" else None)
        if symbol is not None:
            said.append((symbol.upper(), found["date"], found["kind"].lower()))
    if not said:
        raise FormatError(
            f"neither its name nor its member's ({tables[0]!r}) tells symbol, date and kind: expected "
            "tick/<symbol>/<yyyymmdd>_<trade|quote>.zip, <symbol>_<yyyymmdd>_<trade|quote>.zip or a member "
            "<yyyymmdd>_<symbol>_<Trade|Quote>_Tick.csv",
            path=path,
        )
    if len(set(said)) > 1:
        raise FormatError(f"its member's name says {said[0]}, but its own name says {said[1]}", path=path)
    symbol, digits, kind = said[0]
    if problem := name_problem(symbol):
        raise FormatError(f"its name says the symbol {symbol[:80]!r}, which {problem}: rename it", path=path)
    try:
        day = datetime.strptime(digits, "%Y%m%d").date()
    except ValueError:
        raise FormatError(f"its date {digits} does not exist", path=path) from None
    return LeanFile(path, tables[0], symbol, day, kind)


def read_lean_file(
    file: LeanFile,
    key: int,
    *,
    chunk_bytes: int,
    limits: InflateLimits,
    counts: Counter[str],
    scratch: Scratch,
    skipped: Skipped | None = None,
) -> Iterator[TickBatch]:
    """Ticks of one archive, by the chunk, with ``instrument_id`` = ``key``; ``counts`` is added to.

    A row that is none raises FormatError once those before it have been given, or is added to ``skipped``.

    ``ts_recv`` is the latest ``ts_event`` so far: the file's order is the order in which the rows were recorded.
    """
    profile = named_profile(f"lean-{file.kind}s")
    with open_archive(file.path) as archive:
        stream = open_member(file.path, archive.getinfo(file.member), limits)
    chunks = Chunks(stream, chunk_bytes=chunk_bytes, headroom=LONGEST_LINE)
    try:
        skip = len(BOM) if stream.head(len(BOM)) == BOM else 0
        found = Match(profile, profile.layouts[0].columns, profile.delimiters[0], profile.encodings[0], skip, 0)
        maker = TickMaker(found, {}, date=file.date, size_power=0, max_symbols=1, scratch=scratch)
        rows = CsvRows(file.path, found, maker, skipped=skipped, rounds=None, whole=True)
        latest, told = 0, Counter[str]()
        for ticks in rows.ticks(chunks, stream, threads=0):
            np.maximum.accumulate(ticks["ts_event"], out=ticks["ts_recv"])
            np.maximum(ticks["ts_recv"], np.int64(latest), out=ticks["ts_recv"])
            ticks["instrument_id"] = key
            latest = int(ticks["ts_recv"][-1]) if len(ticks) else latest
            now = Counter(rows.counts)
            counts.update(now - told)
            told = now
            counts["times_raised"] += int(np.count_nonzero(ticks["ts_recv"] != ticks["ts_event"]))
            counts["suspicious"] += int(np.count_nonzero(ticks["flags"] & FLAG_SUSPICIOUS))
            yield ticks
    finally:
        chunks.close()


# Bytes of text that all archives of a day hold in memory together; as ticks the rows take twice that.
_CHUNKS_BYTES: Final = 64 << 20
_CHUNK_BYTES: Final = (32 << 10, 1 << 20)


@named_options("LeanFeed()", declares=LeanOptions)
class LeanFeed(BaseFeed):
    """Reads one or several LEAN equity tick archives, merged by time, then in the order given, then by position.

    The rows of an archive keep their order; where a time goes back, ``ts_recv`` is the latest time so far, and
    ``statistics()["times_raised"]`` counts such rows. Symbols are in upper case, numbered as they first appear.

    The fields of a tick:

    - ``kind``, ``action``: KIND_TRADE and ``T``, or KIND_QUOTE and ``N``.
    - ``side``: of a trade ``N``; of a quote ``B`` for a bid, ``A`` for an ask, ``N`` if the row has both or neither.
    - ``price``, ``size``: of the trade, or of the quoted side. They are the bid's if the row has both sides, and
      UNDEF_PRICE if it has neither.
    - ``order_id``: of a trade its sale condition bits; of a quote the ask's price, in the units of ``price``, if the
      row has both sides or neither, else 0.
    - ``ref_id``: of a quote the ask's size if the row has both sides, else 0; of a trade 0.
    - ``sequence``: the position in the file, from 1.
    - ``publisher_id``: the ASCII code of the exchange's letter, 0 without one.
    - ``flags``: ``FLAG_SUSPICIOUS`` if the row is marked so. The condition of a quote is not carried.

    Rows are read by the CSV profiles ``lean-trades`` and ``lean-quotes``. Archives of different days are opened one day
    after the other.

    Args:
        paths: One or several archives.

    Raises:
        FormatError: If a row is no trade or quote, unless ``on_bad_record`` is ``"skip"``; it names the line.
        ConfigurationError: If an option cannot work, or ``paths`` names no file.
        MissingExtraError: If pyarrow is not installed.
    """

    def __init__(self, paths: str | Path | Sequence[str | Path], **options: Unpack[LeanOptions]) -> None:
        super().__init__()
        named = [paths] if isinstance(paths, str | Path) else list(paths)
        if not named:
            raise ConfigurationError("paths", "name a file")
        self._batch_ticks = options["batch_ticks"]
        self._skip = check_options(on_bad_record=options["on_bad_record"]).skips
        self._limits = InflateLimits.of(options["limits"])
        self._files = [lean_member(regular_file(path)) for path in named]
        # A dict for the order in which names first appear.
        self._symbols = tuple(dict.fromkeys(file.symbol for file in self._files))
        self._counts = self._no_counts()

    @property
    def info(self) -> FeedInfo:
        dates = sorted({file.date.isoformat() for file in self._files})
        path = str(self._files[0].path) + (f" and {len(self._files) - 1} more" if len(self._files) > 1 else "")
        details = {"files": [str(file.path) for file in self._files], "dates": dates}
        date = dates[0] if len(dates) == 1 else None
        return FeedInfo("lean", path, date, details=details, zone=NEW_YORK)

    @property
    def reads(self) -> Sequence[str]:
        return [str(file.path) for file in self._files]

    @property
    def symbols(self) -> Sequence[str]:
        return self._symbols

    @property
    def max_symbols(self) -> int:
        return len(self._symbols)

    def batches(self) -> Iterator[TickBatch]:
        self._check_open()
        self._counts = self._no_counts()
        self.skipped.clear()
        # Times of one day in New York never reach into the next, so a day's archives are merged among themselves.
        by_day = sorted(self._files, key=lambda file: file.date)
        for _, files in itertools.groupby(by_day, key=lambda file: file.date):
            for batch in self._day(list(files)):
                self._check_open()
                yield batch

    def statistics(self) -> dict[str, int]:
        return dict(self._counts)

    def _day(self, files: list[LeanFile]) -> Iterator[TickBatch]:
        lowest, highest = _CHUNK_BYTES
        chunk_bytes = min(max(_CHUNKS_BYTES // len(files), lowest), highest)
        scratch = Scratch()  # shared: a day has thousands of archives
        streams = [
            read_lean_file(
                file,
                self._symbols.index(file.symbol),
                chunk_bytes=chunk_bytes,
                limits=self._limits,
                skipped=self.skipped if self._skip else None,
                counts=self._counts,
                scratch=scratch,
            )
            for file in files
        ]
        try:
            yield from merge_streams(streams, batch_ticks=self._batch_ticks)
        finally:
            for stream in streams:
                stream.close()  # type: ignore[attr-defined]

    @staticmethod
    def _no_counts() -> Counter[str]:
        return Counter({**CsvRows.no_counts(), "suspicious": 0, "times_raised": 0})
