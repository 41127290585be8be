"""The jobs of examples/jobs come to what other packages and plain loops come to, in no more statements."""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

polars = pytest.importorskip("polars")
pytest.importorskip("databento_dbn")
pytest.importorskip("numba")

ROOT = Path(__file__).resolve().parents[2]
JOBS = ROOT / "examples/jobs"
sys.path.insert(0, str(JOBS))

import job_data  # type: ignore[import-not-found]  # noqa: E402
import job_table  # type: ignore[import-not-found]  # noqa: E402
import peer_data  # type: ignore[import-not-found]  # noqa: E402

import strand  # noqa: E402
from strand import testing  # noqa: E402

pytestmark = pytest.mark.python


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return job_data.make_data(tmp_path_factory.mktemp("jobs"))


@pytest.fixture(scope="module")
def ours(data: Any) -> Any:
    return job_table.our_results(data)


@pytest.fixture(scope="module")
def theirs(data: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return peer_data.make_peer_data(data, tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="module")
def market(data: Any) -> Any:
    return peer_data.read_market(data.day)


@pytest.mark.parametrize(
    ("peer", "package"), [("polars", "polars"), ("databento", "databento"), ("nautilus", "nautilus_trader")]
)
def test_a_peer_comes_to_the_same(peer: str, package: str, ours: Any, theirs: Any) -> None:
    pytest.importorskip(package)
    found = dict(job_table.peer_results(peer, theirs))
    assert found.keys() == {job for job in ours if (peer, job) not in job_table.NONE_OF}
    for job, result in found.items():
        assert job_table.same(ours[job], result), (job, ours[job], result)
        assert result, job  # nothing is compared with nothing


def test_a_live_run_counts_the_shares_of_the_file(ours: Any, market: Any) -> None:
    shares: Counter[str] = Counter()
    for _, symbol, _, size, _ in market.trades:
        shares[symbol] += size
    assert ours["live_volume"] == shares


def test_a_dbn_file_as_a_frame_is_what_databentos_decoder_reads(ours: Any, data: Any) -> None:
    import databento_dbn
    import zstandard

    decoder: Any = databento_dbn.DBNDecoder()
    decoder.write(zstandard.ZstdDecompressor().stream_reader(data.dbn.read_bytes()).read())
    records = [record for record in decoder.decode() if isinstance(record, databento_dbn.MBOMsg)]
    assert len(records) == len(ours["databento_frame"]) > 1000
    for (time, action, side, price, size), record in zip(ours["databento_frame"], records, strict=True):
        assert (action, side, size) == (str(record.action), str(record.side), record.size)
        assert price == record.price / 1e9
        assert round(time.timestamp() * 1e6) == record.ts_event // 1000


def test_bars_of_coins_hold_ten_of_them_each(ours: Any, data: Any) -> None:
    from decimal import Decimal

    def bars() -> Iterator[tuple[float, float, float]]:
        opened, volume = None, Decimal(0)
        for line in data.coins.read_text().splitlines()[1:]:
            price, quantity = map(Decimal, line.split(",")[1:3])
            opened, volume = opened or price, volume + quantity
            if volume >= 10:
                yield float(opened), float(price), float(volume)
                opened, volume = None, Decimal(0)

    assert ours["coin_bars"] == list(bars())


def test_there_are_twenty_jobs_and_none_of_ours_has_more_statements() -> None:
    ours = job_table.statements("strand_jobs")
    assert len(ours) == 20
    for peer in job_table.PEERS:
        counts = job_table.statements(f"{peer}_jobs")
        assert counts.keys() == {job for job in ours if (peer, job) not in job_table.NONE_OF}
        assert [(job, count) for job, count in counts.items() if count < ours[job]] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('def f():\n    """Says so."""\n    return 1', 1),
        ("def f():\n    for a in b:\n        if a:\n            c()\n        else:\n            d()", 4),
        ("def f():\n    @d\n    def g():\n        return 1\n    class H:\n        x: int = 1\n    return g", 5),
    ],
)
def test_statements_are_counted_with_those_of_nested_functions(
    text: str, count: int, monkeypatch: Any, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(text)
    monkeypatch.setattr(job_table, "HERE", tmp_path)
    assert job_table.statements("jobs") == {"f": count}


def test_small_jobs_have_at_most_six_lines_and_give_the_levels_of_the_books(data: Any, tmp_path: Path) -> None:
    jobs = importlib.import_module("small_jobs")
    functions = [each for each in vars(jobs).values() if inspect.isfunction(each)]
    assert all(len(inspect.getsource(each).splitlines()) <= 6 for each in functions)
    names = [job_data.FUND, *job_data.PAIR]
    books = strand.replay(data.day, "book", symbols=names).books.levels(5).to_polars()
    frame = jobs.top_levels(data.day, names)
    jobs.changes_of_levels(data.day, names, tmp_path / "levels.parquet")
    changes = polars.read_parquet(tmp_path / "levels.parquet")
    for name in names:
        for row in (frame.filter(symbol=name).row(-1, named=True), changes.filter(symbol=name).row(-1, named=True)):
            for side in ("bid", "ask"):
                found = [tuple(row[f"{side}_{kind}_{at}"] for kind in ("price", "size", "count")) for at in range(1, 6)]
                assert found == books.filter(symbol=name, side=side[0].upper())["price", "size", "orders"].rows()


def test_small_jobs_put_the_market_beside_one_s_own_events_and_orders(data: Any) -> None:
    jobs = importlib.import_module("small_jobs")
    trades = strand.replay(data.day, "trades").outputs["trades"].to_polars()
    tops = strand.replay(data.day, "bbo").outputs["bbo"].to_polars()
    events = trades.select("symbol", time="ts").sample(200, seed=1).sort("time")
    quotes = events.join_asof(
        tops.select("symbol", "bid", "ask", time="ts"), on="time", by="symbol", allow_exact_matches=False
    )
    found = jobs.quotes_at(data.day, events)
    assert found["bid"].to_list() == quotes["bid"].to_list()
    assert found["ask"].to_list() == quotes["ask"].to_list()
    mine = trades.filter(symbol=job_data.FUND)
    start, end = mine["ts"][10], mine["ts"][-10]
    orders = {"symbol": [job_data.FUND], "start": [start], "end": [end], "price": [mine["price"][0]], "side": ["buy"]}
    within = mine.filter((polars.col("ts") >= start) & (polars.col("ts") < end))
    (row,) = jobs.market_of_orders(data.day, orders).to_dicts()
    vwap = (within["price"] * within["size"]).sum() / within["size"].sum()
    assert (row["trades"], row["volume"]) == (len(within), within["size"].sum())
    assert row["vwap"] == pytest.approx(vwap, rel=1e-12)
    assert row["slippage"] == pytest.approx(mine["price"][0] - vwap, abs=1e-9)


def test_small_jobs_make_bars_of_a_half_day_that_end_at_its_early_close() -> None:
    pytest.importorskip("exchange_calendars")
    # New York closes at 13:00 (18:00 UTC) on the day after Thanksgiving. A trade each ten minutes from 13:00 to 21:00.
    begin = dt.datetime(2026, 11, 27, 13, tzinfo=dt.UTC)
    times = [begin + dt.timedelta(minutes=10 * at) for at in range(49)]
    trades = [("A", int(time.timestamp()) * 10**9, 1, 100) for time in times]
    bars, outside = importlib.import_module("small_jobs").bars_of_sessions(testing.feed(trades), "XNYS")
    spans = [(f"{start:%H:%M}", f"{end:%H:%M}") for start, end in bars.select("start", "end").rows()]
    assert spans == [("14:30", "15:30"), ("15:30", "16:30"), ("16:30", "17:30"), ("17:30", "18:00")]
    assert bars["volume"].to_list() == [600, 600, 600, 300]
    assert outside.rows() == [("A", 9 + 19)]  # before the open, and from the early close on


def test_small_jobs_look_at_ticks_around_a_time_and_replay_a_frame(data: Any) -> None:
    jobs = importlib.import_module("small_jobs")
    trades = strand.replay(data.day, "trades").outputs["trades"].to_polars()
    mine = trades.filter(symbol=job_data.FUND)
    start, end = mine["ts"][10], mine["ts"][20]
    around = jobs.ticks_around(data.day, job_data.FUND, *(f"{at:%Y-%m-%dT%H:%M:%S.%f}Z" for at in (start, end)))
    assert set(around["symbol"]) == {job_data.FUND}
    assert around["ts_recv"].dt.truncate("1us").min() >= start.replace(tzinfo=None).replace(tzinfo=start.tzinfo)
    frame = trades.select("symbol", "price", "size", time="ts")
    found = jobs.frame_in_memory(frame, ts_event="time", symbol="symbol", price="price", size="size")
    sums = frame.group_by("symbol").agg(
        vwap=(polars.col("price") * polars.col("size")).sum() / polars.col("size").sum()
    )
    beside = found.join(sums, on="symbol", suffix="_summed")
    assert len(beside) == len(sums) > 2
    assert (beside["vwap"] - beside["vwap_summed"]).abs().max() < 1e-9


def test_what_differs_is_not_the_same() -> None:
    assert job_table.same({"a": [1, 2.0, None]}, {"a": (1, 2.0 + 1e-12, float("nan"))})
    for other in (
        {"a": [1, 2.0, 3]},
        {"a": [1, 2.1, None]},
        {"b": [1, 2.0, None]},
        {"a": [1, 2.0]},
        {"a": [2, 2.0, None]},
    ):
        assert not job_table.same({"a": [1, 2.0, None]}, other)


def test_the_scripts_are_formatted_so_counts_mean_the_same() -> None:
    ruff = Path(sys.executable).parent / "ruff"
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    done = subprocess.run([ruff, "format", "--check", JOBS], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_the_page_shows_the_table() -> None:
    assert job_table.table() in (ROOT / "docs/howto/jobs.md").read_text("utf-8")


def test_the_script_prints_each_job(data: Any, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    strand_jobs = importlib.import_module("strand_jobs")
    monkeypatch.setattr(strand_jobs, "make_data", lambda folder: data)
    strand_jobs.main()
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in printed] == list(job_table.statements("strand_jobs"))
    assert all(line.partition(": ")[2] for line in printed)
