"""Reader of one LEAN tick archive: the facts in its names, and its rows as ticks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Final

import numpy as np

from strand.errors import FormatError
from strand.feeds.base import TickBatch
from strand.feeds.formats.csv.lines import LONGEST_LINE
from strand.feeds.formats.csv.match import BOM, Match
from strand.feeds.formats.csv.profile import named_profile
from strand.feeds.formats.csv.rows import CsvRows
from strand.feeds.formats.csv.ticks import TickMaker
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.io.prefetch import Chunks
from strand.feeds.io.zip import ZipMemberStream, open_archive
from strand.feeds.skipped import Skipped
from strand.symbols import name_problem

__all__ = ["FLAG_SUSPICIOUS", "LeanFile", "lean_member", "named_as_lean", "read_lean_file"]

#: Set in ``flags`` where the row is marked suspicious.
FLAG_SUSPICIOUS: Final = 1

_MEMBER = re.compile(r"(?P<date>\d{8})_(?P<symbol>.+)_(?P<kind>trade|quote)_tick\.csv", re.IGNORECASE)
_ARCHIVE = re.compile(r"(?:(?P<symbol>.+)_)?(?P<date>\d{8})_(?P<kind>trade|quote)\.zip", re.IGNORECASE)
#: Of Forex and CFD, which have no sizes, of crypto, and of futures and options, whose names end with the expiry and
#: whose prices are decimals: CSV profiles read them, or nothing does.
_NOT_EQUITY = re.compile(
    r"\d{8}_.+_(?:tick_(?:quote|trade|(?:trade|quote|openinterest)_.+)|(?:second|minute)_(?:trade|quote))\.csv",
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
    if any(_NOT_EQUITY.fullmatch(name) for name in tables):
        return False
    return any(_MEMBER.fullmatch(name) for name in tables) or (
        bool(tables) and _ARCHIVE.fullmatch(path.name) is not None
    )


def lean_member(path: Path) -> LeanFile:
    """Content of an archive, from its member's name and its own name; the two must not disagree."""
    with open_archive(path) as archive:
        tables = [name for name in archive.namelist() if name.lower().endswith(".csv")]
    if len(tables) != 1:
        raise FormatError(f"holds {len(tables)} CSV files where a LEAN equity tick archive holds one", path=path)
    said = []
    if found := _MEMBER.fullmatch(tables[0]):
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
    skipped: Skipped | None = None,
) -> Iterator[TickBatch]:
    """Ticks of one archive, by the chunk, with ``instrument_id`` = ``key``; ``counts`` is added to.

    A row that is none raises FormatError once those before it have been given, or is added to ``skipped``.

    ``ts_recv`` is the latest ``ts_event`` so far: the file's order is the order in which the rows were recorded.
    """
    profile = named_profile(f"lean-{file.kind}s")
    with open_archive(file.path) as archive:
        stream = ZipMemberStream(file.path, archive.getinfo(file.member), limits)
    chunks = Chunks(stream, chunk_bytes=chunk_bytes, headroom=LONGEST_LINE)
    try:
        skip = len(BOM) if stream.head(len(BOM)) == BOM else 0
        found = Match(profile, profile.layouts[0].columns, profile.delimiters[0], profile.encodings[0], skip, 0)
        maker = TickMaker(found, {}, date=file.date, size_power=0, max_symbols=1)
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
