"""The report: a page in HTML, or a card in a notebook, of numbers as text and figures as SVG."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strand.brief import several
from strand.errors import ConfigurationError, FeedError, MissingExtraError, called
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.io.files import check_folder
from strand.fixed import dataclass
from strand.lazy import imported
from strand.machine import describe, strand_version
from strand.output.notebook import facts_html
from strand.report import figures
from strand.report.canvas import DARK, LIGHT, PLACEHOLDERS, css, inline_svg, matplotlib
from strand.report.market import bars_of, has_prices
from strand.report.quantities import duration, feed_clock, rate
from strand.report.result_rows import result_rows
from strand.report.summary import (
    LATENCY_HEADS,
    dropped_ticks,
    latency_cells,
    latency_rows,
    left_ticks,
    policy_tables,
    queue_depth,
    shown_latency,
)

if TYPE_CHECKING:
    from strand.replaying.run_result import RunResult

ROWS: Final = 10
#: Of a line of the table of rows.
LETTERS: Final = 110
#: Workers in a table that is open; a longer one is opened by who wants it.
SHOWN: Final = 17


@dataclass(frozen=True)
class Card:
    """A figure at the head of the page."""

    name: str
    value: str
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the page; ``folded``: the line that opens it."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: str = ""
    units: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page, with its figures above its tables."""

    id: str
    title: str
    note: str = ""
    figures: Sequence[Any] = field(default=())
    tables: Sequence[Table] = field(default=())


def contents(result: RunResult, symbols: Sequence[str] | None, handler: str, error: str) -> dict[str, Any]:
    """The template's variables."""
    well, verdict = _verdict(result, error)
    missing = [name for name in symbols or () if result.timeline is None or name not in result.timeline.symbols]
    sections = (
        _throughput(result),
        _bars(result, symbols),
        _prices(result, symbols, missing),
        _workers(result),
        _latency(result),
        _symbols(result),
        _rows(result),
        _details(result),
    )
    return {
        "title": PurePath(result.info.path).name or result.info.path,
        "subtitle": _subtitle(result, handler),
        "well": well,
        "verdict": verdict,
        "warnings": result.warnings,
        "cards": _cards(result),
        "problems": [f"quarantined: {failure}" for failure in result.failures],
        "sections": [section for section in sections if section is not None],
        "footer": _footer(result),
    }


def _subtitle(result: RunResult, handler: str) -> str:
    where = result.info.path if PurePath(result.info.path).name != result.info.path else ""
    parts = [where, result.info.format, result.info.date or "", f"handler {handler}" if handler else ""]
    parts += [several(result.workers, "worker"), several(result.n_strands, "strand")]
    return " · ".join(part for part in parts if part)


def _verdict(result: RunResult, error: str) -> tuple[bool, str]:
    s = result.statistics
    dropped, left = [f"{n:,} {reason}" for reason, n in dropped_ticks(s).items()], left_ticks(s)
    skipped = [f"{n:,} {reason}" for reason, n in result.skipped.counts.items()]
    if not dropped and not left and not skipped and not s.pending and not result.failures and not error:
        text = f"All {s.handled:,} ticks handled, in order; nothing dropped, nothing skipped"
        found = len(result.warnings)
        return not found, f"{text}; {found or 'no'} warning{'s' if found != 1 else ''}."
    text = f"{s.handled:,} of {s.accepted:,} ticks handled"
    text += f"; dropped: {', '.join(dropped)}" if dropped else "; nothing dropped"
    text += f"; {left}" if left else ""
    text += f"; skipped in the file: {', '.join(skipped)}" if skipped else ""
    text += f"; {s.pending:,} still pending" if s.pending else ""
    return False, f"Ended early: {error}. {text}." if error else f"{text}."


def _cards(result: RunResult) -> list[Card]:
    s = result.statistics
    cards = [
        Card("throughput", *rate(result.ticks_per_s), f"limited by {result.limited_by}"),
        Card("ticks", f"{result.ticks:,}", "", f"of {np.count_nonzero(result.ticks_by_symbol):,} symbols"),
        Card("time", *_split(duration(result.wall_s * 1e9)), _speed(result)),
        _depth_or_latency(result),
        Card("workers busy", f"{100 * result.busy_share:.0f}", "%", f"imbalance {s.imbalance:.2f}"),
    ]
    if result.pacing is not None:
        late = result.pacing.lateness
        cards.append(
            Card("late, p99", *_split(shown_latency(late, late.percentiles[99.0])), f"at speed {result.pacing.speed:g}")
        )
    return cards


def _depth_or_latency(result: RunResult) -> Card:
    """Card of the queue depth, or, for a paced run without one, of the last latency."""
    if (depth := queue_depth(result)) is not None:
        return Card("queue depth, max", f"{depth.maximum:,}", "ticks", f"median {depth.p50:,}")
    name, latency = list(result.statistics.latencies.items())[-1]
    p50, p99 = (shown_latency(latency, latency.percentiles[p]) for p in (50.0, 99.0))
    return Card(f"{name.replace('_', ' ')}, p99", *_split(p99), f"median {p50}")


def _split(text: str) -> tuple[str, str]:
    """Splits a text into value and unit; the unit is empty where the text has none."""
    value, _, unit = text.rpartition(" ")
    return (value, unit) if value else (unit, "")


def _speed(result: RunResult) -> str:
    """Speed of the run: feed time that passed per run time."""
    timeline = result.timeline
    if timeline is None or not len(timeline) or result.info.span is None:
        return f"including {duration(result.setup_s * 1e9)} of set-up"
    first, last = result.info.span
    return f"{(last - first) / 1e9 / result.wall_s:,.0f} times as fast as recorded"


def _figure(result: RunResult, kind: str, description: str, symbols: Sequence[str] | None = None) -> Any:
    from markupsafe import Markup

    # Output of matplotlib, which escapes its input.
    return Markup(inline_svg(figures.draw(result, [kind], PLACEHOLDERS, symbols), description))


def _throughput(result: RunResult) -> Section:
    waited_s = result.pacing.waited_s if result.pacing is not None else 0.0
    spans = {
        "set-up": result.setup_s,
        result.input_work: result.input_wait_s,
        "decoding" if result.input_wait_s else "reading and decoding": result.feed_s - result.input_wait_s,
        "pacing": waited_s,
        "publishing and draining": result.wall_s - result.feed_s - result.setup_s - waited_s,
    }
    shares = [f"{name} {100 * s / result.wall_s:.0f}%" for name, s in spans.items() if s > 0.005 * result.wall_s]
    note = f"The publishing thread's time: {', '.join(shares)}."
    if result.timeline is None:
        return Section(
            "throughput",
            "Throughput and queue depth",
            note + " Not sampled: the run had timeline=False, or no workers.",
        )
    return Section(
        "throughput",
        "Throughput and queue depth",
        note,
        [
            _figure(
                result, "throughput", "Ticks handled per second, and ticks published but not yet handled, over the run"
            )
        ],
    )


def _prices(result: RunResult, symbols: Sequence[str] | None, missing: Sequence[str]) -> Section | None:
    watched = {} if result.timeline is None else result.timeline.symbols
    names = [name for name in (watched if symbols is None else symbols) if name in watched]
    drawn = [name for name in names if has_prices(watched[name].rows)]
    notes = []
    if drawn:
        minimum, maximum = (f(len(watched[name].rows) for name in drawn) for f in (min, max))
        spread = f"{minimum:,}" if minimum == maximum else f"{minimum:,} to {maximum:,}"
        notes.append(
            f"Each symbol's row at {spread} moment{'s' if maximum > 1 else ''}, each exactly as it was after "
            f"all ticks before "
            "that moment. Changes in between are not shown. Volume is drawn at the first moment that includes it."
        )
    if len(drawn) < len(names):
        notes.append(f"No prices in the rows of: {', '.join(name for name in names if name not in drawn)}.")
    if missing:
        notes.append(f"Not seen in this run: {', '.join(missing)}.")
    if not drawn:
        return Section("prices", "Market", " ".join(notes)) if missing else None
    figure = _figure(result, "prices", f"Prices and volume of {', '.join(drawn)} over the feed's time", drawn)
    return Section("prices", "Market", " ".join(notes), [figure])


def _bars(result: RunResult, symbols: Sequence[str] | None) -> Section | None:
    try:
        drawn = list(bars_of(result, symbols))
    except (FeedError, MissingExtraError) as error:
        return Section("bars", "Bars", f"{error}.")
    if not drawn:
        return None
    figure = _figure(result, "bars", f"Bars of {', '.join(drawn)} over the feed's time", drawn)
    note = (
        "A line from low to high, the open to the left, the close to the right. It is blue if the close is at or "
        "above the open."
    )
    return Section("bars", "Bars", note, [figure])


def _workers(result: RunResult) -> Section:
    rows = [
        (
            w.name,
            "" if w.core is None else str(w.core),
            f"{w.handled:,}",
            f"{100 * w.handled / max(result.statistics.handled, 1):.1f}%",
            f"{w.busy_ns / (result.wall_s * 1e7):.0f}%",
            f"{w.visits:,}",
            f"{w.stolen:,}",
            f"{w.parks:,}",
        )
        for w in result.statistics.workers
    ]
    heads = ("worker", "core", "ticks", "share", "busy", "visits", "stolen", "parks")
    drawn = [] if result.timeline is None else [_figure(result, "workers", "Load of each worker over the run")]
    handled_inline = result.statistics.handled_inline / max(result.statistics.handled, 1)
    in_blocks = result.statistics.handled_in_blocks / max(result.statistics.handled, 1)
    note = f"Imbalance {result.statistics.imbalance:.2f} (1 is even)."
    if result.statistics.unpinned is not None:
        note += f" The {result.statistics.unpinned}."
    if handled_inline > 0.0005:
        note += (
            f" {100 * handled_inline:.1f}% of the ticks were handled inline by the publisher, because that was cheaper."
        )
    if in_blocks > 0.0005:
        note += f" {100 * in_blocks:.1f}% of the ticks were handled in blocks, by all threads."
    note += f" The way of ticks: {result.statistics.ingest.said}."
    return Section(
        "workers", "Workers", note, drawn, [Table(heads, rows, f"{len(rows) - 1} workers" if len(rows) > SHOWN else "")]
    )


def _latency(result: RunResult) -> Section:
    rows, title, note = latency_rows(result.statistics), "Handler time", ""
    if result.statistics.paced:
        title = "Latency"
        note = "Wait and end to end are upper bounds: each visit counts with the wait of its oldest tick."
    elif (depth := queue_depth(result)) is not None:
        note = f"In a replay at full speed, a tick waits only for earlier ticks. {str(depth).capitalize()}."
    if result.pacing is not None:
        rows.append(("late", *latency_cells(result.pacing.lateness)))
    description = f"Distributions per tick: {', '.join(row[0] for row in rows[: len(result.statistics.latencies)])}"
    figure = _figure(result, "latency", description)
    return Section("latency", title, note, [figure], [Table(("", *LATENCY_HEADS), rows)])


def _busiest(result: RunResult, n: int) -> list[int]:
    ranked = np.argsort(-result.ticks_by_symbol[: len(result.symbols)], kind="stable")[:n]
    return [int(i) for i in ranked if result.ticks_by_symbol[i]]


def _symbols(result: RunResult) -> Section:
    note, tables = _handler_times(result)
    drawn = _figure(
        result, "symbols", "Ticks of the busiest symbols, and the share of all ticks that the n busiest have"
    )
    return Section("symbols", "Busiest symbols", note, [drawn], tables)


def _handler_times(result: RunResult) -> tuple[str, list[Table]]:
    """Table of the handlers' times for the busiest symbols, where any time was measured."""
    timeline = result.timeline
    if timeline is None:
        return "", []
    busy_ns = max(int(timeline.worker_busy_ns[-1].sum()), 1)
    busiest = _busiest(result, ROWS)
    if not timeline.handler_ticks[busiest].any():
        return "", []
    rows = []
    for i in busiest:
        ns, ticks = int(timeline.handler_ns[i]), int(timeline.handler_ticks[i])
        count = int(result.ticks_by_symbol[i])
        known = (duration(ns / ticks), duration(ns), f"{100 * ns / busy_ns:.1f}%") if ticks else ("-", "-", "-")
        rows.append((result.symbols[i], f"{count:,}", f"{100 * count / max(result.ticks, 1):.1f}%", *known))
    note = (
        "Handler time is measured for symbols with a strand of their own, and only for queued ticks, not for those "
        "handled inline."
    )
    return note, [Table(("symbol", "ticks", "share", "handler per tick", "in all", "of all handlers' time"), rows)]


def _rows(result: RunResult) -> Section | None:
    clock = feed_clock(result.info)
    try:
        found = result_rows(result, top=ROWS, clock=clock)
    except ConfigurationError as error:
        return Section("rows", "Final rows", f"{error}.")
    if found is None or not found.fields:
        return None
    shown, left = found.fitting(LETTERS, gap=2)
    note = "The state at the end of the run, in natural units. A dash means undefined."
    note += f" Fields {found.note}." if found.note else ""
    note += f" More fields are in result.rows: {', '.join(left)}." if left else ""
    heads = [field.name.replace("_", " ") for field in shown]
    units = [field.unit for field in shown]
    rows = list(zip(*(field.cells for field in shown), strict=True))
    table = Table(heads, rows, units=units if any(units) else ())
    return Section("rows", "Final rows of the busiest symbols", note, (), [table])


def _details(result: RunResult) -> Section:
    s = result.statistics
    counters = [("accepted", s.accepted), ("handled", s.handled), ("dropped", sum(s.dropped.values()))]
    counters += [(f"dropped: {reason}", n) for reason, n in s.dropped.items() if n]
    counters += [(f"dropped at the level {level}", n) for level, n in s.dropped_by_level.items() if n]
    counters += [("pending at the end", s.pending), ("handled inline", s.handled_inline)]
    counters += [("handled in blocks", s.handled_in_blocks), ("visits", s.visits)]
    counters += [
        ("strands stolen", s.stolen),
        ("visits cut by the budget", s.cut),
        ("parks", s.parks),
        ("wakes", s.wakes),
    ]
    feed = [*result.feed_statistics.items(), *((f"skipped: {k}", n) for k, n in result.skipped.counts.items())]
    tables = [Table(("ticks and events", ""), [(name, f"{n:,}") for name, n in counters])]
    tables += [Table(heads, rows) for heads, rows in policy_tables(s)]
    if feed:
        tables.append(Table(("feed", ""), [(name.replace("_", " "), f"{n:,}") for name, n in feed]))
    if result.skipped.samples:
        places = [
            (x.reason, "" if x.offset is None else f"{x.offset:,}", "" if x.line is None else f"{x.line:,}", x.text)
            for x in result.skipped.samples
        ]
        tables.append(Table(("skipped", "byte", "line", "text"), places))
    return Section("counters", "Counters", "", (), tables)


def _footer(result: RunResult) -> str:
    here = describe()
    now = datetime.now(UTC)
    where = f"{here['cpu']}, {here['cores']} cores, Linux {here['kernel']}"
    made = f"strand {strand_version()}, Python {platform.python_version()}"
    return f"Fingerprint {result.fingerprint}. {made}, {where}; {now:%Y-%m-%d %H:%M} UTC"


ENDINGS = (".html", ".htm")


def check_page_path(path: Path) -> None:
    """Checks the page's path before anything runs. Raises ConfigurationError for a path no page can be written to,
    MissingExtraError without the packages that make it."""
    if path.suffix not in ENDINGS:
        raise ConfigurationError("report", f"{Path(called(path)).name!r} must end in one of {', '.join(ENDINGS)}")
    check_folder("report", path)
    _environment()
    matplotlib()


def page(result: RunResult, *, symbols: Sequence[str] | None = None, handler: str = "", error: str = "") -> str:
    """The page as text. ``symbols``: those asked for, in order (None: those that were watched); ``handler``: its name,
    to be shown, ``error``: what ended the run early. Raises MissingExtraError without the extra ``report``."""
    environment = _environment()
    from markupsafe import Markup

    template = environment.get_template("page.html")
    text: str = template.render(
        version=strand_version(),
        light=css(LIGHT),
        dark=css(DARK),
        stylesheet=Markup(_read("page.css")),
        **contents(result, symbols, handler, error),
    )
    return text


def write_page(
    path: Path, result: RunResult, *, symbols: Sequence[str] | None = None, handler: str = "", error: str = ""
) -> None:
    """Writes the page; the file appears under its name only when it is whole."""
    text = page(result, symbols=symbols, handler=handler, error=error)
    with atomic_write(path) as file:
        file.write(text.encode())


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


def _environment() -> Any:
    jinja2 = imported("jinja2", "report", "a report")
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_read), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False
    )


BUSIEST: Final = 5


def card(result: RunResult) -> str:
    """A few lines of HTML, without style of its own."""
    s = result.statistics
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in dropped_ticks(s).items())
    ranked = np.argsort(-result.ticks_by_symbol[: len(result.symbols)], kind="stable")[:BUSIEST].tolist()
    busiest = ", ".join(
        f"{result.symbols[i]} {result.ticks_by_symbol[i]:,}" for i in ranked if result.ticks_by_symbol[i]
    )
    name, latency = list(s.latencies.items())[-1]  # end to end, where that says something
    p50, p99 = (shown_latency(latency, latency.percentiles[p]) for p in (50.0, 99.0))
    facts = {
        "warnings": "; ".join(f"{w.kind} {w.count:,} ({w.example})" for w in result.warnings) or "none",
        "file": f"{result.info.path} ({result.info.format})",
        "ticks": f"{result.ticks:,} of {np.count_nonzero(result.ticks_by_symbol):,} symbols",
        "time": f"{duration(result.wall_s * 1e9)}, limited by {result.limited_by}",
        "throughput": " ".join(rate(result.ticks_per_s)),
        name.replace("_", " "): f"p50 {p50}, p99 {p99}",
        "workers": f"{result.workers}, imbalance {s.imbalance:.2f}",
        "dropped": dropped or "nothing",
        "not handled": left_ticks(s),
        "skipped": ", ".join(f"{n:,} {reason}" for reason, n in result.skipped.counts.items()) or "nothing",
        "quarantined": "; ".join(result.failures),
        "busiest": busiest,
    }
    return facts_html(facts)
