"""Commands on options in a file, and on a run of another process: ``strand config``, ``stat``, ``describe``, ``top``,
``metrics`` and ``alerts``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import zip_longest
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from strand.binding.engine_words import BUCKETS_AN_OCTAVE
from strand.binding.outside import MAX_LEVELS
from strand.brief import several
from strand.command.parameters import declared, json_option, logging_to_standard_error, ranged, show
from strand.config.configuration import Config, check_file
from strand.config.file import format_of, template
from strand.errors import ConfigurationError
from strand.feeds.io.files import small_text
from strand.http.options import ServerOptions
from strand.lazy import imported
from strand.logs import EVENTS
from strand.options import options_in
from strand.outside.attached import Attached, BookLook, Look, attach
from strand.outside.snapshot import KindSnapshot
from strand.report.quantities import duration, moment, printable
from strand.report.tables import latency_table, print_policy
from strand.stats import Statistics
from strand.ticks import PRICE_SCALE

if TYPE_CHECKING:
    from strand.alerts.watch import Alert

_WRONG = 2
_PID: Final = click.argument("pid", type=click.IntRange(1))
_PORT: Final = options_in(ServerOptions)["port"]
NAME: Final = declared(options_in(attach)["name"])
MONITORING: Final = click.option(
    "--config",
    type=click.Path(),
    metavar="FILE",
    help="File with the table `monitoring`; without it the usual rules of alerts hold.",
)


@click.group("config")
def config() -> None:
    """Write, check and show configuration files, for `strand replay --config` and strand.Config."""


@config.command("init")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--yaml", "as_yaml", is_flag=True, help="Write strand.yaml when no FILE is given.")
@json_option("text")
def init(file: Path | None, as_yaml: bool, as_json: bool) -> None:
    """Write all options with their defaults and meanings to FILE.

    FILE is strand.toml by default; its ending selects TOML or YAML. It is an error if FILE already exists.
    """
    path = file or Path("strand.yaml" if as_yaml else "strand.toml")
    form = format_of(path)
    if as_yaml and form != "yaml":
        raise click.UsageError(f"--yaml: {path} ends in {path.suffix}: leave out one of the two")
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(template(form))
    except FileExistsError:
        raise ConfigurationError(f"{path}: already exists: give another name, or remove it") from None
    show(as_json, {"file": str(path), "format": form}, lambda console: console.print(f"{escape(str(path))} written"))


@config.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@json_option("text")
def check(file: Path, as_json: bool) -> None:
    """Check FILE, and list all problems. The exit status is 0, or 2 if there is a problem."""
    _, problems = check_file(file)
    if as_json:
        listed = [{"field": problem.field, "problem": problem.reason} for problem in problems]
        click.echo(json.dumps({"file": str(file), "problems": listed}))
    for problem in () if as_json else problems:
        click.echo(printable(f"strand: {file}: {problem}"), err=True)
    if problems:
        sys.exit(_WRONG)
    if not as_json:
        click.echo(printable(f"{file}: no problems"))


@config.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@json_option("a table")
def show_(file: Path, as_json: bool) -> None:
    """Show the options that FILE gives: each key, its value, and where the value comes from."""
    entries = Config.load(file).entries()
    plain: dict[str, Any] = {"file": str(file), "entries": [asdict(entry) for entry in entries]}

    def human(console: Console) -> None:
        origins = Column("from", overflow="fold")
        table = Table(Column("key", no_wrap=True), Column("value", overflow="fold"), origins)
        for entry in entries:
            value = "not set" if entry.value is None else json.dumps(entry.value, ensure_ascii=False)
            table.add_row(*map(escape, (entry.key, value, entry.origin)))
        console.print(table)

    show(as_json, plain, human)


#: Quantities that are in a feed's own units where nobody knows what 1 is worth.
_OF_SIZES: Final = frozenset(("size", "total", "size squared", "notional"))
_OWN_UNITS: Final = "[yellow]sizes are in the units of each feed, which differ[/]"
#: Columns of tables that are no numbers.
_OF_TEXT: Final = frozenset(("level", "worker", "symbols", "state", "field", "value"))
#: Types that JSON has.
_PLAIN: Final = (int, float, str)


@click.command("stat")
@click.argument("pid", type=click.IntRange(1))
@NAME
@click.option("--symbol", "symbols", multiple=True, metavar="NAME", help="Show the row of this symbol too. Repeatable.")
@click.option(
    "--levels",
    type=click.IntRange(0, MAX_LEVELS),
    default=5,
    metavar="N",
    help="Number of book levels to show for each --symbol that has a book.",
)
@click.option("--histograms", is_flag=True, help="Show histograms of the latencies too.")
@click.option("--strands", is_flag=True, help="List all strands that have received ticks.")
@json_option("tables")
def stat(
    pid: int, name: str | None, symbols: tuple[str, ...], levels: int, histograms: bool, strands: bool, as_json: bool
) -> None:
    """Show a dispatcher or scheduler of process PID that was made with attachable=True or by `strand replay
    --attachable`.

    It keeps running, and nothing is locked. Each counter is exact, but not all are from the same moment.
    Histograms count ticks by octave of time; in JSON by bucket, where floors_ns has the lower bounds.
    """
    attached = attach(pid, name=name)
    statistics, figures = attached.statistics(), attached.snapshot()
    looks = [attached.symbol(symbol) for symbol in symbols]
    books = [attached.book(symbol, levels) for symbol in symbols if levels and attached.keeps_book(symbol)]
    listed = sorted(attached.looks(), key=lambda look: look.strand) if strands else []
    plain = _plain(attached, statistics, looks, listed) | {"books": [_book(book) for book in books]}
    plain["figures"] = figures.as_dict()
    if histograms:
        plain["histograms"] = _histograms(statistics)

    def human(console: Console) -> None:
        _print(console, attached, statistics)
        for kind in (figures.ticks, figures.tasks):
            if kind is not None and (kind.kind == "task" or len(figures.levels) > 1):
                _print_figures(console, kind)
        if histograms:
            _print_histograms(console, statistics)
        if own := {**figures.own_counters, **figures.own_gauges}:
            table = _table("field", "value", title="the program's own numbers")
            for name_of, value in own.items():
                table.add_row(name_of, f"{value:,}")
            console.print(table)
        for look in looks:
            _print_row(console, look)
        if listed:
            _print_strands(console, attached, listed)
        for book in books:
            _print_book(console, book)

    show(as_json, plain, human)


def _plain(attached: Attached, s: Statistics, looks: list[Look], listed: list[Look]) -> dict[str, Any]:
    about = attached.description
    return {
        "pid": about.pid,
        "name": about.name,
        "version": about.version,
        "made_at": about.made_at,
        "configuration": dict(about.configuration),
        "handlers": [handler.name for handler in about.handlers],
        "outputs": list(about.outputs),
        "strands": attached.n_strands,
        "statistics": s.as_dict(),
        "symbols": [_row(look) for look in looks],
        "by_strand": [_strand(look) for look in listed],
    }


def _histograms(s: Statistics) -> dict[str, Any]:
    """Ticks by bucket. A bucket ends where the next begins."""
    counts = {name: latency.counts.tolist() for name, latency in s.latencies.items()}
    return {"floors_ns": s.handler.floors_ns.tolist()} | counts


def _row(look: Look) -> dict[str, Any]:
    return {
        "strand": look.strand,
        "handler": look.handler,
        "in_visit": look.in_visit,
        "size_unit": look.size_unit,
        "row": {name: _defined(column.tolist()[0]) for name, column in look.columns().items()},
    }


def _defined(value: Any) -> Any:
    """JSON value of a value, in lists too; None where it is undefined."""
    if isinstance(value, list):
        return [_defined(one) for one in value]
    if value is None or (isinstance(value, float) and isnan(value)):
        return None
    return value if isinstance(value, _PLAIN) else str(value)


def _text(value: Any, *, is_time: bool) -> str:
    """Text for people of a value from ``_defined``."""
    if isinstance(value, list):
        return f"[{', '.join(_text(one, is_time=is_time) for one in value)}]"
    if value is None:
        return "-"
    return moment(value) if is_time else str(value)


def _book(book: BookLook) -> dict[str, Any]:
    """Prices in units of currency; sizes in units of the instrument, or in the feeds' where ``size_unit`` is None."""
    sides = {"bids": book.bids, "asks": book.asks}
    levels = {name: [_level(book, level) for level in side.tolist()] for name, side in sides.items()}
    return {"symbol": book.symbol, "in_visit": book.in_visit, "size_unit": book.size_unit, **levels}


def _level(book: BookLook, level: tuple[int, int, int]) -> dict[str, float]:
    price, size, orders = level
    unit = 1 if book.size_unit in (None, 1) else book.size_unit
    return {"price": price / PRICE_SCALE, "size": size * unit, "orders": orders}


def _strand(look: Look) -> dict[str, Any]:
    counts = look.counts
    return {
        "strand": look.strand,
        "symbols": list(look.symbols),
        "accepted": counts.accepted,
        "handled": counts.handled,
        "pending": counts.pending,
        "paused": counts.paused,
        "quarantined": counts.quarantined,
        "in_visit": look.in_visit,
    }


def _print_figures(console: Console, kind: KindSnapshot) -> None:
    """Figures by level of the last 5 minutes."""
    if kind.window is None:
        return
    ends = tuple(kind.window.total.ended)
    title = f"{kind.kind}s of the last {duration((kind.window.seconds or 0.0) * 1e9)}"
    table = _table("level", "waiting", "started", *ends, "wait p95", "wait p99", "run p99", title=title)
    for name, found in kind.window.levels.items():
        times = (found.wait.percentile(95), found.wait.percentile(99), found.handler.percentile(99))
        table.add_row(
            name,
            f"{kind.waiting.get(name, 0):,}",
            f"{found.started:,}",
            *(f"{n:,}" for n in found.ended.values()),
            *("-" if ns is None else duration(ns) for ns in times),
        )
    console.print(table)


def _table(*columns: str, title: str | None = None) -> Table:
    """An empty one."""
    table = Table(title=title, box=SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, justify="left" if name in _OF_TEXT else "right")
    return table


def _print(console: Console, attached: Attached, s: Statistics) -> None:
    about = attached.description
    what = f"[bold]{escape(about.name)}[/] of " if about.name else ""
    handlers = escape(", ".join(handler.name for handler in about.handlers))
    who = f"{what}process [bold]{about.pid}[/] (strand {escape(about.version)})"
    if about.kind == "scheduler":
        console.print(f"{who}: a scheduler of {several(len(s.workers) - 1, 'worker')}, {about.policy}")
        print_policy(console, s, box=SIMPLE_HEAD)
        return
    console.print(f"{who}: {handlers}; {attached.n_strands:,} strands")
    lost = ", ".join(f"{n:,} {why}" for why, n in s.dropped.items() if n)
    console.print(
        f"accepted {s.accepted:,}; handled {s.handled:,}; {'pending' if s.paced else 'queue depth'} {s.pending:,}"
        + (f"; dropped: {lost}" if lost else "")
        + f"; handled inline {s.handled_inline:,}, in blocks {s.handled_in_blocks:,}"
    )
    console.print(f"way: {escape(s.ingest.said)}")
    if s.ingest.window:
        console.print(escape(s.ingest.window))
    console.print(latency_table(s, box=SIMPLE_HEAD))
    table = _table("worker", "ticks", "visits", "stolen", "parks")
    for worker in s.workers:
        table.add_row(
            worker.name, f"{worker.handled:,}", f"{worker.visits:,}", f"{worker.stolen:,}", f"{worker.parks:,}"
        )
    console.print(table)
    print_policy(console, s, box=SIMPLE_HEAD)


def _print_histograms(console: Console, s: Statistics) -> None:
    """A row an octave, from the first to the last that any of them has ticks in."""
    floors = s.handler.floors_ns[::BUCKETS_AN_OCTAVE]
    starts = np.arange(0, len(s.handler.floors_ns), BUCKETS_AN_OCTAVE)
    counts = np.array([np.add.reduceat(latency.counts, starts) for latency in s.latencies.values()])
    there = np.flatnonzero(counts.any(axis=0))
    table = _table("from", "to", *(name.replace("_", " ") for name in s.latencies), title="ticks by time")
    for at in range(there[0], there[-1] + 1) if len(there) else ():
        to = floors[at + 1] if at + 1 < len(floors) else 2 * floors[at]
        table.add_row(duration(floors[at]), duration(to), *(f"{n:,}" for n in counts[:, at].tolist()))
    console.print(table)


def _print_row(console: Console, look: Look) -> None:
    times = {name for name, column in look.columns().items() if column.dtype.kind == "M"}
    table = _table("field", "value", title=f"{escape(look.symbols[0])} ({escape(look.handler)})")
    for name, value in _row(look)["row"].items():
        table.add_row(escape(name), escape(_text(value, is_time=name in times)))
    console.print(table)
    if look.size_unit is None and any(unit.quantity in _OF_SIZES for unit in look.units.values()):
        console.print(_OWN_UNITS)
    if look.in_visit:
        console.print("[yellow]in a visit for 100 ms: the row may mix several moments[/]")


def _print_book(console: Console, book: BookLook) -> None:
    table = _table("orders", "size", "bid", "ask", "size", "orders", title=escape(book.symbol))
    sides = [[_level(book, level) for level in side.tolist()] for side in (book.bids, book.asks)]
    for bid, ask in zip_longest(*sides):
        table.add_row(*_cells(bid), *reversed(_cells(ask)))
    console.print(table)
    if book.size_unit is None:
        console.print(_OWN_UNITS)
    if book.in_visit:
        console.print("[yellow]in a visit for 100 ms: the book may mix several moments[/]")


def _cells(level: dict[str, float] | None) -> tuple[str, str, str]:
    return (
        ("", "", "") if level is None else (f"{level['orders']:,}", f"{level['size']:,.12g}", f"{level['price']:,.9g}")
    )


def _print_strands(console: Console, attached: Attached, listed: list[Look]) -> None:
    table = _table("strand", "symbols", "accepted", "handled", "pending", "state")
    for look in listed:
        counts = look.counts
        states = (("paused", counts.paused), ("quarantined", counts.quarantined), ("in visit", look.in_visit))
        table.add_row(
            str(look.strand),
            escape(attached.symbols_of(look.strand, 3)),
            f"{counts.accepted:,}",
            f"{counts.handled:,}",
            f"{counts.pending:,}",
            ", ".join(word for word, so in states if so),
        )
    console.print(table)


#: Seconds between two looks whether the run is still there.
_LOOK_S: Final = 1.0


@click.command("metrics")
@click.argument("pid", type=click.IntRange(1), required=False)
@NAME
@ranged(replace(_PORT, text="Serve them on 127.0.0.1 until interrupted; 0 is any free port.", default=None), 0, 65535)
@click.option("--grafana", is_flag=True, help="Print a dashboard for Grafana 9 or later, of all metrics of all runs.")
def metrics(pid: int | None, name: str | None, port: int | None, grafana: bool) -> None:
    """Print the metrics of process PID in Prometheus' text format, or serve them.

    The process has to have been started with --attachable, or with attachable=True.
    """
    from strand.metrics import DASHBOARD, Machine, exposition, serving

    if grafana:
        click.echo(DASHBOARD.read_bytes(), nl=False)
        return
    if pid is None:
        raise click.UsageError("give PID, the process whose metrics to print, or --grafana")
    attached, machine = attach(pid, name=name), Machine()
    if port is None:
        click.echo(exposition(attached.snapshot(), machine.read()), nl=False)
        return
    with serving(pid, lambda: (attached.snapshot(), machine.read()), port) as url:
        click.echo(url, err=True)
        _while_it_runs(attached)


@click.command("describe")
@_PID
@NAME
@json_option("a table")
def describe(pid: int, name: str | None, as_json: bool) -> None:
    """Show what was chosen for a run of process PID: cores, strands, policy, limits, memory, versions.

    The process has to have been started with --attachable, or with attachable=True.
    """
    about = attach(pid, name=name).description
    plain = {**about.choices, "made_at": moment(int(about.made_at * 1e9)), "levels": list(about.levels)}

    def human(console: Console) -> None:
        table = Table(box=None, show_header=False)
        for key, value in _flat(plain):
            table.add_row(escape(key), escape(printable(value)))
        console.print(table)

    show(as_json, plain, human)


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Keys and values of nested tables as lines."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, list):
            yield f"{before}{key}", ", ".join(map(str, value)) or "-"
        else:
            is_count = isinstance(value, int) and not isinstance(value, bool) and key not in ("pid", "layout")
            yield f"{before}{key}", f"{value:,}" if is_count else "-" if value in (None, "") else str(value)


@click.command("top")
@_PID
@NAME
def top(pid: int, name: str | None) -> None:
    """Show process PID in the terminal: workers, levels, waits, hottest strands, a symbol's row and book.

    The process has to have been started with --attachable, or with attachable=True.
    """
    imported("textual", "tui", "strand top")
    from strand.screens.top import Top

    Top(attach(pid, name=name)).run()


@click.group("alerts")
def alerts() -> None:
    """Watch a run by rules, and write the rules for Prometheus."""


@alerts.command("export")
@MONITORING
def export(config: str | None) -> None:
    """Print a file of rules for Prometheus 2.42 or later: the same limits on the metrics that it scrapes."""
    from strand.alerts.export import prometheus_rules

    click.echo(json.dumps(prometheus_rules(_config(config).alerts), indent=1))


@alerts.command("run")
@_PID
@NAME
@MONITORING
@click.option("--webhook", metavar="URL", help="https URL that gets each alert as JSON.")
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File whose text signs what the webhook gets.",
)
@json_option(text="Print each alert as one line of JSON")
@logging_to_standard_error
def run(
    pid: int, name: str | None, config: str | None, webhook: str | None, secret_file: Path | None, as_json: bool
) -> None:
    """Watch process PID until it ends or this command is interrupted, and print each alert."""
    from strand.alerts.watch import Alerts
    from strand.alerts.webhook import Webhook
    from strand.metrics import Readings

    if secret_file is not None and webhook is None:
        raise ConfigurationError("secret_file", "signs what a webhook gets: give --webhook too")
    secret = None if secret_file is None else small_text(secret_file, "secret_file").strip().encode()
    if secret == b"":
        raise ConfigurationError("secret_file", f"{secret_file} is empty")
    hook = None if webhook is None else Webhook(webhook, secret)
    attached = attach(pid, name=name)

    def tell(alert: Alert) -> None:
        show(
            as_json,
            alert.as_dict(),
            lambda console: console.print(printable(_line(alert)), markup=False, highlight=False),
        )

    logged = EVENTS["alert"].most
    EVENTS["alert"].most = 0  # ``tell`` prints them, and the rest of the log goes to standard error
    try:
        with Alerts(Readings(attached), _config(config).alerts, on_alert=tell, webhook=hook):
            _while_it_runs(attached)
    finally:
        EVENTS["alert"].most = logged


def _config(path: str | None) -> Config:
    return Config() if path is None else Config.load(path)


def _line(alert: Alert) -> str:
    return f"{alert.as_dict()['time']} {alert.severity} {alert.rule} {alert.state}: {alert.text}"


def _while_it_runs(attached: Attached) -> None:
    """Returns when the run has ended, which its process may outlive."""
    while not attached.has_ended:
        time.sleep(_LOOK_S)
