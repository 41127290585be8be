"""What files of ticks written by strand say of their source."""

from __future__ import annotations

from pathlib import Path

import pytest

from strand.errors import FormatError
from strand.feeds import open as open_feed
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.feeds.write.conversion import convert
from strand.feeds.write.npy import write_npy
from strand.ticks import zeros

pytestmark = pytest.mark.python


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
