"""``strand info`` and ``cat``: contents of files as a summary, and tick by tick, as text or as a stream of Arrow. No
number of a tick is rounded."""

from __future__ import annotations

import csv
import datetime as dt
import json
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import numpy as np
import numpy.typing as npt

from strand import feeds
from strand.binding.columns import Showing, ShownColumn, count_by_symbol
from strand.brief import several
from strand.command.ending import forget_standard_output
from strand.command.parameters import (
    Reads,
    SectionedCommand,
    complete_files,
    json_option,
    names,
    progress,
    reading,
    show,
)
from strand.errors import ConfigurationError, EmptyFeedError, FeedError, UnknownSymbolError
from strand.feeds.base import COLUMNS, numbered, shown_ticks, skipped_of, tick_stream
from strand.feeds.merge.selected import empty_feed, unknown_symbol
from strand.report.quantities import printable, text_width
from strand.report.summary import skipped_as_dict
from strand.report.tables import print_info
from strand.ticks import KIND_ORDER, KIND_QUOTE, KIND_STATUS, KIND_TASK, KIND_TRADE
from strand.units import NO_SIZE_UNIT, meaning_of, unit_of
from strand.zones import clock_of, zone_data

if TYPE_CHECKING:
    from strand.feeds import Feed, FeedInfo, TickBatch

#: The columns in their order. An index of a symbol means nothing outside of a run.
SHOWN: Final = tuple("symbol" if name == "instrument_id" else name for name in COLUMNS.names or ())
#: The same, the most telling first: a narrow terminal shows as many of them as it has room for.
_TELLING: Final = ("ts_recv", "symbol", "action", "side", "price", "size", "bid_price", "bid_size", "ask_price",
                   "ask_size", "kind", "number", "sequence", "order_id", "ts_event")  # fmt: skip
_TEXTS: Final = frozenset(("symbol", "action", "side", "kind", "ts_event", "ts_recv"))
_KINDS: Final = {KIND_ORDER: "order", KIND_TRADE: "trade", KIND_QUOTE: "quote", KIND_STATUS: "status",
                 KIND_TASK: "task"}  # fmt: skip
#: Four blanks, as ITCH has them in place of the letters of a reason, which are a status's ``ref_id``.
_BLANKS: Final = int.from_bytes(b"    ", "big")
#: Lines of a table that have their widths in common.
_BLOCK: Final = 500
_QUARTER_NS: Final = 15 * 60 * 10**9
_SECOND: Final = 10**9

#: Values of a column: texts and whole numbers, None where there is no value.
Cells = list[Any]
Rows = dict[str, Cells]


class Found(NamedTuple):
    """The ticks to show, as far as they were read: numbers of ticks, and whether the feed was read to its end."""

    read: int = 0
    shown: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    ended: bool = False


@click.command("cat", cls=SectionedCommand, sections={"Output": ("--head", "--tail", "--columns", "--to", "--json")})
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@click.option("--head", type=click.IntRange(1), metavar="N", help="Show the first N ticks; reading ends there.")
@click.option(
    "--tail",
    type=click.IntRange(1),
    metavar="N",
    help="Show the last N ticks. Of numpy, Parquet and plain DBN files only the end is read.",
)
@click.option("--columns", metavar="NAMES", help="Show these columns, in this order. Commas separate them.")
@click.option(
    "--to",
    type=click.Choice(("table", "csv", "jsonl", "arrow")),
    default="table",
    help="The form: a table, CSV, JSON lines, or a stream of Arrow.",
)
@reading
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all that the table says.")
def cat(
    files: tuple[str, ...], head: int | None, tail: int | None, columns: str | None, to: str, reads: Reads,
    as_json: bool,
) -> None:  # fmt: skip
    """Show the ticks of files: symbols, times in the files' zone, exact prices and sizes.

    Several files are merged by time. `-` is standard input.
    """
    chosen = _chosen_columns(columns)
    feed = reads.open(files)
    try:
        shown = _Ticks(feed, reads, head, tail)
        if feed.info.size_unit is None and {"size", "bid_size", "ask_size"} & set(chosen):
            raise ConfigurationError("size_unit", NO_SIZE_UNIT)
        if as_json:
            _print_json(feed, shown, chosen)
        elif to == "arrow":
            _write_arrow(feed, shown, chosen)
        elif to == "table":
            _print_table(feed, shown, chosen)
        else:
            _print_lines(feed, shown, chosen, to)
        sys.stdout.flush()
        if to != "table" and not as_json and shown.note:
            click.echo(shown.note, err=True)
    except BrokenPipeError:  # who read the lines has seen enough
        forget_standard_output()
    finally:
        feed.close()


def _chosen_columns(given: str | None) -> list[str]:
    wanted = names(given, "columns") if given is not None else list(SHOWN)
    for name in wanted or ():
        if name not in SHOWN:
            raise ConfigurationError("columns", f"{name!r} is not one of {', '.join(SHOWN)}")
    return list(dict.fromkeys(wanted or ()))


class _Ticks:
    """The ticks to show. Iterating reads the feed, and gives batches, each with the number of its first tick.

    ``found``: what was read so far.
    """

    def __init__(self, feed: Feed, reads: Reads, head: int | None, tail: int | None) -> None:
        self._feed, self._reads, self._head, self._tail = feed, reads, head, tail
        self.found = Found()
        self._skips = False

    @property
    def note(self) -> str:
        """A sentence that says how many ticks were read for a tail; empty if no more were read than are shown."""
        if self._tail is None or self.found.read <= self.found.shown:
            return ""
        return f"read {self.found.read:,} ticks for the last {self._tail:,}" + (
            "" if self._skips else ": these files have no way to their end"
        )

    def __iter__(self) -> Iterator[tuple[int, TickBatch]]:
        for number, ticks in self._chosen():
            if not len(ticks):
                continue
            times = ticks["ts_recv"]
            first, last = int(times.min()), int(times.max())
            was = self.found
            self.found = was._replace(
                shown=was.shown + len(ticks),
                first_ns=first if was.first_ns is None else min(first, was.first_ns),
                last_ns=last if was.last_ns is None else max(last, was.last_ns),
            )
            yield number, ticks

    def _chosen(self) -> Iterator[tuple[int, TickBatch]]:
        head, tail = self._head, self._tail
        if tail is None:
            most = self._reads.limit if head is None else head
            yield from self._read(numbered(self._feed.batches()), most)
            return
        if (total := self._total()) is not None:
            if head is not None:
                yield from self._read(numbered(self._feed.batches()), min(head, total))
            yield from self._end(min(tail, total - self.found.read), total)
            return
        kept, window = deque[tuple[int, Any]](), 0
        with progress("reading", self._reads.limit, quiet=False) as advance:
            advance.opened(self._feed)
            for number, ticks in self._read(numbered(self._feed.batches()), None):
                advance(self.found.read)
                begin = min(max((head or 0) - number, 0), len(ticks))
                if begin:
                    yield number, ticks[:begin]
                begin = max(begin, len(ticks) - tail)
                kept.append((number + begin, ticks[begin:].copy()))
                window += len(ticks) - begin
                while window - len(kept[0][1]) >= tail:
                    window -= len(kept.popleft()[1])
        for number, ticks in kept:
            spare = max(window - tail, 0)
            window -= len(ticks)
            if spare < len(ticks):
                yield number + spare, ticks[spare:]

    def _total(self) -> int | None:
        """The number of ticks of a feed that has a way to its end; None: it has none, or a limit ends it before."""
        if self._reads.limit is not None:
            return None
        total: int | None = getattr(self._feed, "count", lambda: None)()
        own: Callable[[int], object] = getattr(self._feed, "last_batches", lambda _: None)
        return None if not total or own(0) is None else total

    def _end(self, tail: int, total: int) -> Iterator[tuple[int, TickBatch]]:
        """The last ticks of such a feed."""
        self._skips = True
        own: Any = self._feed
        batches, read = own.last_batches(tail) if tail else (), 0
        parts = deque[Any]()
        for ticks in batches:
            parts.append(ticks.copy())
            read += len(ticks)
            while read - len(parts[0]) >= tail:
                read -= len(parts.popleft())
            self.found = self.found._replace(read=self.found.read + len(ticks))
        spare = read - tail
        for ticks in parts:
            yield total - read + spare, ticks[spare:]
            read, spare = read - len(ticks), 0
        self.found = self.found._replace(ended=True)

    def _read(self, batches: Iterable[tuple[int, TickBatch]], head: int | None) -> Iterator[tuple[int, TickBatch]]:
        """Batches up to the limit, or to ``head``; an error at the feed's end as other commands have it."""
        most = min((n for n in (head, self._reads.limit) if n is not None), default=None)
        for number, ticks in batches:
            part = ticks if most is None else ticks[: most - self.found.read]
            self.found = self.found._replace(read=self.found.read + len(part))
            yield number, part
            if self.found.read == most:
                return
        self.found = self.found._replace(ended=True)
        if (fault := self._fault()) is not None:
            raise fault

    def _fault(self) -> FeedError | UnknownSymbolError | None:
        reads = self._reads
        unknown = unknown_symbol(self._feed, feeds.read_symbols(reads.symbols or ()))
        if unknown is not None or self.found.read or reads.allow_empty:
            return unknown
        found: EmptyFeedError = empty_feed(self._feed, selected=bool(reads.symbols or reads.start or reads.end))
        return found


# ---- cells


def _rows(feed: Feed, ticks: _Ticks, chosen: Sequence[str]) -> Iterator[Rows]:
    """The chosen columns, some thousand ticks at a time."""
    columns = [
        ShownColumn(name, 0 if name in ("symbol", "action", "side") else COLUMNS[name].itemsize, Decimal(1))
        for name in chosen
    ]
    clock = _Clock(feed.info)
    for part, made, _ in shown_ticks(feed, ticks, columns):
        found: Rows = {}
        for name, shown in zip(chosen, made, strict=True):
            if len(shown.ends):
                data, ends = shown.values.tobytes(), shown.ends.tolist()
                found[name] = [data[a:b].decode() or None for a, b in pairwise(ends)]
            else:
                found[name] = _cells(name, shown, len(part), feed.info, clock)
        if "ref_id" in found:
            blank = (part["kind"] == KIND_STATUS) & (part["ref_id"] == _BLANKS)
            for place in np.flatnonzero(blank).tolist():
                found["ref_id"][place] = None
        yield found


def _cells(name: str, shown: Showing, rows: int, info: FeedInfo, clock: _Clock) -> Cells:
    values = np.frombuffer(shown.values, COLUMNS[name].base.str, rows)
    quantity, cells = meaning_of(COLUMNS[name]).quantity, list[Any]()
    if shown.undefined == rows:
        return [None] * rows
    if name == "kind":
        cells = [_KINDS.get(kind) for kind in values.tolist()]
    elif quantity == "time":
        cells = clock.texts(values)
    elif quantity in ("price", "size"):
        cells = _decimals(values, unit_of(COLUMNS[name], info.size_unit).scale or Decimal(1))
    else:
        cells = values.tolist()
    if shown.undefined:
        valid = np.unpackbits(shown.valid, count=rows, bitorder="little").tolist()
        cells = [cell if defined else None for cell, defined in zip(cells, valid, strict=True)]
    return cells


def _decimals(values: npt.NDArray[Any], scale: Decimal) -> Cells:
    """Whole numbers times a power of ten, exactly: whole numbers again where the power is 1, else texts."""
    if scale == 1:
        whole: Cells = values.tolist()
        return whole
    distinct, places = np.unique(values, return_inverse=True)
    texts = [_decimal(value, scale) for value in distinct.tolist()]
    return [texts[place] for place in places.tolist()]


def _decimal(value: int, scale: Decimal) -> str:
    digits = -scale.adjusted()
    if digits <= 0:
        return str(value * 10**-digits)
    whole, rest = divmod(abs(value), 10**digits)
    fraction = f"{rest:0{digits}}".rstrip("0")
    return f"{'-' * (value < 0)}{whole}{'.' * bool(fraction)}{fraction}"


class _Clock:
    """Times of a feed in its zone, as ISO 8601. Where no day is known, they have no offset."""

    def __init__(self, info: FeedInfo) -> None:
        self._zone = clock_of(info.zone, undated=info.undated).zone
        self._undated = info.undated

    def texts(self, times: npt.NDArray[Any]) -> Cells:
        """Times, ns since the epoch, shape (n,)."""
        if self._undated:
            bare: Cells = np.datetime_as_string(times.view("<M8[ns]")).tolist()
            return bare
        quarters, places = np.unique(times // _QUARTER_NS, return_inverse=True)
        known = [self._offset(quarter * (_QUARTER_NS // _SECOND)) for quarter in quarters.tolist()]
        shifts = np.array([offset for offset, _ in known], np.int64)[places]
        local = np.datetime_as_string((times + shifts * _SECOND).view("<M8[ns]")).tolist()
        return [f"{text}{known[place][1]}" for text, place in zip(local, places.tolist(), strict=True)]

    def _offset(self, second: int) -> tuple[int, str]:
        """The offset of the zone, in seconds and as a text."""
        offset = dt.datetime.fromtimestamp(second, self._zone).utcoffset() or dt.timedelta()
        seconds = round(offset.total_seconds())
        if not seconds:
            return 0, "Z" if self._zone is dt.UTC else "+00:00"
        minutes, rest = divmod(abs(seconds), 60)
        tail = f":{rest:02}" if rest else ""
        return seconds, f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}{tail}"


# ---- forms


def _print_lines(feed: Feed, ticks: _Ticks, chosen: Sequence[str], to: str) -> None:
    out = sys.stdout
    if to == "csv":
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(chosen)
        for rows in _rows(feed, ticks, chosen):
            writer.writerows(zip(*rows.values(), strict=True))
        return
    for rows in _rows(feed, ticks, chosen):
        for each in zip(*rows.values(), strict=True):
            out.write(json.dumps(dict(zip(chosen, each, strict=True)), ensure_ascii=False) + "\n")


def _print_json(feed: Feed, ticks: _Ticks, chosen: Sequence[str]) -> None:
    """One object, written as the ticks come."""
    info, out, separator = feed.info, sys.stdout, ""
    head: dict[str, Any] = {
        "path": info.path, "format": info.format, "date": info.date, "zone": info.zone, "undated": info.undated,
        "size_unit": info.size_unit, "columns": list(chosen),
    }  # fmt: skip
    out.write(json.dumps(head)[:-1] + ', "ticks": [')
    symbols: dict[str, None] = {}
    for rows in _rows(feed, ticks, chosen):
        symbols.update(dict.fromkeys(rows.get("symbol", ())))
        for each in zip(*rows.values(), strict=True):
            out.write(separator + json.dumps(dict(zip(chosen, each, strict=True))))
            separator = ", "
    found = ticks.found
    foot = {
        "symbols": [symbol for symbol in symbols if symbol], "first_ns": found.first_ns, "last_ns": found.last_ns,
        "shown": found.shown, "read": found.read, "read_to_the_end": found.ended,
        "skipped": skipped_as_dict(skipped_of(feed)),
    }  # fmt: skip
    out.write("], " + json.dumps(foot)[1:] + "\n")


def _write_arrow(feed: Feed, ticks: _Ticks, chosen: Sequence[str]) -> None:
    from strand.lazy import imported

    ipc = imported("pyarrow.ipc", "parquet", "writing Arrow")
    zone = None if feed.info.undated else feed.info.zone or "UTC"
    stream = tick_stream(feed, "decimal", batches=ticks, only=chosen, zone=zone, exact=True)
    out: Any = sys.stdout.buffer
    if out.isatty():
        raise ConfigurationError("to", "Arrow is no text for a terminal: redirect it to a file or a program")
    with ipc.new_stream(out, stream.schema.empty_table().select(chosen).schema) as writer:
        for batch in stream:
            writer.write_batch(batch.select(chosen))


def _print_table(feed: Feed, ticks: _Ticks, chosen: Sequence[str]) -> None:
    info, symbols = feed.info, dict[str, None]()
    clock = clock_of(info.zone, undated=info.undated)
    counted: Callable[[], int | None] = getattr(feed, "count", lambda: None)
    count = counted()
    head = [info.format, *([several(count, "tick")] if count is not None else []), f"times in {clock.name}"]
    _say(f"{info.path}: {', '.join(head)}{'; give --date' if info.undated else ''}")
    table = _Table(chosen)
    for rows in _rows(feed, ticks, chosen):
        symbols.update(dict.fromkeys(rows.get("symbol", ())))
        size = len(next(iter(rows.values()), ()))
        for at in range(0, size, _BLOCK):
            table.write({name: cells[at : at + _BLOCK] for name, cells in rows.items()})
    found = ticks.found
    span = ""
    if found.first_ns is not None and found.last_ns is not None:
        first, last = _Clock(info).texts(np.array([found.first_ns, found.last_ns]))
        span = f", {first} to {last}"
    named = f" of {several(len(symbols), 'symbol')}" if "symbol" in chosen else ""
    end = "" if found.ended else "; there may be more"
    _say(f"{several(found.shown, 'tick')}{named}{span}{f'; {ticks.note}' if ticks.note else end}")
    for reason, n in skipped_of(feed).counts.items():
        _say(f"skipped: {n:,} {reason}")


def _say(line: str) -> None:
    sys.stdout.write(printable(line) + "\n")


class _Table:
    """Lines of a table. Its head comes again where other columns have values, or cells are wider.

    On a terminal no line is wider than the terminal: the head names the columns that are left out.
    """

    def __init__(self, chosen: Sequence[str]) -> None:
        self._chosen = chosen
        self._widths: dict[str, tuple[int, int]] = {}
        self._room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None

    def write(self, rows: Rows) -> None:
        """Writes some lines."""
        texts = {name: [_cell(cell) for cell in cells] for name, cells in rows.items()}
        filled = [name for name in self._chosen if any(texts[name])]
        widths = {name: _width(texts[name]) for name in filled}
        known = self._widths
        fits = all(
            name in known and all(a <= b for a, b in zip(widths[name], known[name], strict=True)) for name in filled
        )
        if not fits:
            self._widths = known = {
                name: (max(a for a, _ in pair), max(b for _, b in pair))
                for name in self._chosen
                if (pair := [of[name] for of in (known, widths) if name in of])
            }
            self._head()
        shown = self._shown()
        lines = zip(*(_aligned(name, texts[name], known[name]) for name in shown), strict=True)
        sys.stdout.writelines("  ".join(line).rstrip() + "\n" for line in lines)

    def _shown(self) -> list[str]:
        if self._room is None:
            return list(self._widths)
        ranked = sorted(self._widths, key=(*_TELLING, *SHOWN).index)
        room, kept = self._room + 2, set[str]()
        for name in ranked:
            width = max(sum(self._widths[name]), len(name)) + 2
            if width > room and kept:
                break
            room -= width
            kept.add(name)
        return [name for name in self._widths if name in kept]

    def _head(self) -> None:
        shown = self._shown()
        if left := [name for name in self._widths if name not in shown]:
            _say(f"no room for {', '.join(left)}: choose by --columns")
        heads = (_padded(name, max(sum(self._widths[name]), len(name)), left=name in _TEXTS) for name in shown)
        sys.stdout.write("  ".join(heads).rstrip() + "\n")


def _cell(cell: Any) -> str:
    if cell is None:
        return ""
    return printable(cell) if isinstance(cell, str) else str(cell)


def _width(texts: Sequence[str]) -> tuple[int, int]:
    """Letters before the point, and from it on, that the widest of each takes. Texts have no point here."""
    parts = [text.partition(".") for text in texts]
    if all(part[0].lstrip("-").isdecimal() for part in parts if part[0]):
        return max(len(part[0]) for part in parts), max(len(part[1] + part[2]) for part in parts)
    return max(map(text_width, texts)), 0


def _aligned(name: str, texts: Sequence[str], width: tuple[int, int]) -> Iterator[str]:
    whole = max(sum(width), len(name))
    if name in _TEXTS or not width[1]:
        return (_padded(text, whole, left=name in _TEXTS) for text in texts)
    parts = (text.partition(".") for text in texts)
    return (_padded(f"{part[0]:>{width[0]}}{(part[1] + part[2]):<{width[1]}}", whole, left=False) for part in parts)


def _padded(text: str, width: int, *, left: bool) -> str:
    spaces = " " * (width - text_width(text))
    return text + spaces if left else spaces + text


@click.command("info", cls=SectionedCommand)
@click.argument("files", nargs=-1, required=True, shell_complete=complete_files)
@reading
@click.option("-v", "--verbose", is_flag=True, help="Show all counters of the feed, including those of reading.")
@json_option("a table")
def info(files: tuple[str, ...], reads: Reads, verbose: bool, as_json: bool) -> None:
    """Show what files contain: format, messages, symbols, time span, busiest symbols. Reads the files to their end."""
    feed, limit = reads.open(files), reads.limit
    try:
        counts = np.zeros(feed.max_symbols, dtype=np.int64)
        total, first_ns, last_ns = 0, None, None
        fault: FeedError | UnknownSymbolError | None = None
        with progress("reading", reads.limit, as_json) as advance:
            advance.opened(feed)
            try:
                for batch in feed.batches():
                    if limit is not None:
                        batch = batch[: limit - total]
                    if not len(batch):  # it may say that time has passed
                        continue
                    count_by_symbol(batch, counts)
                    times = batch["ts_recv"]
                    first_ns = int(times.min()) if first_ns is None else min(first_ns, int(times.min()))
                    last_ns = int(times.max()) if last_ns is None else max(last_ns, int(times.max()))
                    total += len(batch)
                    advance(total)
                    if total == limit:
                        break
                else:
                    fault = unknown_symbol(feed, feeds.read_symbols(reads.symbols or ()))
                    if fault is None and total == 0 and not reads.allow_empty:
                        fault = empty_feed(feed, selected=bool(reads.symbols or reads.start or reads.end))
            except FeedError as error:
                fault = error
        found = _found(feed.info, list(feed.symbols), counts, first_ns, last_ns, dict(feed.statistics()))
        found["skipped"] = skipped_as_dict(skipped_of(feed))
    finally:
        feed.close()
    if fault is not None:
        found["error"] = str(fault)
    show(as_json, found, lambda console: print_info(console, found, verbose=verbose))
    if fault is not None:
        raise fault


def _found(
    told: FeedInfo, names: list[str], counts: Any, first_ns: int | None, last_ns: int | None, statistics: dict[str, int]
) -> dict[str, Any]:
    ranked = np.argsort(-counts, kind="stable")
    total = int(counts.sum())
    active = int(np.count_nonzero(counts))
    top = [
        {"symbol": names[i] if i < len(names) and names[i] else f"#{i}", "ticks": int(counts[i])}
        for i in ranked[: min(10, active)].tolist()
    ]
    shares = {f"top_{n}": float(counts[ranked[:n]].sum() / total) if total else 0.0 for n in (1, 10, 100, 500)}
    return {
        "path": told.path,
        "format": told.format,
        "date": told.date,
        "undated": told.undated,
        "zone": told.zone,
        "time_zones": f"IANA {zone_data()}",
        "size_unit": told.size_unit,
        "ticks": total,
        "symbols": sum(1 for name in names if name),
        "symbols_with_ticks": active,
        "first_ns": first_ns,
        "last_ns": last_ns,
        "share_of_ticks": shares,
        "busiest": top,
        "details": told.details,
        "statistics": statistics,
    }
