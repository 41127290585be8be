"""Merging feeds gives what one stable sort of everything gives, whatever the batches."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import itch_reference as ref
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from merge_support import TIMES, ArrayFeed, keys, merged, read, read_until_fault, stamped

import strand
from strand import TICK
from strand.command.cli import cli
from strand.errors import ConfigurationError, DisorderError, FeedError, FormatError, UnknownSymbolError
from strand.feeds import Feed, TickBatch
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.merge.feeds import MergedFeed, merge_feeds
from strand.feeds.merge.streams import merge_streams
from strand.feeds.write.npy import write_npy
from strand.ticks import is_clear, zeros

# A stream is a list of batches of steps in time: many zeros, so that times meet within and across streams, and now and
# then a run that no other stream gets between.
STREAMS = st.lists(st.lists(st.lists(st.sampled_from([0, 0, 0, 1, 5, 300]), max_size=9), max_size=6), max_size=9)


def stream_of(number: int, batches: list[list[int]]) -> list[TickBatch]:
    ticks = stamped(np.cumsum([step for batch in batches for step in batch], dtype=np.uint64).tolist(), number)
    return np.split(ticks, np.cumsum([len(batch) for batch in batches], dtype=int)[:-1]) if batches else []


# ---- order


@given(STREAMS, st.integers(1, 40))
def test_a_merge_is_in_the_order_of_time_then_stream_then_position(
    streams: list[list[list[int]]], batch_ticks: int
) -> None:
    made = [stream_of(number, batches) for number, batches in enumerate(streams)]
    batches = [keys(chunk) for chunk in merge_streams([iter(stream) for stream in made], batch_ticks=batch_ticks)]
    assert [key for batch in batches for key in batch] == sorted(
        key for stream in made for batch in stream for key in keys(batch)
    )
    assert all(len(batch) == batch_ticks for batch in batches[:-1])
    assert all(batches)


def test_ticks_arrive_as_they_left_apart_from_their_id() -> None:
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 256, (50, TICK.itemsize), dtype=np.uint8).view(TICK)[:, 0].copy()
    raw["ts_recv"], raw["instrument_id"] = np.arange(50), 0
    other = ArrayFeed(stamped([10, 20], 9), ["B"])
    found = read(merged(other, ArrayFeed(raw, ["A"])))
    assert found[found["instrument_id"] == 1].tobytes() == raw_with(raw, 1)


def raw_with(ticks: TickBatch, number: int) -> bytes:
    ticks = ticks.copy()
    ticks["instrument_id"] = number
    return ticks.tobytes()


def test_a_full_batch_is_given_before_any_more_is_read() -> None:
    feed = ArrayFeed(stamped(list(range(9))), ["A"])
    batches = merged(feed, batch_ticks=3).batches()
    next(batches)
    assert feed.read == 3


@pytest.mark.python
def test_memory_is_one_batch_a_feed_however_long_the_feeds_are() -> None:
    feeds, batch_ticks, batches = 200, 512, 20

    class Long(ArrayFeed):
        def batches(self) -> Iterator[TickBatch]:
            for number in range(batches):
                yield stamped(range(number * batch_ticks, (number + 1) * batch_ticks))

    made = [Long(stamped([]), ["A"]) for _ in range(feeds)]
    tracemalloc.start()
    try:
        total = sum(len(batch) for batch in merge_feeds(made, batch_ticks=4096, reorder_ns=100).batches())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == feeds * batch_ticks * batches
    # A batch, as much again held in the window, and as ``stamped`` makes one; all of it is 20 times as much.
    assert peak < feeds * batch_ticks * TICK.itemsize * 3


# ---- faults, and what a feed does besides


def test_a_feed_that_fails_is_merged_up_to_its_last_tick_before_its_error() -> None:
    fault = FormatError("is damaged", path="bad", offset=7)
    bad = ArrayFeed(stamped([1, 2, 5], 0), ["A"], fault=fault)
    good = ArrayFeed(stamped([0, 3, 4, 6], 1), ["A"])
    for window in (0, 3, 1000):
        ticks, error = read_until_fault(merged(bad, good, reorder_ns=window))
        assert error is fault
        assert ticks["ts_recv"].tolist() == [0, 1, 2, 3, 4, 5]
    assert good.ended == 3


@given(TIMES, st.integers(0, 90))
def test_reading_on_from_a_position_gives_the_rest(times: list[int], position: int) -> None:
    feed = merged(ArrayFeed(stamped(sorted(times)), ["A"]), ArrayFeed(stamped([5, 20, 20, 30], 1), ["B"]))
    assert read(feed, position).tobytes() == read(feed)[position:].tobytes()


def test_what_is_known_of_the_feeds_is_known_of_the_merge() -> None:
    one = ArrayFeed(stamped([5, 9]), ["A"], path="a", venue="XNAS", date="2026-01-05")
    other = ArrayFeed(stamped([2, 7]), ["A"], path="b", venue="XNYS", date="2026-01-05")
    for feed in (one, other):
        feed.skipped.add("bad side", 2, offset=8, text="x")
    feed = merged(one, other)
    assert isinstance(feed, Feed)
    assert feed.info.span == (2, 9)
    assert (feed.info.format, feed.info.path) == ("list", "a and 1 more")
    assert (feed.info.date, feed.info.venue) == ("2026-01-05", None)
    assert [entry["venue"] for entry in feed.info.details["feeds"]] == ["XNAS", "XNYS"]
    assert feed.count() == 4
    read(feed)
    assert feed.statistics()["ticks"] == 4
    assert feed.skipped.counts == {"bad side": 4}
    assert [sample.text for sample in feed.skipped.samples] == ["a: x", "b: x"]
    assert merged(one, on_disorder="skip").count() is None


def test_closing_a_merge_closes_its_feeds_and_ends_its_iterations() -> None:
    feeds = [ArrayFeed(stamped([1, 2, 3], i), ["A"]) for i in range(2)]
    with merged(*feeds, batch_ticks=1) as feed:
        batches = feed.batches()
        next(batches)
    assert [one.closed for one in feeds] == [1, 1]
    with pytest.raises(FeedError, match="closed"):
        next(batches)
    with pytest.raises(FeedError, match="closed"):
        feed.batches()
    assert [one.ended for one in feeds] == [1, 1]


def test_one_feed_that_cannot_be_closed_leaves_no_other_open() -> None:
    class Stuck(ArrayFeed):
        def close(self) -> None:
            raise OSError("stuck")

    feeds = [ArrayFeed(stamped([1]), ["A"]), Stuck(stamped([1]), ["A"]), ArrayFeed(stamped([1]), ["A"])]
    with pytest.raises(OSError, match="stuck"):
        merged(*feeds).close()
    assert [one.closed for one in feeds] == [1, 0, 1]


def test_no_feeds_and_a_feed_that_comes_twice_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="give at least one feed"):
        merge_feeds([])
    one = ArrayFeed(stamped([1]), ["A"])
    with pytest.raises(ConfigurationError, match="twice"):
        merge_feeds([one, one])


# ---- files


def test_files_opened_together_are_one_feed_and_replay(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    paths, all_keys = [], []
    for number in range(8):
        ticks = stamped(np.sort(rng.integers(0, 9999, 500)).tolist(), number, rng.integers(0, 3, 500).tolist())
        paths.append(tmp_path / f"{number}.npz")
        write_npy(paths[-1], ticks, [f"S{(number + i) % 5}" for i in range(3)])
        all_keys += keys(ticks)
    feed = strand.feeds.open(paths)
    assert isinstance(feed, MergedFeed)
    assert sorted(feed.symbols) == [f"S{i}" for i in range(5)]
    assert keys(read(feed)) == sorted(all_keys)
    result = strand.replay(paths, "count", workers=1)
    assert result.ticks == 4000
    alone = [read(NpyFeed(path)) for path in paths]
    for number in range(5):
        there = sum(int((t["instrument_id"] == (number - i) % 5).sum()) for i, t in enumerate(alone))
        assert result.rows[f"S{number}"]["ticks"] == there


def test_one_file_is_put_in_order_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_npy(path, stamped([10, 20, 15, 30]), ["A"])
    assert read(strand.feeds.open(path))["ts_recv"].tolist() == [10, 20, 15, 30]
    assert read(strand.feeds.open(path, reorder_ns=5))["ts_recv"].tolist() == [10, 15, 20, 30]
    assert read(strand.feeds.open([path], on_disorder="skip"))["ts_recv"].tolist() == [10, 20, 30]


def test_symbols_are_selected_by_the_names_that_the_files_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = [tmp_path / f"{venue}.npz" for venue in ("XNAS", "XNYS")]
    for path in paths:
        write_npy(path, stamped([1, 2], 0, [0, 1]), ["A", "B"])
    info = NpyFeed.info.fget
    monkeypatch.setattr(NpyFeed, "info", property(lambda feed: replace(info(feed), venue=Path(info(feed).path).stem)))
    result = strand.replay(paths, "count", symbols=["A"], workers=1, feed_options={"venue_in_name": True})
    shown = [name for name in result.symbols.offered(10) if name.startswith("A.")]
    assert result.rows.to_numpy()["symbol"].tolist() == shown != result.symbols.offered(10)
    assert result.ticks == 2
    assert int(result.rows["A.XNAS"]["ticks"]) == int(result.rows["A.XNYS"]["ticks"]) == 1
    with pytest.raises(UnknownSymbolError, match="'C'"):
        strand.replay(paths, "count", symbols=["C"], workers=1, feed_options={"venue_in_name": True})


def test_the_command_says_what_to_do_about_disorder_and_does_what_it_is_told(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]
    write_npy(paths[0], stamped([10, 20, 15, 30]), ["A"])
    write_npy(paths[1], stamped([12, 25], 1), ["A"])
    failed = CliRunner().invoke(cli, ["replay", *paths, "--json"])
    assert isinstance(failed.exception, DisorderError)
    assert json.loads(failed.stdout)["ticks"] == 3
    for options, name, ticks in (
        (["--reorder-ns", "5"], "reordered", 6),
        (["--on-disorder", "keep"], "disorder_kept", 6),
        (["--on-disorder", "skip"], "disorder_skipped", 5),
    ):
        done = CliRunner().invoke(cli, ["replay", *paths, "--json", *options])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert (found["feed"][name], found["ticks"]) == (1, ticks)
    info = CliRunner().invoke(cli, ["info", *paths, "--json", "--on-disorder", "skip"])
    assert json.loads(info.stdout)["skipped"]["counts"] == {"out of order": 1}
    assert CliRunner().invoke(cli, ["info", *paths, "--venue-in-name"]).exit_code != 0


def test_times_of_a_day_that_nobody_knows_are_not_merged_with_those_of_one_that_is_known(tmp_path: Path) -> None:
    content = b"".join(ref.frame(ref.message("D", 1, n, 7)) for n in range(3))
    for name in ("20200130.itch", "a.itch", "b.itch"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"a\.itch does not say its date, and .* is of 2020-01-30"):
        strand.feeds.open([tmp_path / "20200130.itch", tmp_path / "a.itch"])
    with strand.feeds.open([tmp_path / "a.itch", tmp_path / "b.itch"]) as feed:
        assert feed.info.undated
        assert len(read(feed)) == 6
    with strand.feeds.open([tmp_path / "20200130.itch", tmp_path / "a.itch"], date="2020-01-30") as feed:
        assert not feed.info.undated
    said = CliRunner().invoke(cli, ["replay", str(tmp_path / "a.itch"), "--handler", "count"])
    assert said.exit_code == 0
    assert "give date= (--date)" in said.output.replace("\n", " ")
    said = CliRunner().invoke(cli, ["info", str(tmp_path / "a.itch"), "--json"])
    assert json.loads(said.stdout)["undated"] is True


# ---- A new day begins at midnight in a zone


SECOND = 1_000_000_000
DAY = 86_400 * SECOND


def test_a_date_begins_at_midnight_in_its_zone(tmp_path: Path) -> None:
    ticks = zeros(6)
    hour = 3600 * SECOND
    ticks["ts_recv"] = np.array([1, 23, 22, 25, 30, 60]) * hour + 20_000 * DAY
    ticks["instrument_id"] = [0, 1, 0, 0, 0, 0]
    write_npy(tmp_path / "a.npz", ticks, ["A", "B"])

    def at(new_day: str, batch: int) -> list[tuple[int, int]]:
        with strand.feeds.open(tmp_path / "a.npz", new_day=new_day, batch_ticks=batch) as feed:
            found = np.concatenate([one.copy() for one in feed.batches()])
        assert found[~is_clear(found)].tobytes() == ticks.tobytes()
        clears = found[is_clear(found)]
        return [(int(t["ts_recv"] // hour) - 480_000, int(t["instrument_id"])) for t in clears]

    for batch in (1, 2, 100):
        assert at("date", batch) == [(25, 0), (25, 1), (60, 0)]
        assert at("date America/New_York", batch) == [(23, 0), (30, 0), (30, 1), (60, 0)]
    with pytest.raises(ConfigurationError, match="is not a time zone"):
        strand.feeds.open(tmp_path / "a.npz", new_day="date Mars")


# ---- Times that run back: within the window they are put in order, beyond it kept, skipped or an error


def expected(times: Sequence[int], feed: int, window: int, on_disorder: str) -> tuple[list[tuple[int, ...]], int, int]:
    """A feed's ticks as (where they go, feed, position, time), those put in order, and those further back."""
    latest, found, early, late = 0, [], 0, 0
    for position, time in enumerate(times):
        latest = max(latest, time)
        early += 0 < latest - time <= window
        late += latest - time > window
        if latest - time <= window:
            found.append((time, feed, position, time))
        elif on_disorder == "keep":
            found.append((latest, feed, position, time))
    return found, early, late


@given(st.lists(TIMES, min_size=1, max_size=4), st.sampled_from([0, 3, 20, 1000]), st.sampled_from(["keep", "skip"]))
def test_times_within_the_window_are_put_in_order_and_others_kept_or_skipped_and_counted(
    times: list[list[int]], window: int, on_disorder: str
) -> None:
    feeds = [ArrayFeed(stamped(own, number), ["A"]) for number, own in enumerate(times)]
    feed = merged(*feeds, reorder_ns=window, on_disorder=on_disorder)
    ticks = read(feed)
    parts = [expected(own, number, window, on_disorder) for number, own in enumerate(times)]
    order = sorted(key for part, _, _ in parts for key in part)
    assert keys(ticks) == [(time, number, position) for _, number, position, time in order]
    counts = feed.statistics()
    assert counts["reordered"] == sum(early for _, early, _ in parts)
    assert counts[f"disorder_{'kept' if on_disorder == 'keep' else 'skipped'}"] == sum(late for _, _, late in parts)
    assert feed.skipped.total == counts["disorder_skipped"]
    furthest = max((max(own[: i + 1]) - time for own in times for i, time in enumerate(own)), default=0)
    assert counts["disorder_furthest_ns"] == furthest


@given(TIMES, st.sampled_from([0, 3, 20]))
def test_a_time_further_back_than_the_window_raises_with_its_place_after_all_before_it(
    times: list[int], window: int
) -> None:
    late = [i for i, time in enumerate(times) if max(times[: i + 1]) - time > window]
    bad = ArrayFeed(stamped(times, 1), ["A"], path="bad.npy")
    feed = merged(ArrayFeed(stamped([0, 30, 59]), ["A"]), bad, reorder_ns=window)
    if not late:
        assert len(read(feed)) == 3 + len(times)
        return
    ticks, error = read_until_fault(feed)
    assert isinstance(error, DisorderError)
    assert error.path == "bad.npy"
    assert error.position == late[0]
    assert f"tick {late[0]}" in str(error)
    before = sorted((time, position) for position, time in enumerate(times[: late[0]]))
    assert [(time, position) for time, number, position in keys(ticks) if number == 1] == before
    assert ticks["ts_recv"].tolist() == sorted(ticks["ts_recv"].tolist())


def test_what_was_skipped_out_of_order_is_shown_with_its_place() -> None:
    feed = merged(ArrayFeed(stamped([10, 4, 11]), ["A"], path="day.npy"), on_disorder="skip")
    read(feed)
    assert [(s.reason, s.text) for s in feed.skipped.samples] == [("out of order", "day.npy: tick 1, 6 ns back")]


def test_a_window_holds_no_more_than_it_covers() -> None:
    feed = ArrayFeed(stamped(list(range(0, 3000, 10))), ["A"], batch_ticks=10)
    batches = merged(feed, reorder_ns=500, batch_ticks=1).batches()
    next(batches)
    assert feed.read == 60  # 51 ticks are less than 500 ns behind the latest, or that far


# ---- A name is one symbol in a merge, whatever number each feed has for it


def test_a_name_is_one_symbol_whatever_its_number_in_a_feed() -> None:
    one = ArrayFeed(stamped([1, 3], 0, [0, 1]), ["AAPL", "MSFT"])
    other = ArrayFeed(stamped([2, 4], 1, [1, 0]), ["MSFT", "AAPL"])
    feed = merged(one, other)
    assert list(feed.symbols) == ["AAPL", "MSFT"]
    assert feed.max_symbols == 2
    assert read(feed)["instrument_id"].tolist() == [0, 0, 1, 1]


def test_with_venues_in_the_names_the_same_name_at_two_venues_is_two_symbols() -> None:
    feeds = [ArrayFeed(stamped([i], i), ["AAPL"], venue=venue) for i, venue in enumerate(["XNAS", "XNYS", "XNAS"])]
    feed = merged(*feeds, venue_in_name=True)
    assert list(feed.symbols) == ["AAPL.XNAS", "AAPL.XNYS"]
    assert read(feed)["instrument_id"].tolist() == [0, 1, 0]


def test_venues_are_asked_of_feeds_that_say_them() -> None:
    with pytest.raises(ConfigurationError, match=r"venue_in_name: day\.npy"):
        merged(ArrayFeed(stamped([1]), ["A"], path="day.npy"), venue_in_name=True)


def test_the_table_grows_with_those_of_the_feeds() -> None:
    learns = [["A"], ["A", "B"], ["A", "B", "", "C"]]
    ticks = stamped([0, 1, 2, 3, 4, 5, 6, 7, 8], 0, [0, 0, 0, 1, 1, 1, 3, 3, 3])
    growing = ArrayFeed(ticks, [], max_symbols=10, learns=learns)
    fixed = ArrayFeed(stamped([0, 9], 1, [0, 1]), ["C", "B"])
    feed = merged(growing, fixed)
    assert list(feed.symbols) == ["C", "B"]
    assert feed.max_symbols == 12
    found = read(feed)
    assert list(feed.symbols) == ["C", "B", "A"]
    names = [feed.symbols[number] for number in found["instrument_id"]]
    assert names == ["A", "C", "A", "A", "B", "B", "B", "C", "C", "C", "B"]
    assert read(feed)["instrument_id"].tolist() == found["instrument_id"].tolist()


def test_an_index_that_is_named_late_keeps_its_number() -> None:
    late = ArrayFeed(stamped([1, 2, 3, 4], 0, 1), ["A"], max_symbols=5, learns=[["A"], ["A", "LATE"]])
    feed = merged(ArrayFeed(stamped([0], 1), ["B"]), late)
    numbers = read(feed)["instrument_id"].tolist()
    assert len(set(numbers[1:])) == 1
    assert feed.symbols[numbers[1]] == "LATE"


def test_an_index_that_is_named_late_with_a_name_another_feed_has_goes_over_to_it() -> None:
    late = ArrayFeed(stamped([1, 2, 3, 4], 0, 0), [], max_symbols=5, learns=[[], ["B"]])
    feed = merged(ArrayFeed(stamped([0], 1), ["B"]), late)
    numbers = read(feed)["instrument_id"].tolist()
    assert [feed.symbols[number] for number in numbers] == ["B", "", "", "", "B"]


def test_indices_without_names_are_one_symbol_where_they_are_equal() -> None:
    one = ArrayFeed(stamped([1, 2], 0, [0, 1]), ["", ""])
    other = ArrayFeed(stamped([3, 4], 1, [1, 2]), ["", "", ""])
    assert read(merged(one, other))["instrument_id"].tolist() == [0, 1, 1, 2]


def test_an_index_beyond_a_feeds_max_symbols_is_its_fault() -> None:
    ticks, error = read_until_fault(merged(ArrayFeed(stamped([1, 2], 0, [0, 9]), ["A", "B"], path="day.npy")))
    assert len(ticks) == 1
    assert isinstance(error, FeedError)
    assert str(error) == "day.npy: a tick's instrument_id is 9, but the feed's max_symbols is 2"


def test_more_symbols_than_max_symbols_are_an_error_that_says_so() -> None:
    growing = ArrayFeed(stamped([1, 2, 3], 0, [0, 1, 2]), [], max_symbols=100)
    feed = merged(growing, max_symbols=2)
    ticks, error = read_until_fault(feed)
    assert len(ticks) == 2
    assert isinstance(error, FeedError)
    assert "max_symbols=" in str(error)
