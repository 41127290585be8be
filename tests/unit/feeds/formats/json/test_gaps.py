"""Gaps that a venue shows: by one number, by ranges, and by the number of the message before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strand
from strand.errors import FormatError
from strand.feeds.base import BaseFeed

Message = dict[str, Any]
Book = dict[str, dict[int, int]]


def rules(where: dict[str, str], gapless: dict[str, str], snapshot: bool | str = False) -> list[dict[str, Any]]:
    return [
        {
            "where": where, "each": side, "kind": "quote", "symbol": "s", "more": side == "b", "gapless": gapless,
            "snapshot": snapshot,
            "fields": {"price": "0", "size": "1", "action": {"constant": "M"}, "side": {"constant": letter},
                       "ts_event": {"column": "t", "unit": "ms", "optional": True}},
        }
        for side, letter in (("b", "B"), ("a", "A"))
    ]  # fmt: skip


def binance_spot(rng: np.random.Generator, at: int) -> tuple[Message, int]:
    last = at + int(rng.integers(1, 5))
    return {"U": at + 1, "u": last}, last


def binance_futures(rng: np.random.Generator, at: int) -> tuple[Message, int]:
    # The numbers of other symbols lie between.
    first = at + int(rng.integers(1, 9))
    last = first + int(rng.integers(0, 5))
    return {"U": first, "u": last, "pu": at}, last


def bybit(_: np.random.Generator, at: int) -> tuple[Message, int]:
    return {"u": at + 1}, at + 1


VENUES: dict[str, tuple[Callable[[np.random.Generator, int], tuple[Message, int]], dict[str, str]]] = {
    "first and last": (binance_spot, {"first": "U", "last": "u"}),
    "previous": (binance_futures, {"first": "U", "last": "u", "previous": "pu"}),
    "one number": (bybit, {"last": "u"}),
}


class Stream:
    """Changes of a book, as messages of a venue, and snapshots of it at any time."""

    def __init__(self, venue: str, seed: int = 1) -> None:
        self._numbers, self.gapless = VENUES[venue]
        self._rng = np.random.default_rng(seed)
        #: The latest number; beyond 2^40, as those of futures are.
        self.at = 5 * 10**12
        self.book: Book = {"b": {}, "a": {}}
        self.time = 1_767_571_200_000

    def change(self) -> Message:
        message: Message = {"e": "change", "s": "ABC", "t": self.time, "b": [], "a": []}
        for side, sign in (("b", -1), ("a", 1)):
            for _ in range(int(self._rng.integers(0, 3))):
                price = 100 + sign * int(self._rng.integers(1, 30))
                size = int(self._rng.integers(0, 4))
                self.book[side][price] = size
                message[side].append([str(price), str(size)])
        numbers, self.at = self._numbers(self._rng, self.at)
        self.time += 1
        return message | numbers

    def snapshot(self) -> Message:
        sides = {side: [[str(p), str(s)] for p, s in levels.items() if s] for side, levels in self.book.items()}
        return {"e": "snapshot", "s": "ABC", "u": self.at, **sides}

    @property
    def profile(self) -> dict[str, Any]:
        snapshots = rules({"e": "snapshot"}, {"last": "u"}, "rest")
        return {"message": [*rules({"e": "change"}, self.gapless), *snapshots]}

    def levels(self) -> tuple[list[int], list[int]]:
        bids, asks = ({price for price, size in self.book[side].items() if size} for side in "ba")
        return sorted(bids, reverse=True), sorted(asks)


def replay(tmp_path: Path, messages: list[Message], profile: dict[str, Any]) -> tuple[strand.ReplayResult, Any]:
    path = tmp_path / "messages.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    result = strand.replay(path, strand.depth(), workers=1, cores=None, feed_options={"profile": profile})
    book = result.books["ABC"]
    return result, tuple([price // 10**9 for price in side["price"].tolist()] for side in (book.bids(), book.asks()))


def kinds(result: strand.ReplayResult) -> set[str]:
    return {warning.kind for warning in result.warnings}


@pytest.mark.parametrize("venue", VENUES)
@pytest.mark.parametrize("late", [-4, 0, 1, 5])
def test_a_sound_stream_has_no_warning_whenever_the_snapshot_was_taken(tmp_path: Path, venue: str, late: int) -> None:
    """``late``: by how many messages the answer to the request for a snapshot comes late, below 0 early."""
    stream = Stream(venue)
    messages, snapshots = [], {}
    for _ in range(40):
        snapshots[len(messages)] = stream.snapshot()
        messages.append(stream.change())
    messages.insert(20, snapshots[20 - late])
    result, found = replay(tmp_path, messages, stream.profile)
    assert found == stream.levels()
    assert not result.warnings
    assert result.feed_statistics["older_messages"] == max(-late, 0)
    # Messages before the snapshot that it lacks are handled again, behind it and in one event with it.
    assert late == 1 or bool(result.feed_statistics["repeated_after_snapshot"]) == (late > 0)
    assert result.rows["ABC"]["crossed"] == 0


@pytest.mark.parametrize("venue", VENUES)
def test_each_lost_message_is_noted_and_leaves_the_book_stale_until_a_snapshot(tmp_path: Path, venue: str) -> None:
    for lost in (5, 17, 38):
        stream = Stream(venue, lost)
        messages = [stream.snapshot(), *(stream.change() for _ in range(40))]
        del messages[lost]
        result, _ = replay(tmp_path, messages, stream.profile)
        assert kinds(result) == {"missing messages", "stale books"}
        assert result.feed_statistics["gap"] == 1
        (stale,) = [w for w in result.warnings if w.kind == "stale books"]
        assert "ABC" in stale.example
        messages.append(stream.snapshot())
        messages += [stream.change() for _ in range(3)]
        result, found = replay(tmp_path, messages, stream.profile)
        assert found == stream.levels()


@pytest.mark.parametrize("venue", VENUES)
def test_messages_that_come_twice_or_run_back_are_left_out_and_told(tmp_path: Path, venue: str) -> None:
    stream = Stream(venue)
    messages = [stream.snapshot(), *(stream.change() for _ in range(20))]
    for copied, to in ((9, 10), (9, 15), (20, 22)):
        twice = [*messages[:to], messages[copied], *messages[to:]]
        result, found = replay(tmp_path, twice, stream.profile)
        assert found == stream.levels()
        assert kinds(result) == {"repeated sequences"}
        assert result.feed_statistics["not_rising"] == 1


def test_an_older_snapshot_changes_nothing_where_the_book_is_whole(tmp_path: Path) -> None:
    stream = Stream("first and last")
    messages = [stream.snapshot(), *(stream.change() for _ in range(10))]
    older = stream.snapshot()
    messages += [*(stream.change() for _ in range(5)), older, *(stream.change() for _ in range(5))]
    result, found = replay(tmp_path, messages, stream.profile)
    assert found == stream.levels()
    assert not result.warnings


def test_a_snapshot_of_the_stream_begins_the_numbers_anew(tmp_path: Path) -> None:
    stream = Stream("one number")
    profile = {"message": [*rules({"e": "change"}, stream.gapless), *rules({"e": "snapshot"}, {"last": "u"}, True)]}
    messages = [stream.snapshot(), *(stream.change() for _ in range(10))]
    stream.at = 1  # the venue's service began anew
    messages += [stream.snapshot(), *(stream.change() for _ in range(10))]
    result, found = replay(tmp_path, messages, profile)
    assert found == stream.levels()
    assert not result.warnings


def test_the_number_before_holds_across_a_reset(tmp_path: Path) -> None:
    """OKX's prevSeqId: -1 in a snapshot, the same as seqId where nothing changed, and above it at a reset."""
    profile = {
        "message": [
            *rules({"e": "snapshot"}, {"last": "seqId"}, True),
            *rules({"e": "change"}, {"last": "seqId", "previous": "prevSeqId"}),
        ]
    }
    numbers = [(-1, 10), (10, 15), (15, 15), (15, 3), (3, 5)]
    messages = [
        {"e": "snapshot" if before < 0 else "change", "s": "ABC", "t": 1_767_571_200_000 + at, "seqId": last,
         "prevSeqId": before, "b": [[str(90 + at), "1"]], "a": []}
        for at, (before, last) in enumerate(numbers)
    ]  # fmt: skip
    result, _ = replay(tmp_path, messages, profile)
    assert not result.warnings
    result, _ = replay(tmp_path, [*messages[:1], *messages[2:]], profile)
    assert "missing messages" in kinds(result)


def read(tmp_path: Path, messages: list[Message], profile: dict[str, Any], **options: Any) -> tuple[Any, BaseFeed]:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    feed = strand.feeds.open(path, profile=profile, **options)
    return feed.to_numpy(), feed


TRADE = {"ts_event": {"column": "t", "unit": "ms"}, "price": "p", "size": "q", "sequence": "n"}


def test_a_connections_numbers_count_all_of_its_messages(tmp_path: Path) -> None:
    """Coinbase's sequence_num: over all symbols and channels, heartbeats too."""
    profile = {
        "gapless": {"last": "sequence_num"},
        "message": [
            {"where": {"e": "t"}, "kind": "trade", "symbol": "s", "fields": {**TRADE, "sequence": "sequence_num"}}
        ],
    }
    messages = [
        {"e": "t" if at % 3 else "heartbeat", "s": f"S{at % 2}", "t": 1_767_571_200_000, "p": "1", "q": "1",
         "sequence_num": at}
        for at in range(12)
    ]  # fmt: skip
    _, feed = read(tmp_path, messages, profile)
    assert feed.statistics()["gap"] == 0
    _, feed = read(tmp_path, [*messages[:6], *messages[7:]], profile)
    assert (feed.statistics()["gap"], feed.statistics()["gap_messages"]) == (1, 1)


def test_trades_and_levels_of_a_symbol_have_numbers_of_their_own(tmp_path: Path) -> None:
    stream = Stream("one number")
    trades = {"where": {"e": "t"}, "kind": "trade", "symbol": "s", "gapless": True, "fields": TRADE}
    messages = [stream.snapshot()]
    for at in range(10):
        messages += [stream.change(), {"e": "t", "s": "ABC", "t": stream.time, "p": "1", "q": "1", "n": 100 + at}]
    profile = {"message": [trades, *stream.profile["message"]]}
    _, feed = read(tmp_path, messages, profile)
    assert (feed.statistics()["gap"], feed.statistics()["not_rising"]) == (0, 0)


def test_a_number_that_no_tick_holds_is_left_out_and_counted(tmp_path: Path) -> None:
    profile = {"message": [{"kind": "trade", "symbol": "s", "gapless": True, "fields": TRADE}]}
    numbers = [1 << 40, (1 << 40) + 1, 10**30]
    messages = [{"s": "ABC", "t": 1_767_571_200_000, "p": "1", "q": "1", "n": n} for n in numbers]
    ticks, feed = read(tmp_path, messages[:2], profile)
    assert ticks["sequence"].tolist() == [1, 2]  # positions
    assert (feed.statistics()["sequences_left_out"], feed.statistics()["gap"]) == (2, 0)
    _, feed = read(tmp_path, messages, profile)
    assert feed.statistics()["gap"] == 1


def test_a_snapshot_without_a_time_has_that_of_the_message_beside_it(tmp_path: Path) -> None:
    stream = Stream("first and last")
    first, snapshot = stream.change(), stream.snapshot()
    then = stream.change()
    for messages, time in (([first, snapshot, then], first["t"]), ([snapshot, then], then["t"])):
        ticks, _ = read(tmp_path, messages, stream.profile)
        of_snapshot = ticks[(ticks["flags"] & 32) != 0]
        assert len(of_snapshot)
        assert set(of_snapshot["ts_recv"].tolist()) == {time * 10**6}
    with pytest.raises(FormatError, match="no message has a time of receipt or a ts_event"):
        read(tmp_path, [snapshot], stream.profile)


def test_a_snapshot_of_an_empty_book_empties_it(tmp_path: Path) -> None:
    stream = Stream("one number")
    empty = {"e": "snapshot", "s": "ABC", "u": stream.at + 9, "b": [], "a": []}
    result, found = replay(tmp_path, [stream.snapshot(), stream.change(), stream.change(), empty], stream.profile)
    assert found == ([], [])
    assert not result.warnings


def test_a_snapshot_of_orders_replaces_the_orders(tmp_path: Path) -> None:
    order = {"ts_event": {"column": "t", "unit": "ms"}, "order_id": "i", "price": "p", "size": "q",
             "side": {"constant": "B"}, "action": {"constant": "A"}}  # fmt: skip
    profile = {
        "ticks": "orders",
        "message": [{"each": "o", "kind": "order", "symbol": "s", "snapshot": True, "fields": order}],
    }
    messages = [
        {"s": "ABC", "t": 1_767_571_200_000 + at, "o": [{"i": i, "p": str(p), "q": "1"} for i, p in orders]}
        for at, orders in enumerate(([(1, 10), (2, 11)], [(2, 11), (3, 9)]))
    ]
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    result = strand.replay(path, "book", workers=1, cores=None, feed_options={"profile": profile})
    assert [order["order_id"] for order in result.books["ABC"].orders("bid")] == [2, 3]
    assert not result.warnings


def test_a_message_without_data_is_passed_over_where_the_profile_says_so(tmp_path: Path) -> None:
    rule = {"each": "data", "kind": "trade", "symbol": "s", "fields": TRADE}
    trade = {"s": "ABC", "t": 1_767_571_200_000, "p": "1", "q": "1", "n": 1}
    messages = [{"op": "subscribe", "success": True}, {"data": None}, {"data": [trade]}]
    with pytest.raises(FormatError, match="optional = true"):
        read(tmp_path, messages, {"message": [rule]})
    ticks, _ = read(tmp_path, messages, {"message": [{**rule, "optional": True}]})
    assert len(ticks) == 1
