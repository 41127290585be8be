"""From format to format and back: equal ticks, equal bytes where that is promised, and no file where it cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from converted import ITCH_NAME, assert_same, read

import strand
from strand import TICK, UNDEF_PRICE
from strand.command.cli import cli
from strand.errors import ConfigurationError, FeedError
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.opening import open as open_feed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert, target_of
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.npz"])
def test_itch_to_columns_keeps_every_field_and_name(tmp_path: Path, day: Path, name: str) -> None:
    written = convert(day, tmp_path / name)
    expected = read(day)
    assert_same(read(tmp_path / name), expected)
    assert (written.ticks, written.symbols) == (len(expected[0]), 40)
    assert written.bytes == (tmp_path / name).stat().st_size


def test_the_embedded_sample_and_every_packing_read_back_equal(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    date = {"date": SAMPLE_DATE}
    expected = read(sample_path(), **date)
    for name in ("itch", "itch.gz", "itch.zst"):
        path = tmp_path / f"{SAMPLE_DATE}.{name}"
        convert(sample_path(), path, feed_options=date)
        assert_same(read(path), expected, "sequence")


def test_a_date_beside_the_feed_options_is_one_of_them(tmp_path: Path) -> None:
    written = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert not convert(sample_path(), written[0], date=SAMPLE_DATE).undated
    convert(sample_path(), written[1], feed_options={"date": SAMPLE_DATE})
    assert written[0].read_bytes() == written[1].read_bytes()
    with pytest.raises(ConfigurationError, match="date: give it as an argument of its own"):
        convert(sample_path(), written[0], date=SAMPLE_DATE, feed_options={"date": SAMPLE_DATE})
    with open_feed(sample_path()) as feed, pytest.raises(ConfigurationError, match="a feed is converted as it is"):
        convert(feed, written[0], date=SAMPLE_DATE)


def test_npy_holds_ticks_without_names(tmp_path: Path) -> None:
    ticks = np.frombuffer(np.random.default_rng(1).bytes(64 * 500), TICK).copy()
    ticks["instrument_id"] %= 5
    write_npy(tmp_path / "a.npy", ticks)
    convert(tmp_path / "a.npy", tmp_path / "b.npy")
    assert (tmp_path / "b.npy").read_bytes() == (tmp_path / "a.npy").read_bytes()
    convert(tmp_path / "a.npy", tmp_path / "b.npz")
    feed = NpyFeed(tmp_path / "b.npz")
    assert np.concatenate([b.copy() for b in feed.batches()]).tobytes() == ticks.tobytes()


def test_selections_and_limits_are_what_is_written(tmp_path: Path, day: Path) -> None:
    whole, names = read(day)
    wanted = sorted(set(names))[3]
    middle = int(whole["ts_recv"][len(whole) // 2])
    convert(day, tmp_path / "a.npz", symbols=[wanted], start=middle, limit=5)
    chosen = [i for i, name in enumerate(names) if name == wanted and whole["ts_recv"][i] >= middle][:5]
    np.testing.assert_array_equal(read(tmp_path / "a.npz")[0], whole[chosen])


def order(**changes: Any) -> np.ndarray:
    tick = zeros(3)
    tick["ts_event"] = tick["ts_recv"] = 1_767_589_200 * 10**9 + 12
    tick["price"], tick["size"], tick["order_id"], tick["kind"] = 10**9, 5, 1, 1
    tick["action"], tick["side"], tick["sequence"] = b"A", b"B", [1, 2, 3]
    for name, value in changes.items():
        tick[1:2][name] = value
    return tick


@pytest.mark.parametrize(
    ("target", "field", "value"),
    [
        (ITCH_NAME, "price", 10**9 + 1),
        (ITCH_NAME, "price", -(10**9)),
        (ITCH_NAME, "price", 1 << 62),
        (ITCH_NAME, "ts_event", 5),
        (ITCH_NAME, "ts_recv", 5),
        (ITCH_NAME, "publisher_id", 1),
        (ITCH_NAME, "ref_id", 1),
        (ITCH_NAME, "flags", 64),
        (ITCH_NAME, "depth", 1),
        (ITCH_NAME, "side", b"N"),
        (ITCH_NAME, "action", b"R"),
        (ITCH_NAME, "kind", 3),
        (ITCH_NAME, "kind", 4),
        ("a.dbn", "ref_id", 1),
        ("a.dbn", "depth", 1),
        ("a.dbn", "kind", 3),
        ("a.dbn", "sequence", 1 << 32),
        ("a.dbn", "side", b"x"),
        ("a.parquet", "side", b"\xff"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_by_field_and_leaves_no_file(
    tmp_path: Path, target: str, field: str, value: Any
) -> None:
    write_npy(tmp_path / "a.npz", order(), ["AB"])
    (tmp_path / "sound").mkdir()
    convert(tmp_path / "a.npz", tmp_path / "sound" / target)
    write_npy(tmp_path / "a.npz", order(**{field: value}), ["AB"])
    (tmp_path / target).write_bytes(b"what was there before")
    with pytest.raises(ConfigurationError, match=field):
        convert(tmp_path / "a.npz", tmp_path / target)
    assert (tmp_path / target).read_bytes() == b"what was there before"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({"a.npz", "sound", target})


@pytest.mark.parametrize(
    ("target", "names"),
    [(ITCH_NAME, ["TOO LONG FOR IT"]), (ITCH_NAME, ["É"]), ("a.dbn", ["x" * 71]), ("a.npy", ["A"])],
)
def test_names_that_a_format_cannot_hold_are_refused(tmp_path: Path, target: str, names: list[str]) -> None:
    write_npy(tmp_path / "a.npz", order(), names)
    with pytest.raises(ConfigurationError, match="symbols"):
        convert(tmp_path / "a.npz", tmp_path / target)


def test_damaged_sources_leave_no_file(tmp_path: Path, day: Path) -> None:
    day.write_bytes(day.read_bytes()[:-1])
    with pytest.raises(FeedError):
        convert(day, tmp_path / "a.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["day"]


@pytest.mark.parametrize(
    ("name", "to", "expected"),
    [("a.parquet", None, "parquet"), ("a.arrow", None, "arrow"), ("a.Feather", None, "arrow"), ("A.NPZ", None, "npz"),
     ("a.itch.gz", None, "itch"), ("a.out", "dbn", "dbn"),
     ("a.csv", None, None), ("a.parquet.gz", None, None), ("a.npy", "csv", None), ("a", None, None)],
)  # fmt: skip
def test_the_target_is_told_by_the_name_or_by_the_option(name: str, to: str | None, expected: str | None) -> None:
    if expected is not None:
        assert target_of(name, to) == expected
        return
    with pytest.raises(ConfigurationError):
        target_of(name, to)


def test_the_command_converts_and_says_what_it_wrote(tmp_path: Path, day: Path) -> None:
    out = tmp_path / "a.parquet"
    result = CliRunner().invoke(cli, ["convert", str(day), str(out), "--limit", "10", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == {
        "path": str(out), "format": "parquet", "ticks": 10, "symbols": len(set(read(out)[1])),
        "file_bytes": out.stat().st_size, "undated": False, "skipped": {"counts": {}, "samples": []},
        "left_out": {},
    }  # fmt: skip
    result = CliRunner().invoke(cli, ["convert", str(day), str(tmp_path / "b"), "--to", "npz", "--symbols", "AAA*"])
    assert result.exit_code == 0, result.output
    assert "ticks of" in result.output


def test_real_files_survive_the_way_there_and_back(tmp_path: Path, shared_data: Path) -> None:
    for source in sorted((shared_data / "dbn-es").glob("*.zst")):
        expected = read(source)
        for name in ("a.parquet", "a.npz", "a.dbn.zst"):
            convert(source, tmp_path / name)
            assert_same(read(tmp_path / name), expected)
    source = shared_data / "itch50" / "ex20101224.TEST_ITCH_50"
    expected = read(source)
    for name in ("a.parquet", "a.npz"):
        convert(source, tmp_path / name)
        assert_same(read(tmp_path / name), expected)
    convert(source, tmp_path / "20101224.itch")
    assert_same(read(tmp_path / "20101224.itch"), expected, "sequence")


@pytest.mark.parametrize("there", ["pipe", "device"])
def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path, day: Path, there: str) -> None:
    out = tmp_path / "out.npz"
    if there == "pipe":
        os.mkfifo(out)
    else:
        out.symlink_to("/dev/null")
    mode = out.stat().st_mode
    with pytest.raises(FeedError, match="device, a pipe or a socket"):
        convert(day, out)
    assert out.stat().st_mode == mode
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_what_has_an_argument_of_its_own_is_refused_among_the_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="start: give it as an argument of its own, and not in feed_options"):
        convert(sample_path(), tmp_path / "a.parquet", feed_options={"start": 5})
    with pytest.raises(ConfigurationError, match=r"open\(\) of itch files has no option 'prize'"):
        convert(sample_path(), tmp_path / "a.parquet", feed_options={"prize": 5})


@pytest.mark.parametrize("name", ["day.parquet", "day.arrow", "day.npz", ITCH_NAME])
def test_what_was_written_gives_the_tables_that_its_feed_gives(tmp_path: Path, day: Path, name: str) -> None:
    import pyarrow as pa

    written = convert(day, tmp_path / name, limit=5000)
    with open_feed(tmp_path / name) as feed:
        expected, exact = feed.to_arrow(), feed.to_numpy()
    assert written.to_arrow().equals(expected)
    assert pa.table(written).schema.equals(expected.schema)
    assert pa.table(written).to_pylist() == expected.to_pylist()
    np.testing.assert_array_equal(written.to_numpy(), exact)
    assert len(exact) == 5000
    assert written.to_arrow(prices="integer")["price"].to_pylist()[:10] == [
        None if price == UNDEF_PRICE else price for price in exact["price"][:10].tolist()
    ]


def test_a_converted_day_an_output_s_file_and_rows_join_in_polars(tmp_path: Path, day: Path) -> None:
    polars = pytest.importorskip("polars")
    ticks = convert(day, tmp_path / "day.parquet").to_polars()
    result = strand.replay(day, "bbo", out={"bbo": tmp_path / "bbo.parquet"}, workers=1)
    quotes, rows = polars.read_parquet(tmp_path / "bbo.parquet"), result.rows.to_polars()
    assert ticks.schema["symbol"] == quotes.schema["symbol"] == rows.schema["symbol"] == polars.String
    joined = quotes.join(ticks.select("number", "symbol", "ts_recv"), on=["number", "symbol"])
    assert len(joined) == len(quotes) == result.written["bbo"][1] > 1000
    last = joined.group_by("symbol").len().join(rows, on="symbol")
    assert last["len"].sum() == len(quotes)
    assert last.select((polars.col("len") == polars.col("changes")).all()).item()


def test_a_converted_real_day_gives_the_tables_of_the_day(tmp_path: Path, shared_data: Path) -> None:
    source = next((shared_data / "itch50").iterdir())
    written = convert(source, tmp_path / "day.parquet")
    with open_feed(source) as feed:
        assert written.to_arrow().to_pylist() == feed.to_arrow().to_pylist()
