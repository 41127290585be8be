"""JSON messages over a WebSocket as ticks, with reconnection. Needs the extra ``live``, or ``picows``.

A profile gives the meaning of the messages (strand.feeds.formats.json.profile). The messages that have come make a
batch. Two packages make connections: websockets, and picows, which costs a tenth per message.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import contextlib
import json
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, Protocol, Unpack
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from strand.background import Background
from strand.errors import ConfigurationError, FeedError, MissingExtraError
from strand.feeds.base import BaseFeed, FeedInfo, TickBatch
from strand.feeds.formats.json.profile import JsonProfile, read_profile
from strand.feeds.formats.json.ticks import EVENTS, FeedEvent, JsonTicks, OfMessages
from strand.feeds.formats.websocket import Header, MessageRecorder
from strand.feeds.live.messages import Ending, tell
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


_NO_SNAPSHOT: Final = Event("feed.no_snapshot", ".feeds", "WARNING", "no snapshot: %(text)s", "symbol")


def backoff_s(attempt: int, min_s: float, max_s: float, draw: Callable[[], float] = random.random) -> float:
    """Time to wait before an attempt, the first being 0: twice as long each time, less up to half of it by chance.

    The chance keeps many clients of a server that comes back from all coming at once. ``draw``: from 0 to 1.
    """
    whole = min(max_s, min_s * 2.0 ** min(attempt, 60))
    return whole * (1 - draw() / 2)


class _Connection(Protocol):
    """A connection to a server."""

    def send(self, message: str, /) -> None:
        """Sends a text."""

    def messages(self, timeout_s: float) -> Iterator[str | bytes]:
        """Waits for a message, and gives all that have come. Raises what the client calls ``failed`` at the end."""


class _Websockets:
    """Connections by the package websockets."""

    def __init__(self) -> None:
        try:
            import websockets.exceptions
            import websockets.sync.client
        except ImportError as error:
            raise MissingExtraError("a WebSocket feed", "websockets", "live") from error
        self._connect = websockets.sync.client.connect
        self.failed: tuple[type[Exception], ...] = (OSError, websockets.exceptions.WebSocketException)

    @contextlib.contextmanager
    def connect(
        self, url: str, headers: Mapping[str, str], timeout_s: float | None, most_bytes: int
    ) -> Iterator[_Connection]:
        """A connection, which ends with the block."""
        with self._connect(
            url, open_timeout=timeout_s, close_timeout=1, max_size=most_bytes, additional_headers=headers
        ) as connection:
            yield _OfWebsockets(connection)


class _OfWebsockets:
    def __init__(self, connection: Any) -> None:
        self.send, self._recv = connection.send, connection.recv

    def messages(self, timeout_s: float) -> Iterator[str | bytes]:
        try:
            yield self._recv(timeout=timeout_s)
            while True:
                yield self._recv(timeout=0)
        except TimeoutError:
            pass


class _Picows:
    """Connections by the package picows."""

    failed: Final[tuple[type[Exception], ...]] = (OSError,)

    def __init__(self) -> None:
        try:
            import picows
        except ImportError as error:
            raise MissingExtraError("a WebSocket feed with client='picows'", "picows", "picows") from error
        self._picows = picows

    @contextlib.contextmanager
    def connect(
        self, url: str, headers: Mapping[str, str], timeout_s: float | None, most_bytes: int
    ) -> Iterator[_Connection]:
        """A connection, which ends with the block. Raises ConnectionError."""
        connection = _OfPicows(self._picows, most_bytes)
        try:
            connection.open(url, headers, timeout_s)
            yield connection
        finally:
            connection.close()


#: Bytes of messages that wait, with so many more for each: beyond it, picows reads no more until half are taken.
_MOST_WAIT: Final = 1 << 22
_MESSAGE_BYTES: Final = 64
#: Seconds between pings, and until the answer, as of websockets.
_PING_S: Final = 20.0
#: Seconds in which a connection closes.
_CLOSE_S: Final = 2.0


class _OfPicows:
    """A connection whose event loop is in a thread of its own: it answers pings while ticks are handled."""

    def __init__(self, picows: Any, most_bytes: int) -> None:
        self._picows, self._most_bytes = picows, most_bytes
        self._kinds = picows.WSMsgType
        self._bell = Bell()
        self._arrived: collections.deque[str | bytes] = collections.deque()
        # Each is counted by one thread: the loop's, and the one that takes.
        self._bytes_come = self._bytes_taken = 0
        self._is_paused = self._rings = self._is_left = self._is_over = False
        #: Parts of a message that has not come whole.
        self._parts: list[bytes] = []
        self._is_text = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: Any = None
        self._task: Any = None
        #: The reason for which the connection is over.
        self._end: str | None = None
        self._thread: threading.Thread | None = None

    def open(self, url: str, headers: Mapping[str, str], timeout_s: float | None) -> None:
        """Connects. Raises ConnectionError."""
        self._thread = threading.Thread(target=self._run, args=(url, headers, timeout_s), daemon=True)
        self._thread.start()
        self._bell.wait_for(lambda: self._transport is not None or self._is_over)
        if self._transport is None:
            raise ConnectionError(self._end)

    def close(self) -> None:
        """Says goodbye, and ends the thread."""
        self._is_left = True
        self._call(self._goodbye)
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def send(self, message: str) -> None:
        self._call(lambda: self._transport.send(self._kinds.TEXT, message.encode()))

    def messages(self, timeout_s: float) -> Iterator[str | bytes]:
        arrived = self._arrived
        self._bell.wait_for(lambda: bool(arrived) or self._is_over, timeout_s)
        is_over = self._is_over  # before the look at what has arrived
        try:
            while arrived:
                data = arrived.popleft()
                self._bytes_taken += len(data) + _MESSAGE_BYTES
                yield data
        finally:
            if self._is_paused:
                self._call(self._resume)
        if is_over:
            raise ConnectionError(self._end)

    @property
    def _waiting(self) -> int:
        """Bytes of messages that nobody has taken."""
        return self._bytes_come - self._bytes_taken

    def _call(self, function: Callable[[], object]) -> None:
        """Makes the loop call a function, if it still runs."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function)

    # ---- in the loop's thread

    def _run(self, url: str, headers: Mapping[str, str], timeout_s: float | None) -> None:
        end = "the connection was lost"
        try:
            asyncio.run(self._listen(url, headers, timeout_s))
        except TimeoutError:
            end = "timed out while it connected"
        except asyncio.CancelledError:
            end = "closed while it connected"
        except self._picows.WSProtocolError as error:
            end = f"sent {error.args[0].value}: {error.args[1]}"
        except Exception as error:
            end = str(error) or type(error).__name__
        finally:
            self._end, self._is_over = self._end or end, True
            self._bell.ring()

    async def _listen(self, url: str, headers: Mapping[str, str], timeout_s: float | None) -> None:
        picows, connection = self._picows, self
        self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()

        class Listener(picows.WSListener):  # type: ignore[misc, name-defined]
            def on_ws_frame(self, transport: Any, frame: Any) -> None:
                connection._frame(transport, frame)

        parts = urlsplit(url)
        if parts.username is not None:
            words = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            headers = {"Authorization": f"Basic {base64.b64encode(words).decode()}", **headers}
            url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        async with asyncio.timeout(timeout_s):
            transport, _ = await picows.ws_connect(
                Listener, url, extra_headers=dict(headers), max_frame_size=self._most_bytes, proxy=_proxy(url),
                websocket_handshake_timeout=timeout_s, enable_auto_ping=True, auto_ping_idle_timeout=_PING_S,
                auto_ping_reply_timeout=_PING_S,
            )  # fmt: skip
        self._transport = transport
        self._bell.ring()
        if self._is_left:
            self._goodbye()
        await transport.wait_disconnected()

    def _frame(self, transport: Any, frame: Any) -> None:
        kind, codes = frame.msg_type, self._picows.WSCloseCode
        if transport.is_close_frame_sent:  # picows goes on in the middle of a message that it refused
            return
        try:
            if kind == self._kinds.TEXT and frame.fin:
                self._add(transport, frame.get_payload_as_utf8_text())
                return
            if kind in (self._kinds.TEXT, self._kinds.BINARY, self._kinds.CONTINUATION):
                if kind != self._kinds.CONTINUATION:
                    self._parts, self._is_text = [], kind == self._kinds.TEXT
                self._parts.append(frame.get_payload_as_bytes())
                if sum(map(len, self._parts)) > self._most_bytes:
                    why = f"a message has more than {self._most_bytes:,} bytes"
                    self._refuse(transport, codes.MESSAGE_TOO_BIG, why)
                elif frame.fin:
                    data, self._parts = b"".join(self._parts), []
                    self._add(transport, data.decode() if self._is_text else data)
        except UnicodeDecodeError:
            self._refuse(transport, codes.INVALID_TEXT, "a text is not UTF-8")
        if kind == self._kinds.CLOSE:
            reason = frame.get_close_reason()
            self._end = f"received {int(frame.get_close_code())}{' ' * bool(reason)}{reason or ''}"
            transport.send_close(frame.get_close_code())
            transport.disconnect()

    def _add(self, transport: Any, data: str | bytes) -> None:
        self._arrived.append(data)
        self._bytes_come += len(data) + _MESSAGE_BYTES
        if not self._rings:  # when all that the loop has read is here
            self._rings = True
            assert self._loop is not None
            self._loop.call_soon(self._ring)
        if not self._is_paused and self._waiting > _MOST_WAIT:
            self._is_paused = True
            transport.underlying_transport.pause_reading()

    def _refuse(self, transport: Any, code: Any, why: str) -> None:
        self._end = f"sent {code.value}: {why}"
        transport.send_close(code)
        transport.disconnect()

    def _ring(self) -> None:
        self._rings = False
        self._bell.ring()

    def _goodbye(self) -> None:
        """Ends the connection, or the attempt to make it."""
        if self._transport is None:
            self._task.cancel()
        else:
            self._transport.send_close(self._picows.WSCloseCode.OK)
            self._transport.disconnect()

    def _resume(self) -> None:
        if self._is_paused and 2 * self._waiting < _MOST_WAIT:
            self._is_paused = False
            with contextlib.suppress(RuntimeError):  # it is closed
                self._transport.underlying_transport.resume_reading()


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for an address, as websockets finds it."""
    parts = urlsplit(url)
    if parts.hostname is None or proxy_bypass(parts.hostname):
        return None
    named = getproxies()
    schemes = ("wss", "socks", "https") if parts.scheme == "wss" else ("ws", "socks", "https", "http")
    return next((named[scheme] for scheme in schemes if scheme in named), None)


def _waits(options: WebSocketOptions) -> tuple[float, float]:
    """The first wait before an attempt, and the longest one."""
    return options["reconnect_min_s"], max(options["reconnect_min_s"], options["reconnect_max_s"])


class _Snapshots:
    """Asks for snapshots, by a function of the user's that a thread calls for one symbol after the other."""

    def __init__(self, ask: Callable[[str], Any], wait_s: Callable[[int], float], most_bytes: int) -> None:
        self._ask, self._wait_s, self._most_bytes = ask, wait_s, most_bytes
        self.asked = self.failed = 0
        self.last_error: str | None = None
        self._answers: collections.deque[tuple[str, str | bytes | Exception]] = collections.deque()
        self._under_way: set[str] = set()
        #: By symbol, the requests so far, and the time of the monotonic clock before which there is no other one.
        self._tried: dict[str, tuple[int, float]] = {}
        self._background: Background[str] | None = None

    def request(self, symbols: Mapping[str, None]) -> None:
        """Asks for what is due of the symbols that need a snapshot, and forgets the tries of all others."""
        for symbol in self._tried.keys() - symbols.keys():
            del self._tried[symbol]
        now = time.monotonic()
        for symbol in symbols:
            tries, due = self._tried.get(symbol, (0, 0.0))
            if symbol in self._under_way or now < due:
                continue
            if self._background is None:
                self._background = Background(self._answer, self._ended, "strand snapshots")
                self._background.start()
            self._under_way.add(symbol)
            self._tried[symbol] = tries + 1, math.inf
            self.asked += 1
            self._background.put(symbol)

    def answers(self) -> Iterator[str | bytes]:
        """Takes the messages that have come."""
        while self._answers:
            symbol, answer = self._answers.popleft()
            self._under_way.discard(symbol)
            tries, _ = self._tried.get(symbol, (1, 0.0))
            self._tried[symbol] = tries, time.monotonic() + self._wait_s(tries - 1)
            if not isinstance(answer, Exception):
                yield answer
                continue
            self.failed += 1
            self.last_error = f"{symbol}: {type(answer).__name__}: {answer}"
            _NO_SNAPSHOT(text=self.last_error, symbol=symbol)

    def end(self) -> None:
        """Ends the thread after the call under way. Waits for nobody."""
        if self._background is not None:
            self._background.end(now=True)

    def _answer(self, symbol: str) -> bool:
        answer: Any
        try:
            answer = self._ask(symbol)
            if not isinstance(answer, str | bytes):
                answer = json.dumps(answer)
            if len(answer) > self._most_bytes:
                raise ValueError(f"its {len(answer):,} bytes are more than max_message_bytes: {self._most_bytes:,}")
        except BaseException as error:  # of any kind: without an answer, the symbol would never be asked for again
            answer = error if isinstance(error, Exception) else RuntimeError(f"ended by {error!r}")
        self._answers.append((symbol, answer))
        return True

    def _ended(self, error: BaseException | None) -> None:
        """The feed has ended it."""
        assert error is None


@named_options("WebSocketFeed()", declares=WebSocketOptions)
class WebSocketFeed(OfMessages, BaseFeed):
    """Receives ticks as the JSON messages of a WebSocket; each batch holds what has arrived.

    ``ts_recv`` is this machine's clock when the message was taken; ``ts_event`` is the same if the profile has none.
    ``sequence`` is the message's number since the start if the profile has none.

    Args:
        url: The server's ``ws://`` or ``wss://`` URL.
        profile: A ``JsonProfile``, a dict, or the path of a TOML file.

    Raises:
        ConfigurationError: If an option or the profile cannot work.
        MissingExtraError: If the package that ``client`` names is not installed.
    """

    is_live = True

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
        client: _Websockets | _Picows = _Picows() if options["client"] == "picows" else _Websockets()
        self._connect = client.connect
        self._failed: tuple[type[Exception], ...] = client.failed
        self._url, self._shown_url, self._options = url, _without_secrets(url), options
        record, on_bad_record = options["record"], options["on_bad_record"]
        check_outputs([("record", record)], options={"profile": profile})
        self._profile = profile if isinstance(profile, JsonProfile) else read_profile(profile)
        self._subscribe = [message if isinstance(message, str) else json.dumps(message) for message in subscribe]
        self._headers = dict(options["headers"] or {})
        # No event: its lock may be held where a signal handler calls stop.
        self._bell, self._ending, self._started = Bell(), Ending(options), False
        self._timed = 0.0
        self._ticks = JsonTicks(
            self._profile, self._shown_url, on_bad_record=on_bad_record, skipped=self.skipped, symbols=symbols,
            max_symbols=max_symbols, on_event=partial(tell, options["on_event"]),
        )  # fmt: skip
        self._snapshots: _Snapshots | None = None
        if (ask := options["snapshot"]) is not None:
            if not any(rule.snapshot == "rest" for rule in self._profile.rules):
                raise ConfigurationError("snapshot", 'no rule of the profile has snapshot = "rest"')
            min_s, most_s = _waits(options)
            self._snapshots = _Snapshots(
                ask, lambda tries: backoff_s(tries, min_s, most_s), options["max_message_bytes"]
            )
        self._recorder: MessageRecorder | None = None
        if record is not None:
            most = options["max_message_bytes"]
            header = Header(self._profile, self._shown_url, on_bad_record, symbols, max_symbols, most)
            self._recorder = MessageRecorder(record, header)
            self.writes = (str(self._recorder.path),)

    @property
    def info(self) -> FeedInfo:
        """Description of the feed. ``path`` is the URL without user, password and query, since it is shown and written
        to reports."""
        return self._profile.info("websocket", self._shown_url, dict(self._ticks.examples))

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
        self._ending.begin()
        self._timed = self._ending.begun
        with self._recorder if self._recorder is not None else contextlib.nullcontext():
            yield empty(0)
            try:
                yield from self._connections()
            finally:
                if self._snapshots is not None:
                    self._snapshots.end()
            if self._options["clock_s"] is not None:
                yield self._told()

    def _connections(self) -> Iterator[TickBatch]:
        """The batches of one connection after the other."""
        attempt, options, left_s = 0, self._options, self._ending.left_s
        min_s, most_s = _waits(options)
        while not self._over():
            before = self._ticks.counts["messages"]
            connected = False
            limit = min(math.inf if options["open_timeout_s"] is None else options["open_timeout_s"], left_s())
            try:
                timeout = limit if limit < math.inf else None
                with self._connect(self._url, self._headers, timeout, options["max_message_bytes"]) as connection:
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
            pause_s = min(backoff_s(attempt, min_s, most_s), left_s())
            for _ in self._clocks(pause_s):
                yield self._told()
            attempt += 1

    def _clocks(self, pause_s: float) -> Iterator[None]:
        """Waits for so long, unless the feed is stopped; yields where the clock is due meanwhile."""
        until = time.monotonic() + pause_s
        while not self._ending.is_stopped and (left := until - time.monotonic()) > 0:
            if self._bell.wait_for(lambda: self._ending.is_stopped, min(left, self._clock_left_s())):
                return
            if self._clock_left_s() <= 0:
                yield

    def _clock_left_s(self) -> float:
        """Seconds until the clock tells the time, unless a tick comes before."""
        clock_s = self._options["clock_s"]
        return math.inf if clock_s is None else max(self._timed + clock_s - time.monotonic(), 0.0)

    def _told(self) -> TickBatch:
        """An empty batch: time has passed up to now."""
        self.passed_ns = time.time_ns()
        self._timed = time.monotonic()
        if self._recorder is not None:
            self._recorder.clock(self.passed_ns)
        return empty(0)

    def _received(self, connection: _Connection) -> Iterator[TickBatch]:
        """The batches of one connection. Raises what the connection raises, after the ticks before it."""
        quiet_since, silence_s, most = time.monotonic(), self._options["silence_s"], self._options["batch_ticks"]
        counts, ending = self._ticks.counts, self._ending
        gaps = counts["gap"]
        expected: tuple[type[Exception], ...] = (FeedError, *self._failed)
        while not self._over():
            fault: Exception | None = None
            try:
                # Of messages that make no ticks, no more than so many: then the feed looks whether its time is over.
                for data in islice(connection.messages(min(_SLICE_S, ending.left_s(), self._clock_left_s())), most):
                    self._take(data)
                    if self._ticks.pending >= most or ending.is_full(counts["messages"]):
                        break
                if self._snapshots is not None:
                    for data in self._snapshots.answers():
                        self._take(data)
                    self._snapshots.request(self._ticks.unfounded)
            except expected as error:
                fault = error
            if self._ticks.pending:
                quiet_since = ending.heard
                self.passed_ns, self._timed = None, time.monotonic()
                yield self._ticks.batch()
            elif self._clock_left_s() <= 0:
                yield self._told()
            if fault is not None:
                raise fault
            if self._options["reconnect_at_gap"] and counts["gap"] > gaps:
                raise ConnectionError("left, since messages are missing")
            if time.monotonic() - max(quiet_since, ending.heard) >= silence_s:
                raise ConnectionError(f"nothing came for {silence_s:g} s")

    def _take(self, data: str | bytes) -> None:
        """Takes a message at the current time. It is recorded first, so that the recording also has messages that are
        refused. Raises FeedError."""
        now_ns = time.time_ns()
        self._ending.heard = time.monotonic()
        if self._recorder is not None:
            self._recorder.message(data, now_ns)
        self._ticks.take(data, now_ns)

    def _note(self, kind: Literal["connected", "disconnected"], text: str) -> None:
        now_ns = time.time_ns()
        if self._recorder is not None:
            self._recorder.event(kind, text, now_ns)
        self._ticks.note(kind, now_ns, text)

    def _over(self) -> bool:
        ending = self._ending
        return ending.is_stopped or ending.is_full(self._ticks.counts["messages"]) or ending.left_s() <= 0

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
        """Report of the connection: the counts of ``statistics()``, and the newest events as plain values; with
        ``snapshot`` also ``snapshots_asked``, ``snapshots_failed`` and ``snapshot_error``, the latest one."""
        asked = {} if (found := self._snapshots) is None else {
            "snapshots_asked": found.asked, "snapshots_failed": found.failed, "snapshot_error": found.last_error,
        }  # fmt: skip
        return {**self.statistics(), **asked, "events": [asdict(event) for event in self.events]}

    def stop(self) -> None:
        """Ends the iteration under way, or the next, within a tenth of a second. Any thread or a signal may call it."""
        self._ending.is_stopped = True
        self._bell.ring()

    def close(self) -> None:
        """Closes as :meth:`stop` does. May be repeated."""
        self.stop()
