"""From format to format and back: equal ticks, equal bytes where that is promised, and no file where it cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import dbn_reference
import itch_reference
import numpy as np
import pytest
from array_feed import order_feed
from click.testing import CliRunner
from reading import ticks_of

from strand import TICK, UNDEF_PRICE
from strand.command.cli import cli
from strand.errors import ConfigurationError, FeedError, FormatError
from strand.feeds import open as open_feed
from strand.feeds.formats.npy.reader import NpyFeed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.synthetic.market import SyntheticFeed
from strand.feeds.write.conversion import convert, target_of
from strand.feeds.write.npy import write_npy
from strand.ticks import FIELDS, zeros

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")
databento_dbn = pytest.importorskip("databento_dbn")

DAY = {"date": "2026-01-05"}
ITCH_NAME = "01052026.itch50"


def read(path: Path, **options: Any) -> tuple[np.ndarray, list[str]]:
    """A file's ticks, and the name of each."""
    feed = open_feed(path, **options)
    ticks = ticks_of(feed)
    return ticks, [feed.symbols[key] if key < len(feed.symbols) else "" for key in ticks["instrument_id"].tolist()]


def assert_same(found: tuple[np.ndarray, list[str]], expected: tuple[np.ndarray, list[str]], *but: str) -> None:
    assert found[1] == expected[1]
    for name in set(FIELDS) - set(but):
        np.testing.assert_array_equal(found[0][name], expected[0][name], err_msg=name)


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A generated day of 40 symbols as ITCH."""
    path = tmp_path / "day" / ITCH_NAME
    path.parent.mkdir()
    SyntheticFeed(40, 20_000, seed=3, date=DAY["date"]).write_itch(path)
    return path


@pytest.fixture
def mbo(tmp_path: Path) -> Path:
    """MBO records of two instruments as DBN."""
    names = {name: [(*dbn_reference.ALL_DAYS, str(i))] for i, name in ((8, "ES"), (7, "NQ"))}
    start = dbn_reference.metadata(3, names, schema=databento_dbn.Schema.MBO)
    letters = [(a, s) for a in (b"A", b"C", b"M", b"R", b"T", b"F", b"N") for s in (b"A", b"B", b"N")]
    body = b"".join(
        dbn_reference.mbo(
            order=i, price=UNDEF_PRICE if i % 9 == 0 else i * 10**9 + i, action=letters[i % 21][0],
            side=letters[i % 21][1], instrument=7 + i % 2, received=dbn_reference.NOON + i, sequence=i, flags=i % 256,
        )
        for i in range(1000)
    )  # fmt: skip
    path = tmp_path / "in.dbn"
    path.write_bytes(start + body)
    return path


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.npz"])
def test_itch_to_columns_keeps_every_field_and_name(tmp_path: Path, day: Path, name: str) -> None:
    written = convert(day, tmp_path / name)
    expected = read(day)
    assert_same(read(tmp_path / name), expected)
    assert (written.ticks, written.symbols) == (len(expected[0]), 40)
    assert written.bytes == (tmp_path / name).stat().st_size


@pytest.mark.parametrize("between", ["a.parquet", "a.arrow", "a.npz"])
def test_an_itch_file_that_was_written_survives_any_detour_byte_for_byte(
    tmp_path: Path, day: Path, between: str
) -> None:
    for folder in "bc":
        (tmp_path / folder).mkdir()
    convert(day, tmp_path / ITCH_NAME)
    assert_same(read(tmp_path / ITCH_NAME), read(day), "sequence")
    convert(tmp_path / ITCH_NAME, tmp_path / between)
    convert(tmp_path / between, tmp_path / "b" / ITCH_NAME)
    assert (tmp_path / "b" / ITCH_NAME).read_bytes() == (tmp_path / ITCH_NAME).read_bytes()
    convert(tmp_path / ITCH_NAME, tmp_path / "c" / ITCH_NAME, feed_options={"batch_ticks": 4096})
    assert (tmp_path / "c" / ITCH_NAME).read_bytes() == (tmp_path / ITCH_NAME).read_bytes()


def test_the_embedded_sample_and_every_packing_read_back_equal(tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    date = {"date": SAMPLE_DATE}
    expected = read(sample_path(), **date)
    for name in ("itch", "itch.gz", "itch.zst"):
        path = tmp_path / f"{SAMPLE_DATE}.{name}"
        convert(sample_path(), path, feed_options=date)
        assert_same(read(path), expected, "sequence")


def test_every_itch_message_that_makes_a_tick_is_written_as_it_was_or_refused(tmp_path: Path) -> None:
    names = [itch_reference.directory(7, b"AAPL"), itch_reference.directory(13, b"BRK.A")]
    refused, written = [], 0
    for body in itch_reference.every_type():
        source = tmp_path / ITCH_NAME
        source.write_bytes(b"".join(map(itch_reference.frame, [*names, body])))
        target = tmp_path / f"out.{ITCH_NAME}"
        expected = read(source)
        try:
            convert(source, target, allow_empty=True)
        except ConfigurationError as error:
            refused.append(str(error).split(":")[0])
            continue
        if len(expected[0]):
            assert_same(read(target), expected, "sequence")
            frames = itch_reference.frame(body)
            assert len(target.read_bytes()) == 41 * (expected[1] != [""]) + len(frames)  # of the same type, and its R
            written += 1
    assert set(refused) <= {"flags"}  # sizes beyond 32 bits
    assert written >= 20


def test_dbn_survives_any_detour(tmp_path: Path, mbo: Path) -> None:
    expected = read(mbo)
    convert(mbo, tmp_path / "a.dbn")
    assert_same(read(tmp_path / "a.dbn"), expected)
    library = dbn_reference.by_library((tmp_path / "a.dbn").read_bytes())
    np.testing.assert_array_equal(dbn_reference.ticks_of(library, {0: 0, 1: 1}), expected[0])
    for name in ("b.parquet", "b.npz", "b.dbn.zst", "b.dbn.gz"):
        convert(tmp_path / "a.dbn", tmp_path / name)
        assert_same(read(tmp_path / name), expected)
    for between in ("b.parquet", "b.npz"):
        convert(tmp_path / between, tmp_path / "c.dbn")
        # All but the data set's name is the same, which an .npz has no room for.
        assert_same(read(tmp_path / "c.dbn"), expected)
    convert(tmp_path / "b.parquet", tmp_path / "c.dbn")
    assert (tmp_path / "c.dbn").read_bytes() == (tmp_path / "a.dbn").read_bytes()


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


@pytest.mark.parametrize("name", ["BÜX", "A\tB", "\U0001f600", "x" * 71])
@pytest.mark.parametrize("learnt", [0, 2])
def test_a_name_that_dbn_cannot_hold_is_said_and_nothing_is_left(tmp_path: Path, name: str, learnt: int) -> None:
    ticks = order().repeat(2)
    with pytest.raises(ConfigurationError) as raised:
        convert(order_feed(ticks, [name], batches=1, known_from=learnt), tmp_path / "a.dbn")
    assert f"symbols: {name!r} " in str(raised.value) or f"and {name!r} is none" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("venue", ["ABCDEFGHIJKLMNOPQ", "B\u00d6RSE"])
def test_a_venue_that_dbn_cannot_hold_is_said_and_nothing_is_left(tmp_path: Path, venue: str) -> None:
    with pytest.raises(ConfigurationError, match=r"venue: .* printable ASCII .* convert to Parquet or npz"):
        convert(order_feed(order(), ["A"], venue=venue), tmp_path / "a.dbn")
    assert list(tmp_path.iterdir()) == []


def test_damaged_sources_leave_no_file(tmp_path: Path, day: Path) -> None:
    day.write_bytes(day.read_bytes()[:-1])
    with pytest.raises(FeedError):
        convert(day, tmp_path / "a.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["day"]


def test_the_date_of_an_itch_file_must_be_in_its_name(tmp_path: Path, day: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"01052026\.x\.itch"):
        convert(day, tmp_path / "x.itch")
    with pytest.raises(ConfigurationError, match="2026-01-06"):
        convert(day, tmp_path / "20260106.itch")


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


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
def test_what_the_source_was_is_kept_and_read_back_also_through_two_files(tmp_path: Path, ending: str) -> None:
    source = open_feed(sample_path(), date=SAMPLE_DATE)
    for _ in source.batches():
        pass
    first, second = tmp_path / "XNAS.a.parquet", tmp_path / f"b.{ending}"
    convert(sample_path(), first, feed_options={"date": SAMPLE_DATE})
    convert(first, second)
    feed = open_feed(second)
    kept = ("date", "venue", "price_unit", "size_unit", "ticks", "undated")
    assert [getattr(feed.info, name) for name in kept] == [getattr(source.info, name) for name in kept]
    assert (feed.info.format, feed.info.details["source"]) == (ending, {"format": "itch50"})
    assert list(feed.symbols) == list(source.symbols)
    assert len(source.directory) == 500
    assert feed.directory == source.directory


@pytest.mark.parametrize("ending", ["parquet", "arrow", "npz"])
def test_a_source_s_units_and_meaning_are_kept(tmp_path: Path, ending: str) -> None:
    lines = ["exchange,symbol,timestamp,local_timestamp,id,side,price,amount"]
    lines += [
        f"bitmex,XBTUSD,158569920000000{i},158569920000000{i},{i},buy,{8700 + i},0.0000000{i}" for i in range(1, 5)
    ]
    (tmp_path / "trades.csv").write_text("\n".join(lines) + "\n")
    convert(tmp_path / "trades.csv", tmp_path / f"a.{ending}")
    infos = [open_feed(tmp_path / name).info for name in ("trades.csv", f"a.{ending}")]
    assert [(info.size_unit, info.ticks, info.undated) for info in infos] == [(1e-8, infos[0].ticks, False)] * 2
    assert infos[1].details["source"] == {"format": "csv", "profile": infos[0].details["profile"]}


def test_the_unit_of_the_source_s_prices_is_read_from_files_of_before_too(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({"ts_event": [1], "instrument_id": pa.array([0], pa.uint32())})
    text = b'{"symbols": ["A"], "info": {"format": "itch50", "price_scale": 0.0001}}'
    pyarrow.parquet.write_table(table.replace_schema_metadata({"strand": text}), tmp_path / "a.parquet")
    convert(tmp_path / "a.parquet", tmp_path / "b.parquet")
    for name in ("a.parquet", "b.parquet"):
        assert open_feed(tmp_path / name).info.price_unit == 0.0001
    kept = pyarrow.parquet.read_metadata(tmp_path / "b.parquet").metadata[b"strand"]
    assert json.loads(kept)["info"]["price_scale"] == 0.0001


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"symbols": [1], "info": {}}', b'{"symbols": [], "info": {"ticks": "some"}}',
             b'{"symbols": [], "info": {"date": "2026-13-01"}}', b"[" * 100_000]
)  # fmt: skip
def test_metadata_that_is_something_else_is_a_bad_file(tmp_path: Path, text: bytes) -> None:
    import zipfile

    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({"ts_event": [1], "instrument_id": pa.array([0], pa.uint32())})
    pyarrow.parquet.write_table(table.replace_schema_metadata({"strand": text}), tmp_path / "a.parquet")
    write_npy(tmp_path / "a.npz", zeros(1), ["A"])
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("strand.json", text)
    for name in ("a.parquet", "a.npz"):
        with pytest.raises(FormatError, match="the metadata 'strand' cannot be read"):
            open_feed(tmp_path / name)


def test_what_has_an_argument_of_its_own_is_refused_among_the_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="start: give it as an argument of its own, and not in feed_options"):
        convert(sample_path(), tmp_path / "a.parquet", feed_options={"start": 5})
    with pytest.raises(ConfigurationError, match="options: is called feed_options now"):
        convert(sample_path(), tmp_path / "a.parquet", options={})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"prize: .*no option of ItchFeed"):
        convert(sample_path(), tmp_path / "a.parquet", feed_options={"prize": 5})
