"""JSON messages over a WebSocket as ticks, with reconnection. Needs the extra ``live``.

A profile gives the meaning of the messages (strand.feeds.formats.json.profile). Messages are parsed one by one in
Python: ten to forty thousand a second on one core, where MoldUDP64 has a million.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Unpack
from urllib.parse import urlsplit

from strand.errors import ConfigurationError, FeedError, MissingExtraError
from strand.feeds.base import FeedInfo, TickBatch
from strand.feeds.formats.json.profile import JsonProfile, read_profile
from strand.feeds.formats.json.reader import MessageFeed
from strand.feeds.formats.json.ticks import EVENTS, FeedEvent, JsonTicks
from strand.feeds.formats.websocket import Header, MessageRecorder
from strand.feeds.live.mold import GAP
from strand.feeds.live.options import WebSocketOptions
from strand.feeds.write.destinations import check_outputs
from strand.logs import Event
from strand.options import named_options
from strand.threads import Bell
from strand.ticks import empty

__all__ = ["EVENTS", "FeedEvent", "WebSocketFeed", "backoff_s"]

_SLICE_S: Final = 0.1


def _without_secrets(url: str) -> str:
    """URL without user, password and query, which may hold keys that no file should keep."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError("url", f"it is not a URL: {error}") from error
    scheme = f"{parts.scheme}://" if parts.scheme else ""
    return f"{scheme}{parts.netloc.rpartition('@')[2]}{parts.path}"


_EVENTS: Final = {
    "connected": Event("feed.connected", ".feeds", "INFO", "connected: %(text)s", "symbol", "missing"),
    "disconnected": Event("feed.disconnected", ".feeds", "WARNING", "disconnected: %(text)s", "symbol", "missing"),
    "gap": GAP,
}


def _tell(on_event: Callable[[FeedEvent], None] | None, event: FeedEvent) -> None:
    """Logs an event, and calls the user's function."""
    _EVENTS[event.kind](text=event.text, symbol=event.symbol, missing=event.missing)
    if on_event is not None:
        on_event(event)


def backoff_s(attempt: int, min_s: float, max_s: float, draw: Callable[[], float] = random.random) -> float:
    """Time to wait before an attempt, the first being 0: twice as long each time, less up to half of it by chance.

    The chance keeps many clients of a server that comes back from all coming at once. ``draw``: from 0 to 1.
    """
    whole = min(max_s, min_s * 2.0 ** min(attempt, 60))
    return whole * (1 - draw() / 2)


@named_options("WebSocketFeed()", declares=WebSocketOptions)
class WebSocketFeed(MessageFeed):
    """Receives ticks as the JSON messages of a WebSocket; each batch holds what has arrived.

    ``ts_recv`` is this machine's clock when the message was taken; ``ts_event`` is the same if the profile has none.
    ``sequence`` is the message's number since the start if the profile has none.

    Args:
        url: The server's ``ws://`` or ``wss://`` URL.
        profile: A ``JsonProfile``, a dict, or the path of a TOML file.

    Raises:
        ConfigurationError: If an option or the profile cannot work.
        MissingExtraError: If the package ``websockets`` is not installed.
    """

    def __init__(
        self,
        url: str,
        profile: JsonProfile | Mapping[str, Any] | str | Path,
        **options: Unpack[WebSocketOptions],
    ) -> None:
        super().__init__()
        subscribe, symbols = options["subscribe"], options["symbols"]
        self._max_symbols = max_symbols = options["max_symbols"]
        if not url.startswith(("ws://", "wss://")):
            raise ConfigurationError("url", f"{_without_secrets(url)!r} does not begin with ws:// or wss://")
        try:
            port = urlsplit(url).port
        except ValueError:
            port = 0
        if port == 0:
            raise ConfigurationError("url", f"give a port from 1 to 65535: {_without_secrets(url)!r}")
        if isinstance(subscribe, str | bytes | Mapping):
            raise ConfigurationError("subscribe", f"give a sequence of messages, not the one {subscribe!r}")
        if len(symbols) > max_symbols:
            raise ConfigurationError("symbols", f"{len(symbols):,} of them, and max_symbols is {max_symbols:,}")
        try:
            import websockets.exceptions
            import websockets.sync.client
        except ImportError as error:
            raise MissingExtraError("a WebSocket feed", "websockets", "live") from error
        self._connect = websockets.sync.client.connect
        self._closed_by_peer = websockets.exceptions.ConnectionClosed
        self._failed = (OSError, websockets.exceptions.WebSocketException)
        self._url, self._shown_url, self._options = url, _without_secrets(url), options
        record, on_bad_record = options["record"], options["on_bad_record"]
        check_outputs([("record", record)], options={"profile": profile})
        self._profile = profile if isinstance(profile, JsonProfile) else read_profile(profile)
        self._subscribe = [message if isinstance(message, str) else json.dumps(message) for message in subscribe]
        self._headers = dict(options["headers"] or {})
        # No event: its lock may be held where a signal handler calls stop.
        self._bell, self._stopped = Bell(), False
        self._started = False
        self._begun = self._heard = 0.0
        self._ticks = JsonTicks(
            self._profile, self._shown_url, on_bad_record=on_bad_record, skipped=self.skipped, symbols=symbols,
            max_symbols=max_symbols, on_event=partial(_tell, options["on_event"]),
        )  # fmt: skip
        self._recorder: MessageRecorder | None = None
        if record is not None:
            most = options["max_message_bytes"]
            header = Header(self._profile, self._shown_url, on_bad_record, symbols, max_symbols, most)
            self._recorder = MessageRecorder(record, header)

    @property
    def info(self) -> FeedInfo:
        """Description of the feed. ``path`` is the URL without user, password and query, since it is shown and written
        to reports."""
        return self._profile.info("websocket", self._shown_url, dict(self._ticks.examples))

    @property
    def is_live(self) -> bool:
        return True

    @property
    def writes(self) -> Sequence[str]:
        return () if self._recorder is None else (str(self._recorder.path),)

    def batches(self) -> Iterator[TickBatch]:
        """Yields batches of ticks; the first one is empty: it says that the feed is ready. The feed can be iterated
        once.

        Each error comes after every tick before it.

        Raises:
            FormatError: If a message cannot be read.
            FeedError: If no connection can be made.
        """
        if self._started:
            raise FeedError("a live feed can be read once", path=self._shown_url)
        self._started = True
        self._begun = self._heard = time.monotonic()
        with self._recorder if self._recorder is not None else contextlib.nullcontext():
            yield empty(0)
            yield from self._connections()

    def _connections(self) -> Iterator[TickBatch]:
        """The batches of one connection after the other."""
        attempt, options = 0, self._options
        min_s, most_s = options["reconnect_min_s"], max(options["reconnect_min_s"], options["reconnect_max_s"])
        while not self._over():
            before = self._ticks.counts["messages"]
            connected = False
            limit = min(math.inf if options["open_timeout_s"] is None else options["open_timeout_s"], self._left_s())
            try:
                with self._connect(
                    self._url,
                    open_timeout=limit if limit < math.inf else None,
                    close_timeout=1,
                    max_size=options["max_message_bytes"],
                    additional_headers=self._headers,
                ) as connection:
                    connected = True
                    self._note("connected", f"to {self._shown_url}")
                    for message in self._subscribe:
                        connection.send(message)
                    yield from self._received(connection)
                    text = "ended"
            except self._failed as error:
                text = str(error).replace(self._url, self._shown_url) or type(error).__name__
            over = self._over()
            # A failed attempt is an event even if the feed's time ended meanwhile: else nobody would hear of a wrong
            # address.
            if not (over and connected):
                self._note("disconnected", text)
            if over:
                return
            attempt = 0 if self._ticks.counts["messages"] > before else attempt
            if options["reconnect"] is not None and attempt >= options["reconnect"]:
                raise FeedError(f"no connection after {attempt} attempts to reconnect: {text}", path=self._shown_url)
            pause_s = min(backoff_s(attempt, min_s, most_s), self._left_s())
            self._bell.wait_for(lambda: self._stopped, pause_s)
            attempt += 1

    def _received(self, connection: Any) -> Iterator[TickBatch]:
        """The batches of one connection. Raises what the connection raises, after the ticks before it."""
        quiet_since, silence_s, most = time.monotonic(), self._options["silence_s"], self._options["batch_ticks"]
        while not self._over():
            fault: Exception | None = None
            try:
                self._take(connection.recv(timeout=min(_SLICE_S, max(self._left_s(), 0.0))))
                while self._ticks.pending < most and not self._limit_reached():
                    self._take(connection.recv(timeout=0))
            except TimeoutError:
                pass
            except (FeedError, *self._failed) as error:
                fault = error
            if self._ticks.pending:
                quiet_since = self._heard
                yield self._ticks.batch()
            if fault is not None:
                raise fault
            if time.monotonic() - max(quiet_since, self._heard) >= silence_s:
                raise ConnectionError(f"nothing came for {silence_s:g} s")

    def _take(self, data: str | bytes) -> None:
        """Takes a message at the current time. It is recorded first, so that the recording also has messages that are
        refused. Raises FeedError."""
        now_ns = time.time_ns()
        self._heard = time.monotonic()
        if self._recorder is not None:
            self._recorder.message(data, now_ns)
        self._ticks.take(data, now_ns)

    def _note(self, kind: Literal["connected", "disconnected"], text: str) -> None:
        now_ns = time.time_ns()
        if self._recorder is not None:
            self._recorder.event(kind, text, now_ns)
        self._ticks.note(kind, now_ns, text)

    def _limit_reached(self) -> bool:
        most = self._options["max_messages"]
        return most is not None and self._ticks.counts["messages"] >= most

    def _left_s(self) -> float:
        now, seconds, idle_s = time.monotonic(), self._options["max_seconds"], self._options["idle_timeout_s"]
        left = math.inf if seconds is None else self._begun + seconds - now
        if idle_s is not None:
            left = min(left, self._heard + idle_s - now)
        return max(left, 0.0)

    def _over(self) -> bool:
        return self._stopped or self._limit_reached() or self._left_s() <= 0

    def live_counts(self) -> Mapping[str, Any]:
        counts = self.statistics()
        return {
            "messages": counts["messages"],
            "gaps": counts["gap"],
            "gap_messages": counts["gap_messages"],
            "reconnects": max(0, counts["connected"] - 1),
            "lines": {},
            "statistics": counts,
        }

    def report(self) -> dict[str, Any]:
        """Report of the connection: the counts of ``statistics()``, and the newest events as plain values."""
        return {**self.statistics(), "events": [asdict(event) for event in self.events]}

    def stop(self) -> None:
        """Ends the iteration under way, or the next, within a tenth of a second. Any thread or a signal may call it."""
        self._stopped = True
        self._bell.ring()

    def close(self) -> None:
        """Closes as :meth:`stop` does. May be repeated."""
        self.stop()
