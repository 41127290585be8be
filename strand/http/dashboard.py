"""The live page of a run: figures, books and trades, read from outside, for all browsers that watch at once.

One sampler looks at the run while somebody watches, and makes one text of what it saw. Each browser's stream takes the
newest text when it is ready for one, so a slow one skips looks and holds nobody up.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from strand.alerts.rules import READINGS
from strand.binding.engine_words import BUCKETS_AN_OCTAVE
from strand.errors import AttachError, UnknownSymbolError
from strand.http.access import LOCAL_HOSTS, STOPPING, Hosts, body_of, is_foreign, note_call, refusal, refused
from strand.logs import Event
from strand.outside.snapshot import KindSnapshot
from strand.report.quantities import moment
from strand.screens import watched
from strand.screens.watched import View, Watched
from strand.ticks import PRICE_SCALE

if TYPE_CHECKING:
    from strand.alerts.rules import Rule
    from strand.alerts.watch import Alerts
    from strand.output.emitted import EmittedRecords
    from strand.outside.attached import Attached
    from strand.replaying.pacing import Pacer

#: Time between two looks, and the span of rates: of tasks there is a new sample each second.
_EVERY_S: Final = 0.2
_RATES_S: Final = 1.5
#: Time between two looks at all strands, and at a symbol that was not there.
_STRANDS_S: Final = 1.0
_AGAIN_S: Final = 5.0
_MOST_STREAMS: Final = 16
#: A browser that takes so long to take one text is cut off.
_SLOW_S: Final = 30.0
#: The longest wait of a reply for a replay to rest.
_REST_S: Final = 5.0
_MOST_BYTES: Final = 4096
_HOTTEST: Final = 12
_LADDER: Final = 10
_TRADES: Final = 20
#: Trades of all symbols that a tape keeps.
_TAPE: Final = 65_536
_FAILED: Final = Event("http.look_failed", ".http", "ERROR", "the page cannot show the run: %(error)s", most=1)
_SLOW: Final = Event("http.slow_page", ".http", "WARNING", "a browser took nothing for %(seconds)g s and is cut off")
_FOLDER: Final = Path(watched.__file__).with_name("page")
_FILES: Final = {
    "": "index.html", "page.js": "page.js", "page.css": "page.css", "uplot.js": "uPlot.iife.min.js",
    "uplot.css": "uPlot.min.css",
}  # fmt: skip
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Tape:
    """The last 65,536 trades of a run: a sink of the output of ``strand.trades``, ``out={"trades": tape}``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: Any = None
        self._n = 0
        self._last: EmittedRecords | None = None

    def write(self, batch: EmittedRecords, /) -> None:
        """Takes more trades; see ``strand.Sink``."""
        new = np.asarray(batch)[-_TAPE:]
        with self._lock:
            if self._records is None:
                self._records = np.zeros(_TAPE, new.dtype)
            self._records[(self._n + np.arange(len(new))) % _TAPE] = new
            self._n, self._last = self._n + len(new), batch

    def close(self) -> None:
        """Keeps the trades."""

    def abort(self) -> None:
        """Keeps the trades."""

    def last(self, symbol: str, most: int) -> list[dict[str, Any]]:
        """Returns the last trades of a symbol, the newest first: time in UTC, price, size, aggressor."""
        with self._lock:
            if self._last is None or symbol not in self._last.symbols:
                return []
            places = (self._n - 1 - np.arange(min(self._n, _TAPE))) % _TAPE
            is_its = self._records["instrument_id"][places] == self._last.symbols.index(symbol)
            found, unit = self._records[places[is_its][:most]], self._last.size_unit
        return [
            {
                "time": moment(int(trade["ts"])),
                "price": int(trade["price"]) / PRICE_SCALE,
                "size": _sized(int(trade["size"]), unit),
                "aggressor": trade["aggressor"].decode(),
            }
            for trade in found
        ]


def _sized(size: int, unit: float | None) -> float:
    return size if unit in (None, 1) else size * unit


class Turn(Struct, forbid_unknown_fields=True):
    """A change of a paced replay. ``ticks``: of a step; ``speed``: the new one, 0 for as fast as it goes."""

    action: Literal["pause", "resume", "step", "speed", "reset"]
    ticks: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1
    speed: Annotated[float, Meta(ge=0, le=1e9)] = 1.0


class _Watcher:
    """A browser that watches, and the symbol that it asks; empty: none."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol


class _Stream(StreamingResponse):
    """An endless reply. A client that does not take a part in time is cut off. ``ended``: called at the end."""

    def __init__(self, content: AsyncGenerator[str, None], ended: Callable[[], None]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(_SLOW_S):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            _SLOW(seconds=_SLOW_S)  # the server closes a reply that has no end
        finally:
            self._ended()


class Dashboard(Starlette):
    """The live page of a run, an ASGI application that ``app.dashboard(attached)`` mounts.

    Args:
        attached: The run; None: it is set later, as ``attached``.
        alerts: A watch over the run, whose alerts that fire are shown; None: the page says that nobody watches.
        tape: The trades of the run, where they are kept.
        pacer: The pacer of the run, a replay: the page pauses and steps it, and sets its speed. It may be replaced.
        reset: Begins the replay anew, and returns False if it cannot do so now; None: it cannot be asked.
        hosts: Hosts that a request may name; ``"*"``: any.
    """

    def __init__(
        self,
        attached: Attached | None = None,
        *,
        alerts: Alerts | None = None,
        tape: Tape | None = None,
        pacer: Pacer | None = None,
        reset: Callable[[], bool] | None = None,
        hosts: Collection[str] = LOCAL_HOSTS,
    ) -> None:
        self.attached = attached
        self.alerts, self.tape, self.pacer = alerts, tape, pacer
        self._reset, self._hosts = reset, Hosts(hosts)
        self._watchers: set[_Watcher] = set()
        self._sampler: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        #: The number of the newest look, what it saw of the run, and of each symbol that is asked.
        self._newest: tuple[int, str, dict[str, str]] = (0, "null", {})
        routes = [Route(f"/{path}", _sends(name)) for path, name in _FILES.items()]
        routes += [Route("/events", self._events), Route("/replay", self._turn, methods=["POST"])]
        super().__init__(
            routes=routes,
            exception_handlers={HTTPException: refused},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] == "http" and (fault := self._hosts.fault(Headers(scope=scope))) is not None:
            await refusal(400, fault)(scope, receive, send_with_headers)
        else:
            await super().__call__(scope, receive, send_with_headers)

    @property
    def attached(self) -> Attached | None:
        """The run that is shown. Any thread may set another one."""
        return None if self._watched is None else self._watched.attached

    @attached.setter
    def attached(self, attached: Attached | None) -> None:
        self._watched = None if attached is None else Watched(attached, _RATES_S)
        self._strands: tuple[float, list[Any]] = (0.0, [])
        self._unknown: dict[str, tuple[float, str]] = {}

    # -- for all browsers

    async def _sample(self) -> None:
        """Looks at the run while somebody watches."""
        while self._watchers:
            begun = time.monotonic()
            symbols = {watcher.symbol for watcher in self._watchers} - {""}
            try:
                run, found = await run_in_threadpool(self._look, symbols)
                text = json.dumps(run, allow_nan=False)
                texts = {symbol: json.dumps(one, allow_nan=False) for symbol, one in found.items()}
            except Exception as error:  # the page says so, and the next look may do better
                _FAILED(error=error, exc_info=True)
                text, texts = json.dumps({"state": "unreadable", "error": str(error)}), {}
            self._newest = self._newest[0] + 1, text, texts
            self._changed.set()
            self._changed = asyncio.Event()
            await asyncio.sleep(max(0.0, begun + _EVERY_S - time.monotonic()))

    def _look(self, symbols: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reads the run, and some symbols, as JSON has them."""
        shown, replay = self._watched, self._replay_now()
        if shown is None:
            return {"state": "not begun", "replay": replay}, {}
        has_ended = shown.attached.has_ended
        view, now_s = shown.look(), time.monotonic()
        if now_s - self._strands[0] >= _STRANDS_S:
            hottest = shown.hottest(_HOTTEST)
            rows = [{"symbols": row.symbols, "accepted": row.accepted, "per_s": row.per_s} for row in hottest]
            self._strands = now_s, rows
        run = figures(view) | {
            "state": "ended" if has_ended else "running",
            "strands": self._strands[1],
            "alerts": None if self.alerts is None else [_alert(*at) for at in self.alerts.firing],
            "handlers": [handler.name for handler in shown.attached.description.handlers],
            "paced": shown.attached.description.paced,
            "replay": replay,
        }
        return run, {symbol: self._asked(shown.attached, symbol, now_s) for symbol in symbols}

    def _asked(self, attached: Attached, symbol: str, now_s: float) -> dict[str, Any]:
        """Row, book and last trades of a symbol. Names are looked up one by one, so an unknown one is not asked for at
        each look."""
        until, fault = self._unknown.get(symbol, (0.0, ""))
        if now_s < until:
            return {"name": symbol, "error": fault}
        try:
            found = symbol_now(attached, symbol)
        except (UnknownSymbolError, AttachError) as error:
            if len(self._unknown) > _MOST_STREAMS:
                self._unknown.clear()
            self._unknown[symbol] = now_s + _AGAIN_S, str(error)
            return {"name": symbol, "error": str(error)}
        return found | {"trades": None if self.tape is None else self.tape.last(symbol, _TRADES)}

    def _replay_now(self) -> dict[str, Any] | None:
        if (pacer := self.pacer) is None:
            return None
        time_ns = pacer.time_ns
        return {
            "position": pacer.ticks,
            "time": None if time_ns is None else moment(time_ns),
            "speed": pacer.speed,
            "paused": pacer.paused,
            "resets": self._reset is not None,
        }

    # -- for each

    async def _events(self, request: Request) -> Response:
        if is_foreign(request.headers):
            return refusal(403, "a page of another site watches nothing here")
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if len(self._watchers) >= _MOST_STREAMS:
            return refusal(429, f"{_MOST_STREAMS} pages watch already: close one", {"Retry-After": "5"})
        watcher = _Watcher(request.query_params.get("symbol", "")[:200])
        is_stopping: Callable[[], bool] = request.scope.get(STOPPING, lambda: False)

        async def texts() -> AsyncGenerator[str, None]:
            seen = self._newest[0]
            while not is_stopping():
                changed = self._changed
                if self._newest[0] == seen:
                    await changed.wait()
                seen, run, symbols = self._newest
                yield f'data: {{"run":{run},"symbol":{symbols.get(watcher.symbol, "null")}}}\n\n'

        self._watchers.add(watcher)
        if self._sampler is None or self._sampler.done():
            self._sampler = asyncio.create_task(self._sample())
        return _Stream(texts(), lambda: self._watchers.discard(watcher))

    async def _turn(self, request: Request) -> Response:
        try:
            response = await self._turned(request)
        except msgspec.DecodeError as error:
            response = refusal(400, str(error))
        note_call(request, response.status_code)
        return response

    async def _turned(self, request: Request) -> Response:
        if is_foreign(request.headers):
            return refusal(403, "a page of another site changes nothing here")
        if (pacer := self.pacer) is None:
            return refusal(404, "the run is no replay that this page paces")
        turn = await body_of(request, Turn, _MOST_BYTES)
        attached = self.attached
        if turn.action == "reset":
            if self._reset is None or not self._reset():
                return refusal(409, "the replay cannot begin anew now")
        elif attached is None or attached.has_ended:
            return refusal(409, "the replay is not running: it has ended, or has not begun yet")
        elif turn.action == "speed":
            pacer.speed = turn.speed
        elif turn.action == "resume":
            pacer.resume()
        else:
            if turn.action == "pause":
                pacer.pause()
            else:
                pacer.step(ticks=turn.ticks)
            await run_in_threadpool(pacer.wait, _REST_S)
        return JSONResponse(self._replay_now())


def _sends(name: str) -> Callable[[Request], Response]:
    def send(_: Request) -> Response:
        return FileResponse(_FOLDER / name)

    return send


def _alert(rule: Rule, level: str) -> dict[str, Any]:
    reading = READINGS[rule.reading]
    return {
        "rule": rule.name, "level": level, "severity": rule.severity, "limit": rule.limit, "is_low": rule.is_low,
        "text": reading.text, "unit": reading.unit,
    }  # fmt: skip


def figures(view: View) -> dict[str, Any]:
    """The figures of a look as JSON has them: times in s, shares from 0 to 1, null for what is undefined."""
    now = view.snapshot
    kinds = [found for found in (now.ticks, now.tasks) if found is not None]
    lag = now.feed_lag_ns
    return {
        "at": now.at_ns / 1e9,
        "name": now.name, "pid": now.pid, "version": now.version, "kind": now.kind, "policy": now.policy,
        "recorded": now.recorded,
        "lag": None if lag is None else lag / 1e9,
        "feed_time": None if now.feed_time_ns is None else moment(now.feed_time_ns),
        "backlog": now.outputs_backlog,
        "imbalance": now.imbalance,
        "kinds": [_kind(found, view.accepted_per_s[found.kind]) for found in kinds],
        "workers": [
            {"name": row.name, "busy": row.busy, "handled": row.handled_per_s, "steals": row.steals_per_s}
            for row in view.workers
        ],
        "levels": [
            {
                "kind": row.kind, "level": row.level, "waiting": row.waiting, "started": row.started_per_s,
                "p95": row.wait_p95_s, "p99": row.wait_p99_s, "success": row.success, "promoted": row.promoted,
            }
            for row in view.levels
        ],
    }  # fmt: skip


def _kind(found: KindSnapshot, per_s: float | None) -> dict[str, Any]:
    figures = found.since_start if found.window is None else found.window
    ends = {name: n for name, n in found.since_start.total.ended.items() if name not in ("handled", "done")}
    times = {name: getattr(figures.total, name) for name in ("wait", "handler", "end_to_end")}
    floors = times["wait"].floors_ns[::BUCKETS_AN_OCTAVE]
    starts = np.arange(0, len(times["wait"].counts), BUCKETS_AN_OCTAVE)
    octaves = np.array([np.add.reduceat(latency.counts, starts) for latency in times.values()])
    hit = np.flatnonzero(octaves.any(axis=0))
    span = slice(hit[0], hit[-1] + 1) if len(hit) else slice(0, 0)
    return {
        "kind": found.kind, "accepted": found.accepted, "per_s": per_s, "pending": found.pending,
        "not_well": {**found.dropped, **ends},
        "seconds": figures.seconds,
        "from": (floors[span] / 1e9).tolist(),
        "times": {name: counts[span].tolist() for name, counts in zip(times, octaves, strict=True)},
    }  # fmt: skip


def symbol_now(attached: Attached, symbol: str) -> dict[str, Any]:
    """The row of a symbol, and the best levels of its book, as JSON has them.

    Raises:
        UnknownSymbolError: If the run has no such symbol.
        AttachError: If it is a scheduler, or the memory is damaged.
    """
    look = attached.symbol(symbol)
    row = {name: _plain(column) for name, column in look.columns().items() if name != "symbol"}
    found: dict[str, Any] = {"name": symbol, "row": row, "in_visit": look.in_visit, "asks": None, "bids": None}
    if attached.keeps_book(symbol):
        book = attached.book(symbol, _LADDER)
        for name, side in (("asks", book.asks), ("bids", book.bids)):
            found[name] = [
                [price / PRICE_SCALE, _sized(size, book.size_unit), orders] for price, size, orders in side.tolist()
            ]
        found["in_visit"] |= book.in_visit
    return found


def _plain(column: Any) -> Any:
    """The one value of a column: a number, text, or None for what is undefined."""
    value = column.tolist()[0]
    if column.dtype.kind == "M":
        return None if value is None else moment(value)
    if value is None or isinstance(value, (str, int)):
        return value
    return (value if isfinite(value) else None) if isinstance(value, float) else str(value)
