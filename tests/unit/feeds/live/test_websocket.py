"""JSON over a WebSocket, from a server on this machine that drops connections; and what profiles say."""

from __future__ import annotations

import base64
import contextlib
import csv
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bounded_child import in_bounded_child
from command_apart import started
from command_here import run_here
from engine_support import wait_until
from interrupt_points import interrupter
from reading import ticks_of
from warm_python import run_warm
from websocket_server import TRADES, listen, message, serving, stay, trade

import strand
from strand import feeds
from strand.errors import ConfigurationError, FeedError, FormatError, MissingExtraError
from strand.feeds.formats.websocket import read_entry
from strand.feeds.live.websocket import FeedEvent, WebSocketFeed, backoff_s
from strand.ticks import KIND_TRADE, UNDEF_PRICE

pytestmark = pytest.mark.python
#: The packages that connect.
BOTH = pytest.mark.parametrize("client", ["websockets", "picows"])


@pytest.fixture(autouse=True)
def installed(request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params.get("client") == "picows" if hasattr(request.node, "callspec") else False:
        pytest.importorskip("picows")


@BOTH
def test_records_become_ticks_with_exact_prices_and_sizes(client: str) -> None:
    with serving(lambda connection, _: connection.send(message(trade(1), trade(2, "ETH", p=0.1, q="2")))) as url:
        ticks = ticks_of(feed := listen(url, client=client, max_messages=1))
    assert list(feed.symbols) == ["BTC", "ETH"]
    assert ticks["instrument_id"].tolist() == [0, 1]
    assert ticks["price"].tolist() == [100_250_000_000, 100_000_000]
    assert ticks["size"].tolist() == [500, 2_000]
    assert ticks["side"].tolist() == [b"B", b"A"]
    assert ticks["action"].tolist() == [b"T", b"T"]
    assert set(ticks["kind"].tolist()) == {KIND_TRADE}
    assert ticks["ts_event"].tolist() == [1_700_000_000_001_000_000, 1_700_000_000_002_000_000]
    assert np.all(ticks["ts_recv"] > ticks["ts_event"])


@BOTH
def test_a_dropped_connection_is_made_again_and_everything_is_subscribed_to_again(client: str) -> None:
    asked: list[str] = []

    def handle(connection: Any, before: int) -> None:
        asked.append(connection.recv())
        connection.send(message(trade(before + 1)))
        if before == 1:
            connection.socket.close()  # without a word

    told: list[FeedEvent] = []
    with serving(handle) as url:
        options = {"subscribe": [{"op": "subscribe"}], "on_event": told.append, "reconnect": 1}
        ticks = ticks_of(feed := listen(url, client=client, max_messages=4, **options))
    assert ticks["sequence"].tolist() == [1, 2, 3, 4]
    assert asked == ['{"op": "subscribe"}'] * 4
    assert [event.kind for event in told] == ["connected", "disconnected"] * 3 + ["connected"]
    assert list(feed.events) == told
    assert feed.statistics()["disconnected"] == 3


@BOTH
def test_an_address_that_never_answers_is_told_when_the_time_is_over(client: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        # The time allowed ends the attempt, not the ten minutes that one may take.
        feed = listen(url, client=client, max_seconds=2.0, open_timeout_s=600.0)
        assert len(ticks_of(feed)) == 0
    assert [event.kind for event in feed.events] == ["disconnected"]
    assert "timed out" in feed.events[0].text


@BOTH
def test_what_was_missed_while_away_is_an_event_that_says_how_much(client: str) -> None:
    def handle(connection: Any, before: int) -> None:
        connection.send(message(trade(1 + 10 * before), trade(1 + before, "ETH")))

    with serving(handle) as url:
        feed = listen(url, client=client, max_messages=2)
        assert len(ticks_of(feed)) == 4
    gaps = [event for event in feed.events if event.kind == "gap"]
    assert [(gap.symbol, gap.missing, gap.text) for gap in gaps] == [("BTC", 9, "BTC: 2 to 10")]
    counts = feed.statistics()
    assert (counts["gap"], counts["gap_messages"]) == (1, 9)


@BOTH
def test_a_server_that_stays_away_is_given_up_after_so_many_attempts(client: str) -> None:
    with serving(lambda connection, _: connection.send(message(trade(1)))) as url:
        pass
    feed = listen(url, client=client, reconnect=2, reconnect_max_s=0.01)
    with pytest.raises(FeedError, match="no connection after 2 attempts to reconnect"):
        ticks_of(feed)
    assert feed.statistics()["disconnected"] == 3


@BOTH
def test_a_server_that_falls_silent_is_left(client: str) -> None:
    def handle(connection: Any, before: int) -> None:
        connection.send(message(trade(before + 1)))
        stay(connection)

    with serving(handle) as url:
        feed = listen(url, client=client, max_messages=2, silence_s=0.2)
        assert len(ticks_of(feed)) == 2
    assert [event.text for event in feed.events if event.kind == "disconnected"] == ["nothing came for 0.2 s"]


def test_waits_between_attempts_double_up_to_a_bound_less_a_share_by_chance() -> None:
    assert [backoff_s(n, 1.0, 10.0, lambda: 0.0) for n in range(6)] == [1, 2, 4, 8, 10, 10]
    assert [backoff_s(n, 1.0, 10.0, lambda: 1.0) for n in range(6)] == [0.5, 1, 2, 4, 5, 5]
    assert backoff_s(10_000, 1.0, 10.0, lambda: 0.0) == 10


def test_a_message_that_cannot_be_read_is_an_error_after_the_ticks_before_it() -> None:
    def handle(connection: Any, _: int) -> None:
        connection.send(message(trade(1), trade(2, p="ten"), trade(3)))

    with serving(handle) as url:
        taken: list[int] = []
        with pytest.raises(FormatError, match="message 1: price: 'ten' is not a number"):
            for batch in listen(url).batches():
                taken += batch["sequence"].tolist()
    assert taken == [1]


@BOTH
def test_messages_that_cannot_be_read_can_be_passed_over_and_are_counted(client: str) -> None:
    def handle(connection: Any, _: int) -> None:
        connection.send(message(trade(1), trade(2, p="ten"), trade(3)))
        connection.send("{no JSON")
        connection.send('{"type": "trade"}')
        connection.send('{"type": "news"}')
        connection.send("[" * 100_000)
        connection.send(message(trade(4)))

    with serving(handle) as url:
        ticks = ticks_of(feed := listen(url, client=client, max_messages=6, on_bad_record="skip"))
    assert ticks["sequence"].tolist() == [1, 3, 4]
    assert feed.skipped.total == 4
    assert feed.statistics()["other_messages"] == 1


@BOTH
def test_a_message_beyond_the_bound_ends_the_connection_and_not_the_feed(client: str) -> None:
    def handle(connection: Any, before: int) -> None:
        connection.send("x" * 100_000 if before == 0 else message(trade(1)))
        stay(connection)

    with serving(handle) as url:
        feed = listen(url, client=client, max_messages=1, max_message_bytes=10_000)
        assert len(ticks_of(feed)) == 1
    assert feed.statistics()["disconnected"] == 1


def test_more_symbols_than_allowed_are_an_error() -> None:
    with (
        serving(lambda connection, _: connection.send(message(trade(1), trade(1, "ETH")))) as url,
        pytest.raises(FeedError, match="more than 1 symbols"),
    ):
        ticks_of(listen(url, max_symbols=1))


@BOTH
def test_a_feed_is_stopped_from_another_thread(client: str) -> None:
    with serving(lambda connection, _: stay(connection)) as url:
        feed = listen(url, client=client)
        timer = threading.Timer(0.1, feed.stop)
        timer.start()
        assert len(ticks_of(feed)) == 0
        timer.join()


@BOTH
def test_handlers_run_on_it_as_on_any_feed(client: str) -> None:
    trades = [trade(n, "BTC" if n % 3 else "ETH") for n in range(1, 31)]
    with serving(lambda connection, _: connection.send(message(*trades))) as url:
        result = strand.replay(listen(url, client=client, max_messages=1), "vwap", workers=1)
    assert result.ticks == 30
    assert result.rows["BTC"]["trades"] == 20
    assert result.rows["ETH"]["volume"] == 5_000


def test_fields_that_a_profile_does_not_have_are_undefined() -> None:
    profile = {"message": [{"symbol": {"constant": "X"}, "kind": "quote"}]}
    with serving(lambda connection, _: connection.send('{"anything": 1}')) as url:
        (tick,) = ticks_of(listen(url, max_messages=1, profile=profile))
    assert tick["price"] == UNDEF_PRICE
    assert (tick["side"], tick["action"], tick["size"], tick["sequence"]) == (b"N", b"N", 0, 1)
    assert tick["ts_event"] == tick["ts_recv"] > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "http://127.0.0.1"}, "ws://"),
        ({"subscribe": "one"}, "a sequence of messages"),
        ({"reconnect": -1}, "reconnect"),
        ({"reconnects": 1}, "did you mean 'reconnect'"),
        ({"silence_s": 0}, "silence_s"),
        ({"on_bad_record": "ignore"}, "on_bad_record"),
        ({"symbols": ["A", "B"], "max_symbols": 1}, "max_symbols"),
    ],
)
def test_an_option_that_cannot_work_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        WebSocketFeed(**{"url": "ws://127.0.0.1:1", "profile": TRADES, **options})


def test_strand_listen_runs_handlers_on_it_and_reports_events(tmp_path: Path) -> None:
    profile = tmp_path / "trades.toml"
    profile.write_text(
        'size_unit = "0.001"\n[[message]]\neach = "data"\nkind = "trade"\nsymbol = "s"\n'
        '[message.fields]\nprice = "p"\nsize = "q"\n'
    )

    def handle(connection: Any, before: int) -> None:
        assert connection.recv() == '{"op": "all"}'
        connection.send(message(trade(before)))

    with serving(handle) as url:
        ends = ("--max-messages", "2", "--max-seconds", "20")
        asked = [url, "--profile", str(profile), "--subscribe", '{"op": "all"}', *ends]
        done = run_warm("-m", "strand", "listen", "--handler", "vwap", "--json", "--websocket", *asked)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["ticks"] == 2
        assert [event["kind"] for event in found["live"]["events"]] == ["connected", "disconnected", "connected"]
        done = run_here("listen", "--websocket", *asked, "--group", "239.0.0.1")
        assert done.returncode == 2
        assert "--group is for --line, not for --websocket" in done.stderr


def recorded(folder: Path) -> int:
    """The number of messages in the recording that is being written there."""
    return sum(path.read_bytes().count(b" text ") for path in folder.glob(".messages.*.partial"))


@pytest.mark.parametrize("goes_on", [False, True], ids=["behind all", "in the middle"])
def test_an_interrupt_behind_ticks_loses_none_of_those_that_came(goes_on: bool, tmp_path: Path) -> None:
    profile, recording, rows = tmp_path / "trades.toml", tmp_path / "messages", tmp_path / "rows.csv"
    profile.write_text(
        'size_unit = "0.001"\n[[message]]\neach = "data"\nkind = "trade"\nsymbol = "s"\n'
        '[message.fields]\nprice = "p"\nsize = "q"\nsequence = "n"\n'
    )
    sent: list[list[str]] = []
    over, asked = threading.Event(), threading.Event()

    def handle(connection: Any, _: int) -> None:
        while not over.is_set() if goes_on else len(sent) < 200:
            names = ["ETH" if (len(sent) + at) % 3 else "BTC" for at in range(1 + len(sent) % 4)]
            try:
                connection.send(message(*(trade(1 + len(sent), name) for name in names)))
            except Exception:
                return
            sent.append(names)
            if goes_on and len(sent) == 200:
                asked.set()
            time.sleep(0.0005)
        if not goes_on:
            asked.set()
            stay(connection)

    with serving(handle) as url:
        how = ("--websocket", url, "--profile", str(profile), "--max-seconds", "60", "--handler", "count", "--json")
        with started("listen", *how, "--out", str(rows), "--record", str(recording)) as listener:
            assert asked.wait(60)
            wait_until(lambda: recorded(tmp_path) > 0 if goes_on else recorded(tmp_path) == 200)
            for _ in range(2):
                listener.send_signal(signal.SIGINT)
            output, errors = listener.communicate(timeout=60)
            over.set()
    assert listener.returncode == 0, errors
    found = json.loads(output)
    came = sent[: found["live"]["messages"]]
    assert len(came) == 200 if not goes_on else 0 < len(came) <= len(sent)
    assert found["ticks"] == found["statistics"]["handled"] == sum(map(len, came))
    with rows.open() as file:
        shown = {row["symbol"]: int(row["ticks"]) for row in csv.DictReader(file)}
    assert shown == Counter(name for names in came for name in names)


@pytest.mark.parametrize("during", ["a stop", "a wait"])
def test_a_signal_handler_may_stop_it_at_each_point(during: str) -> None:
    interrupter()
    in_bounded_child(partial(stop_at_each_point, during))


def stop_at_each_point(during: str) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError

    def waits(feed: WebSocketFeed) -> None:
        with contextlib.suppress(FeedError):  # it was not stopped, and gives up
            ticks_of(feed)

    place, reached = 0, True
    with interrupter().installed():
        while reached:
            place += 1
            feed = listen("ws://127.0.0.1:1", reconnect=1, reconnect_min_s=0.001, reconnect_max_s=0.001)
            feed._connect = refused
            operation = feed.stop if during == "a stop" else partial(waits, feed)
            reached = interrupter().run_with(feed.stop, operation, place)
            assert feed._over() or not reached
    assert place > 3


def test_what_opens_a_url_is_shown_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    profile, page = tmp_path / "trades.toml", tmp_path / "run.html"
    profile.write_text('[[message]]\nkind = "trade"\nsymbol = "s"\n[message.fields]\nprice = "p"\n')
    url = "ws://me:secret@127.0.0.1:1/trades?key=secret"
    asked = ["--websocket", url, "--profile", str(profile), "--max-seconds", "60"]
    for more in (["--json"], ["--report", str(page)]):
        with subprocess.Popen(
            [sys.executable, "-m", "strand", "listen", *asked, *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as listener:  # fmt: skip
            try:
                assert listener.stderr is not None
                # An address where nobody answers is told while it is tried.
                told = next(line for line in listener.stderr if "starts: " not in line)
                listener.send_signal(signal.SIGINT)
                output, errors = listener.communicate(timeout=60)
            finally:
                listener.kill()
        assert told.startswith("WARNING strand.feeds: disconnected: "), told + errors
        assert listener.returncode == 0, errors
        assert "secret" not in output + told + errors
        assert "127.0.0.1:1/trades" in output
    assert "secret" not in page.read_text("utf-8")
    with pytest.raises(FeedError, match="no connection after 0 attempts") as raised:
        ticks_of(listen("ws://me:secret@127.0.0.1:1/trades?key=secret", reconnect=0))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "package", "extra"),
    [({}, "websockets.sync.client", "live"), ({"client": "picows"}, "picows", "picows")],
)
def test_without_the_package_the_extra_is_named(
    options: dict[str, Any], package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"strand\[{extra}\]"):
        WebSocketFeed("ws://127.0.0.1:1", TRADES, **options)


@BOTH
def test_messages_of_bytes_and_in_parts_are_recorded_as_they_came(client: str, tmp_path: Path) -> None:
    sent = [message(trade(1, "\u00c4")), message(trade(2)).encode(), message(trade(3))]

    def handle(connection: Any, _: int) -> None:
        connection.send(sent[0])
        connection.send(sent[1])
        connection.send([sent[2][:7], sent[2][7:30], sent[2][30:]])
        stay(connection)

    with serving(handle) as url:
        ticks = ticks_of(listen(url, client=client, max_messages=3, record=tmp_path / "a.ws"))
    assert ticks["sequence"].tolist() == [1, 2, 3]
    lines = (tmp_path / "a.ws").read_bytes().splitlines()
    entries = [read_entry(line) for line in lines[2:-1]]
    assert [(entry.word, entry.value) for entry in entries if entry.word in ("text", "binary")] == [
        ("text", sent[0]), ("binary", sent[1]), ("text", sent[2])
    ]  # fmt: skip
    assert feeds.open(tmp_path / "a.ws").to_numpy().tobytes() == ticks.tobytes()


@BOTH
def test_a_name_and_a_password_of_the_url_are_sent_to_the_server(client: str) -> None:
    asked: list[Any] = []

    def handle(connection: Any, _: int) -> None:
        headers = connection.request.headers
        asked.append((headers["Authorization"], headers["X-Key"], connection.request.path))
        connection.send(message(trade(1)))

    with serving(handle) as url:
        url = url.replace("127", "me:p%40ss@127") + "/a?b=c"
        ticks_of(listen(url, client=client, max_messages=1, headers={"X-Key": "7"}))
    assert asked == [(f"Basic {base64.b64encode(b'me:p@ss').decode()}", "7", "/a?b=c")]


@BOTH
def test_a_server_that_sends_faster_than_ticks_are_taken_has_to_wait(client: str) -> None:
    # More than the window of compression, in which nothing comes twice.
    pads = [base64.b64encode(os.urandom(75_000)).decode() for _ in range(8)]
    texts = [json.dumps({"type": "trade", "data": [trade(1)], "pad": pad}) for pad in pads]
    count, over = 600, threading.Event()

    def handle(connection: Any, _: int) -> None:
        for at in range(count):
            connection.send(texts[at % len(texts)])
        over.set()
        stay(connection)

    with serving(handle) as url:
        batches = listen(url, client=client, max_messages=count, max_seconds=60.0).batches()
        taken = sum(len(next(batches)) for _ in range(2))
        assert not over.wait(1.5)  # 60 MB do not fit into what waits, and into the sockets
        assert taken + sum(map(len, batches)) == count
