"""Replaying files: rows, counts and reports against computations that share no code with the engine."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import itch_reference
import numpy as np
import numpy.typing as npt
import pytest
from typed_calls import kinds, named, parameters

import strand
from strand import replay, testing
from strand.dispatch.configuration import RunOptions
from strand.errors import (
    ConfigurationError,
    HandlerError,
    TruncatedFeedError,
    UnknownSymbolError,
)
from strand.feeds import Feed, FeedInfo, TickBatch
from strand.feeds.sample import SAMPLE_DATE, sample_feed, sample_path
from strand.replaying.fingerprint_file import read_fingerprints
from strand.replaying.options import ReplayOptions
from strand.replaying.recorder import describe_handlers

pytestmark = pytest.mark.python


@pytest.fixture(scope="module")
def sample() -> tuple[Any, list[str]]:
    feed = sample_feed()
    return np.concatenate([batch.copy() for batch in feed.batches()]), list(feed.symbols)


def counted(ticks: Any, symbols: int) -> dict[str, Any]:
    """The rows that the count handler should leave, by plain numpy."""
    keys = ticks["instrument_id"]
    traded = ticks["kind"] == 2
    last = np.zeros(symbols, np.uint64)
    last[keys] = ticks["sequence"]  # the last assignment stands
    return {
        "ticks": np.bincount(keys, minlength=symbols),
        "trades": np.bincount(keys[traded], minlength=symbols),
        "volume": np.bincount(keys[traded], weights=ticks["size"][traded], minlength=symbols),
        "last_sequence": last,
    }


@pytest.mark.parametrize(("workers", "strands"), [(1, "auto"), (2, "per-symbol"), (3, 7)])
def test_the_sample_gives_the_rows_of_a_plain_computation(sample: Any, workers: int, strands: Any) -> None:
    ticks, names = sample
    result = strand.replay(sample_path(), "count", workers=workers, strands=strands, feed_options={"date": SAMPLE_DATE})
    assert result.ticks == len(ticks) == result.statistics.handled
    assert list(result.symbols[: len(names)])[1:] == names[1:]
    for field, values in counted(ticks, len(result.rows.array)).items():
        np.testing.assert_array_equal(result.rows.array[field], values)
    assert result.statistics.pending == 0
    assert sum(result.statistics.dropped.values()) == 0


def test_symbols_are_chosen_by_name_and_glob(sample: Any) -> None:
    ticks, names = sample
    wanted = [i for i, name in enumerate(names) if name == "AAAHD" or name.startswith("AAAA")]
    result = strand.replay(sample_path(), "count", symbols=["AAAHD", "AAAA*"])
    assert sorted(np.flatnonzero(result.ticks_by_symbol)) == wanted
    assert result.ticks == int(np.isin(ticks["instrument_id"], wanted).sum())
    with pytest.raises(UnknownSymbolError, match="NOSUCH"):
        strand.replay(sample_path(), "count", symbols=["NOSUCH"])


def test_a_limit_is_exact_and_progress_ends_there() -> None:
    seen: list[int] = []
    result = strand.replay(sample_path(), "count", limit=12_345, progress=seen.append)
    assert result.ticks == 12_345 == seen[-1] == result.rows.array["ticks"].sum()
    with pytest.raises(ConfigurationError, match="limit"):
        strand.replay(sample_path(), "count", limit=0)


class Cut(Feed):
    """A feed that ends in an error, after two batches."""

    def __init__(self, ticks: Any) -> None:
        self.ticks, self.closed = ticks, False

    @property
    def info(self) -> FeedInfo:
        return FeedInfo("cut", "nowhere")

    @property
    def symbols(self) -> list[str]:
        return []

    @property
    def max_symbols(self) -> int:
        return 501

    def batches(self) -> Iterator[TickBatch]:
        yield self.ticks[:1000]
        yield self.ticks[1000:1500]
        raise TruncatedFeedError("cut", offset=7)

    def statistics(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        self.closed = True


def test_a_feed_that_fails_is_closed_and_what_came_before_is_handled_and_counted(sample: Any) -> None:
    feed = Cut(sample[0])
    with pytest.raises(TruncatedFeedError, match="byte 7") as caught:
        strand.replay(feed, "count")
    assert feed.closed
    partial = caught.value.partial
    assert partial is not None
    assert partial.ticks == partial.statistics.handled == 1500
    for field, values in counted(sample[0][:1500], len(partial.rows.array)).items():
        np.testing.assert_array_equal(partial.rows.array[field], values)


def test_a_name_that_the_whole_feed_lacks_is_an_error_behind_the_others_result(sample: Any) -> None:
    with pytest.raises(UnknownSymbolError, match="NOSUCH") as caught:
        strand.replay(sample_path(), "count", symbols=["AAAHD", "NOSUCH"])
    assert caught.value.partial is not None
    assert caught.value.partial.rows["AAAHD"]["ticks"] > 0


def test_a_feed_of_ones_own_is_selected_from_too(sample: Any) -> None:
    ticks, _ = sample
    whole = ticks[:1500]
    cut = int(np.median(whole["ts_recv"]))
    with pytest.raises(TruncatedFeedError) as caught:
        strand.replay(Cut(ticks), "count", end=cut)
    assert caught.value.partial is not None
    assert caught.value.partial.ticks == int((whole["ts_recv"] < cut).sum()) > 0


def test_a_replay_goes_on_where_another_was_left_off(sample: Any) -> None:
    first = strand.replay(sample_path(), "count", limit=70_001)
    rest = strand.replay(sample_path(), "count", position=70_001)
    assert first.ticks + rest.ticks == len(sample[0])
    np.testing.assert_array_equal(
        first.rows.array["ticks"] + rest.rows.array["ticks"], np.bincount(sample[0]["instrument_id"], minlength=65536)
    )


def test_the_recorded_itch_file_leaves_the_rows_of_an_independent_decoder(shared_data: Path) -> None:
    path = next((shared_data / "itch50").glob("*.TEST_ITCH_50"))
    reference = itch_reference.decode(path.read_bytes(), 0)
    result = strand.replay(path, "count", feed_options={"date": "2010-12-24"})
    counts: dict[int, int] = defaultdict(int)
    last: dict[int, int] = {}
    for tick in reference.ticks:
        counts[tick["instrument_id"]] += 1
        last[tick["instrument_id"]] = tick["sequence"]
    assert result.ticks == sum(counts.values())
    for key, count in counts.items():
        assert result.rows[key]["ticks"] == count
        assert result.rows[key]["last_sequence"] == last[key]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"speeed": 2}, r"replay\(\) has no option 'speeed'; did you mean 'speed'\?"),
        ({"zzz": 1}, r"replay\(\) has no option 'zzz'; it has allow_empty, .*, workers$"),
        ({"budget_us": 10}, r"no option 'budget_us'; give pool=strand.Pool\(budget_us=...\)"),
        ({"_counters_start": 5}, "has no option '_counters_start'"),
        (
            {"feed_options": {"symbols": ["AAPL"]}},
            "symbols: give it as an argument of its own, and not in feed_o",
        ),
        ({"feed_options": {1: 2}}, "feed_options: 1 is not the name of an option"),
        ({"feed_options": {"prize": 1}}, r"feeds.open\(\) of itch files has no option 'prize'"),
    ],
)
def test_an_unknown_option_is_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        strand.replay(sample_path(), "count", **options)


def test_options_for_files_are_refused_with_a_feed() -> None:
    with pytest.raises(ConfigurationError, match="feed_options: date are for files"):
        strand.replay(sample_feed(), "count", feed_options={"date": SAMPLE_DATE})


# ---- Figures of a run that are made of others


@pytest.fixture(scope="module")
def result() -> strand.ReplayResult:
    ticks = [{"symbol": "A", "time": i + 1, "price": 1, "size": 1} for i in range(10)]
    return testing.reference(testing.feed(ticks), "count")


@pytest.mark.parametrize(
    ("times", "name"),
    [
        ({"wall_s": 10.0, "setup_s": 1.0, "feed_s": 2.0, "input_wait_s": 1.5}, "dispatch"),
        ({"wall_s": 10.0, "setup_s": 6.0, "feed_s": 2.0, "input_wait_s": 1.5}, "set-up"),
        ({"wall_s": 10.0, "setup_s": 1.0, "feed_s": 8.0, "input_wait_s": 1.5}, "feed"),
        ({"wall_s": 10.0, "setup_s": 1.0, "feed_s": 8.0, "input_wait_s": 7.5}, "reading"),
        # Getting ticks took most of the time, and neither half of that did.
        ({"wall_s": 10.0, "setup_s": 1.0, "feed_s": 5.0, "input_wait_s": 2.4}, "feed"),
        ({"wall_s": 10.0, "setup_s": 1.0, "feed_s": 5.0, "input_wait_s": 2.6}, "reading"),
    ],
)
def test_what_took_most_of_the_time_is_named(result: Any, times: dict[str, float], name: str) -> None:
    assert replace(result, **times).limited_by == name


@pytest.mark.parametrize(
    ("details", "work"),
    [
        ({}, "reading"),
        ({"compression": "none"}, "reading"),
        ({"compression": "gzip"}, "reading and inflating"),
        ({"feeds": [{"compression": None}, {"compression": "none"}]}, "reading"),
        ({"feeds": [{"compression": "none"}, {"compression": "zstd"}]}, "reading and inflating"),
    ],
)
def test_only_of_a_compressed_file_it_is_said_that_it_was_inflated(
    result: Any, details: dict[str, Any], work: str
) -> None:
    found = replace(
        result, info=replace(result.info, details=details), wall_s=10.0, setup_s=0.0, feed_s=8.0, input_wait_s=7.5
    )
    assert (found.limited_by, found.input_work) == (work, work)


class WaitsInThreads(testing.ListFeed):
    """A merge whose parts have waited for their files at the same time."""

    def statistics(self) -> dict[str, int]:
        return {"wait_ns": 10**15}


def test_input_is_waited_for_no_longer_than_ticks_are() -> None:
    ticks = strand.ticks.zeros(10)
    found = strand.replay(WaitsInThreads(ticks, ["A"]), "count", workers=0)
    assert 0 < found.input_wait_s <= found.feed_s


@pytest.mark.parametrize("workers", [0, 1])
def test_the_set_up_of_a_run_that_a_handler_ends_counts_as_such(workers: int) -> None:
    @strand.batch_handler(state=[("n", "i8")])
    def fails(symbol: str, ticks: Any, row: Any) -> None:
        raise ValueError(symbol)

    with pytest.raises(HandlerError) as caught:
        strand.replay(testing.ListFeed(strand.ticks.zeros(10), ["A"]), fails, workers=workers, cores=None)
    assert 0 < caught.value.partial.setup_s < caught.value.partial.wall_s


def test_rates_are_ticks_by_the_time_and_of_no_time_there_are_none(result: Any) -> None:
    assert replace(result, wall_s=2.0).ticks_per_s == 5.0
    assert replace(result, wall_s=0.0).ticks_per_s == 0.0
    assert replace(result, wall_s=0.0).busy_share == 0.0


def test_books_and_snapshots_that_were_not_asked_for_are_refused_with_what_to_give(result: Any) -> None:
    with pytest.raises(ConfigurationError, match="books: no handler here keeps books; give handler='book'"):
        _ = result.books
    with pytest.raises(ConfigurationError, match=r"snapshots: none were asked for; give replay\(snapshot="):
        _ = result.snapshots


# ---- The options of a replay, by name and type


def test_the_options_of_what_is_called_like_replay_are_those_of_replay() -> None:
    assert {n: kind for n, kind in named(strand.replay).items() if n != "handlers"} == kinds(ReplayOptions)
    for called in (strand.testing.reference, strand.testing.seeded, strand.testing.check_seeds):
        assert kinds(ReplayOptions).items() <= named(called).items()
    own = {name: one.default for name, one in parameters(strand.Dispatcher).items() if name in kinds(RunOptions)}
    assert own.items() <= {name: one.default for name, one in parameters(strand.replay).items()}.items()


# ---- What a fingerprint file says of its run


def test_the_text_of_what_runs_at_timers_and_the_end_is_part_of_a_handler_s_code() -> None:
    def on_tick(row, tick, ctx):  # type: ignore[no-untyped-def]
        row.n += 1

    def wake_once(row, time):  # type: ignore[no-untyped-def]
        row.n += 1

    def wake_twice(row, time):  # type: ignore[no-untyped-def]
        row.n += 2

    def finish_once(row):  # type: ignore[no-untyped-def]
        row.n += 1

    def finish_twice(row):  # type: ignore[no-untyped-def]
        row.n += 2

    def code(on_wake: Any, on_finish: Any) -> Any:
        like = strand.handler(state=[("n", "u8")], on_wake=on_wake, on_finish=on_finish)(on_tick)
        return describe_handlers({"*": like})["*"]["code"]

    assert code(wake_once, finish_once) == code(wake_once, finish_once) is not None
    assert len({code(wake, finish) for wake in (wake_once, wake_twice) for finish in (finish_once, finish_twice)}) == 4


def test_the_header_says_what_the_input_and_the_selection_were(tmp_path: Path) -> None:
    from strand.feeds.sample import sample_path

    path = tmp_path / "run.jsonl"
    strand.replay(
        sample_path(), "vwap", workers=1, symbols=["AAA*"], limit=500, position=3, start="2026-01-05T10:00:00Z",
        feed_options={"date": "2026-01-05"}, fingerprints=path,
    )  # fmt: skip
    header = read_fingerprints(path).header
    (source,) = header["source"]
    assert source["path"] == str(sample_path())
    assert source["size"] == sample_path().stat().st_size
    assert len(source["head"]) == 32
    assert header["selection"] == {
        "symbols": ["AAA*"], "limit": 500, "position": 3, "start": "2026-01-05T10:00:00Z",
    }  # fmt: skip
    assert header["feed_options"] == {"date": "2026-01-05"}


def test_the_header_holds_its_settings_whole(tmp_path: Path) -> None:
    from strand.feeds.sample import SAMPLE_DATE, sample_path

    path, weights = tmp_path / "run.jsonl", {f"group {i}": i for i in range(1, 100)}
    strand.replay(
        sample_path(), "count", workers=1, limit=10, feed_options={"date": SAMPLE_DATE},
        policy=strand.Fair(weights=weights), fingerprints=path,
    )  # fmt: skip
    assert "'group 99': 99" in read_fingerprints(path).header["settings"]["policy"]


# ---- The thread that samples a run


OPTIONS: dict[str, Any] = {"feed_options": {"date": SAMPLE_DATE}}


def samplers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "strand-sampler"]


def test_no_sampler_is_left_behind() -> None:
    @strand.batch_handler(state=[("n", "u8")])
    def fails(symbol: str, ticks: npt.NDArray[Any], row: Any) -> None:
        raise ValueError("no")

    replay(sample_path(), "count", **OPTIONS)
    assert samplers() == []
    with pytest.raises(HandlerError):
        replay(sample_path(), fails, watch=2, **OPTIONS)
    assert samplers() == []


def test_a_run_that_is_not_sampled_has_no_timeline() -> None:
    result = replay(sample_path(), "count", timeline=False, limit=1000, **OPTIONS)
    assert result.timeline is None
    with pytest.raises(ConfigurationError, match="timeline=False"):
        result.plot("throughput")
    result.plot("latency")


def test_a_plain_loop_is_not_sampled() -> None:
    assert replay(sample_path(), "count", workers=0, watch=2, limit=1000, **OPTIONS).timeline is None


@pytest.mark.parametrize("watch", ["A", 1.5, 17, object()])
def test_symbols_to_watch_that_are_none_are_refused_before_the_run(watch: Any) -> None:
    """Without a timeline nothing looks at them but the check at the end, when the run is over."""
    feed = testing.ListFeed(strand.ticks.zeros(10), ["A"])
    with pytest.raises(ConfigurationError, match=r"watch: .* is neither a list of symbols' names nor a number"):
        replay(feed, "count", watch=watch, timeline=False)


@pytest.mark.parametrize("every_s", [0, -1, float("nan"), float("inf"), "10", None, True])
def test_a_length_of_parts_that_would_never_end_or_is_no_number_is_refused(every_s: Any, tmp_path: Path) -> None:
    feed = testing.ListFeed(strand.ticks.zeros(10), ["A"])
    with pytest.raises(ConfigurationError, match=r"every_s: .* is not a number of seconds above 0"):
        strand.follow(feed, "count", state=tmp_path / "state", every_s=every_s)
