"""``strand top``: a run in the terminal, read from outside once a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any, ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Input, Static

from strand.brief import several
from strand.errors import AttachError, UnknownSymbolError
from strand.outside.attached import Attached
from strand.report.quantities import duration, moment, printable
from strand.screens.watched import View, Watched, WorkerRow
from strand.ticks import PRICE_SCALE

_EVERY_S: Final = 1.0
#: Of tasks there is a new sample each second.
_RATES_S: Final = 1.5
_MOST_STRANDS: Final = 100
_BOOK_LEVELS: Final = 5
#: Columns of the tables: those of workers, levels and strands.
_WORKERS: Final = ("worker", "busy", "ticks/s", "steals/s", "parks/s")
#: By column of that table, the order of the workers: that of their numbers, or the greatest first.
_ORDERS: Final[tuple[Callable[[WorkerRow], Any], ...]] = (
    lambda _: 0,
    lambda row: -(row.busy or 0),
    lambda row: -(row.handled_per_s or 0),
    lambda row: -(row.steals_per_s or 0),
    lambda row: -(row.parks_per_s or 0),
)
_LEVELS: Final = ("kind", "level", "waiting", "started/s", "wait p50", "wait p95", "wait p99", "success", "promoted")
_STRANDS: Final = ("strand", "symbols", "ticks/s", "ticks")


class Top(App[None]):
    """The screen. ``attached``: the run that it shows."""

    CSS = """
    #head { height: auto; padding: 0 1; }
    DataTable { height: auto; max-height: 40%; }
    #strands { max-height: 100%; }
    #answer { height: auto; padding: 0 1; }
    Input { display: none; }
    Input.asked { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("s", "sort", "Sort workers"),
        Binding("slash", "ask('filter')", "Filter"),
        Binding("a", "ask('symbol')", "Ask a symbol"),
        Binding("p", "pause", "Pause"),
    ]

    def __init__(self, attached: Attached) -> None:
        super().__init__()
        self._watched = Watched(attached, _RATES_S)
        self._pattern = ""
        self._asked = ""
        self._symbol = ""
        self._sort = 0
        self._paused = False

    def compose(self) -> ComposeResult:
        """The parts of the screen, from its top."""
        yield Static(id="head", markup=False)
        with VerticalScroll():
            yield DataTable(id="workers", cursor_type="none")
            yield DataTable(id="levels", cursor_type="none")
            yield Static(id="answer", markup=False)
            yield DataTable(id="strands", cursor_type="none")
        yield Input(id="input")
        yield Footer()

    def on_mount(self) -> None:
        """Sets the columns, and looks once a second from now on."""
        for name, columns in (("workers", _WORKERS), ("levels", _LEVELS), ("strands", _STRANDS)):
            self.query_one(f"#{name}", DataTable).add_columns(*columns)
        self._look()
        self.set_interval(_EVERY_S, self._look)

    def action_sort(self) -> None:
        """Sorts the workers by the next column."""
        self._sort = (self._sort + 1) % len(_WORKERS)
        self._look()

    def action_pause(self) -> None:
        """Stops looking, or goes on."""
        self._paused = not self._paused

    def action_ask(self, what: str) -> None:
        """Asks for a text: of symbols to show, or the name of one symbol."""
        self._asked = what
        field = self.query_one(Input)
        field.placeholder = "symbols that contain (empty: all)" if what == "filter" else "symbol (empty: none)"
        field.value = self._pattern if what == "filter" else self._symbol
        field.add_class("asked")
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes the text that was asked for."""
        if self._asked == "filter":
            self._pattern = event.value.strip()
        else:
            self._symbol = event.value.strip()
        event.input.remove_class("asked")
        self.screen.set_focus(None)
        self._look()

    def _look(self) -> None:
        # Textual takes the parts of a screen that closes away before it stops the timer.
        if self._paused or not self.is_running:
            return
        if self._watched.attached.has_ended:
            pid = self._watched.attached.description.pid
            self.query_one("#head", Static).update(f"the run of process {pid} has ended; below is what it showed last")
            return
        try:
            view = self._watched.look()
            strands = self._watched.hottest(_MOST_STRANDS, self._pattern)
        except AttachError as error:
            self.query_one("#head", Static).update(printable(str(error)))
            return
        self.query_one("#head", Static).update(head(view))
        workers = sorted(view.workers, key=_ORDERS[self._sort])
        self._fill(
            "workers",
            [
                [row.name, share(row.busy), *map(number, (row.handled_per_s, row.steals_per_s, row.parks_per_s))]
                for row in workers
            ],
        )
        self._fill(
            "levels",
            [
                [
                    row.kind, row.level, number(row.waiting), number(row.started_per_s),
                    *map(seconds, (row.wait_p50_s, row.wait_p95_s, row.wait_p99_s)), share(row.success),
                    number(row.promoted),
                ]
                for row in view.levels
            ],
        )  # fmt: skip
        self._fill(
            "strands",
            [[str(row.strand), printable(row.symbols), number(row.per_s), number(row.accepted)] for row in strands],
        )
        self.query_one("#answer", Static).update(self._answer())

    def _fill(self, name: str, rows: Sequence[Sequence[str]]) -> None:
        table = self.query_one(f"#{name}", DataTable)
        table.clear()
        for row in rows:
            table.add_row(*row)

    def _answer(self) -> str:
        """The row and the book of the symbol that was asked for, as text."""
        if not self._symbol:
            return ""
        try:
            look = self._watched.attached.symbol(self._symbol)
            columns = look.columns()
            cells = "  ".join(f"{name} {_cell(column[0])}" for name, column in columns.items() if name != "symbol")
            lines = [f"{self._symbol}: {cells}"]
            if self._watched.attached.keeps_book(self._symbol):
                book = self._watched.attached.book(self._symbol, _BOOK_LEVELS)
                unit = 1.0 if book.size_unit is None else book.size_unit
                for side, levels in (("ask", book.asks[::-1]), ("bid", book.bids)):
                    lines += [
                        f"  {side} {each['price'] / PRICE_SCALE:,.9g}  {each['size'] * unit:,.9g}" for each in levels
                    ]
        except (UnknownSymbolError, AttachError) as error:
            return printable(str(error))
        return printable("\n".join(lines))


def head(view: View) -> str:
    """Returns the lines above the tables."""
    now = view.snapshot
    kinds = []
    for found in (now.ticks, now.tasks):
        if found is not None:
            counts = f"{found.pending:,} pending, {sum(found.dropped.values()):,} dropped"
            per_s = number(view.accepted_per_s[found.kind])
            kinds.append(f"{found.kind}s: {found.accepted:,} accepted ({per_s}/s), {counts}")
    if now.ingest is not None and now.ingest.window:
        kinds.append(now.ingest.window)
    if (feed := now.feed) is not None:
        gaps = f"{several(feed.gaps, 'gap')} of {feed.gap_messages:,} messages"
        kinds.append(f"feed: {feed.messages:,} messages, {gaps}, {several(feed.reconnects, 'reconnect')}")
    # Not how far that is behind: in a replay that is the age of the recording.
    newest = "" if now.feed_time_ns is None else f"  newest tick {moment(now.feed_time_ns)} UTC"
    imbalance = "-" if now.imbalance is None else f"{now.imbalance:.2f}"
    lines = [
        f"{now.kind} {now.name}  process {now.pid}  {now.policy}  strand {now.version}  imbalance {imbalance}{newest}"
    ]
    return printable("\n".join([*lines, *kinds]))


def _cell(value: Any) -> str:
    return "-" if isinstance(value, float) and isnan(value) else f"{value}"


def share(value: float | None) -> str:
    """A ratio as text: ``"12.5%"``; ``"-"`` for none."""
    return "-" if value is None else f"{value:.1%}"


def number(value: float | None) -> str:
    """A count or rate as text; ``"-"`` for none."""
    return "-" if value is None else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """A time in s as text; ``"-"`` for none."""
    return "-" if value is None else duration(value * 1e9)
