"""A symbol's name: UTF-8 text of at most 255 bytes without control characters, whatever reader it comes by."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strand
from strand.errors import ConfigurationError, FeedError, FormatError, StrandError
from strand.feeds.formats.npy import NpyFeed
from strand.feeds.opening import option_values
from strand.feeds.write.npy import write_npy
from strand.symbols import NAME_BYTES, SymbolTable, name_problem

pa = pytest.importorskip("pyarrow")
LONGEST = "é" * 127 + "x"  # of 255 bytes
GOOD = ("A", "BRK/B", "É", "\u65e5\u7d4c", "a b", "#7", "\N{ZERO WIDTH JOINER}", "x" * NAME_BYTES, LONGEST)
BAD = {
    "a line end": "A\nB", "a tab": "A\tB", "an escape": "\x1b[2J", "a zero": "A\0B", "delete": "A\x7f",
    "a control character beyond ASCII": "A\x85", "256 bytes": "x" * 256, "256 bytes in few letters": "é" * 128,
}  # fmt: skip
#: Texts that are none, and that no name may be in a row.
NONE = {"nothing": "", "blanks": "  "}


@pytest.mark.parametrize("name", GOOD)
def test_a_name_may_be_any_text_of_that_size(name: str) -> None:
    assert name_problem(name) is None
    assert list(SymbolTable([name])) == [name]


@pytest.mark.parametrize("name", [*BAD.values(), "\udcff"])
def test_a_dispatcher_refuses_other_texts_and_says_which_and_why(name: str) -> None:
    problem = name_problem(name)
    assert problem
    with pytest.raises(ConfigurationError, match="the name at 1") as caught:
        strand.Dispatcher(["A", name], "count", workers=1)
    assert problem in str(caught.value)


def test_a_feed_of_ones_own_that_names_such_a_symbol_in_mid_stream_is_refused() -> None:
    table = SymbolTable(3)
    table.learn(["A"])
    with pytest.raises(ConfigurationError, match="control character"):
        table.learn(["A", "B\n"])


PROFILE = """
name = "own"
delimiter = ";"
[symbol]
column = "name"
[time]
zone = "UTC"
[fields.ts_recv]
column = "at"
unit = "ns"
[fields.price]
column = "price"
[fields.action]
constant = "T"
[fields.kind]
constant = "trade"
"""


def csv_of(folder: Path, names: list[str], encoding: str) -> tuple[Path, Path]:
    path, profile = folder / "trades.csv", folder / "own.toml"
    profile.write_text(PROFILE.replace("delimiter", f'encoding = "{encoding}"\ndelimiter'))
    rows = [f"{1_700_000_000_000_000_000 + at};{name};1.5" for at, name in enumerate(names)]
    path.write_text("\n".join(["at;name;price", *rows]) + "\n", newline="", encoding=encoding)
    return path, profile


def parquet_of(folder: Path, names: list[str], *, kind: str = "parquet", coded: bool = False) -> Path:
    import pyarrow.feather
    import pyarrow.parquet as pq

    values = pa.array(names)
    table = pa.table({
        "ts_event": pa.array(range(1, len(names) + 1), pa.timestamp("ns")),
        "price": pa.array([1] * len(names), pa.int64()),
        "symbol": values.dictionary_encode() if coded else values,
    })  # fmt: skip
    path = folder / f"rows.{kind}"
    pq.write_table(table, path) if kind == "parquet" else pyarrow.feather.write_feather(table, path)
    return path


def jsonl_of(folder: Path, names: list[str]) -> tuple[Path, Path]:
    profile = folder / "profile.toml"
    profile.write_text(
        'name = "t"\n[[message]]\nwhere = {}\nkind = "trade"\nsymbol = "s"\n[message.fields]\nprice = "p"\n'
    )
    path = folder / "rows.jsonl"
    path.write_text(
        "".join(
            f"{1_767_571_200_000_000_000 + at} {json.dumps({'s': name, 'p': 1})}\n" for at, name in enumerate(names)
        )
    )
    return path, profile


def opened(folder: Path, form: str, names: list[str], **options: Any) -> Any:
    if form == "csv":
        path, profile = csv_of(folder, names, "utf-8")
        return strand.feeds.open(path, profile=profile, **options)
    if form == "jsonl":
        path, profile = jsonl_of(folder, names)
        return strand.feeds.open(path, format="jsonl", profile=profile, **options)
    coded, kind = form.startswith("coded "), form.rsplit(maxsplit=1)[-1]
    return strand.feeds.open(parquet_of(folder, names, kind=kind, coded=coded), **options)


FORMS = ("csv", "parquet", "coded parquet", "arrow", "coded arrow", "jsonl")


@pytest.mark.parametrize("form", FORMS)
def test_good_names_are_read_as_they_are(tmp_path: Path, form: str) -> None:
    with opened(tmp_path, form, list(GOOD)) as feed:
        read = [feed.symbols[key] for batch in feed.batches() for key in batch["instrument_id"].tolist()]
    assert read == list(GOOD)


@pytest.mark.cells(1)
@pytest.mark.parametrize("form", FORMS[::-1])
@pytest.mark.parametrize("why", [*BAD, *NONE])
def test_a_row_with_another_text_is_a_bad_record(tmp_path: Path, form: str, why: str) -> None:
    if (form, why) == ("csv", "a line end"):
        pytest.skip("a line of CSV ends where it ends")
    bad = (BAD | NONE)[why]
    names = ["A", "B", bad, "A", bad, "C"]
    with opened(tmp_path, form, names) as feed, pytest.raises(FormatError) as caught:
        ticks = 0
        for batch in feed.batches():
            ticks += len(batch)
    assert ticks == 2, "every tick before it"
    assert any(word in str(caught.value) for word in ("name", "character", "empty"))
    with opened(tmp_path, form, names, on_bad_record="skip") as feed:
        read = [feed.symbols[key] for batch in feed.batches() for key in batch["instrument_id"].tolist()]
        assert read == ["A", "B", "A", "C"]
        assert feed.skipped.total == 2
        assert not any(name_problem(name) for name in feed.symbols)


@pytest.mark.parametrize("form", FORMS)
def test_blanks_around_a_name_are_no_part_of_it(tmp_path: Path, form: str) -> None:
    names = ["A", " A", "A  ", "a b ", "B   ", "  B"]
    for select in ((), ("B",)):
        with opened(tmp_path, form, names, **({"symbols": select} if select else {})) as feed:
            read = [feed.symbols[key] for batch in feed.batches() for key in batch["instrument_id"].tolist()]
        assert read == [name.strip() for name in names if not select or name.strip() == "B"]


PARTS = {
    "root": ["SPX", "SPX ", "AAPL", "SPX", "SPX"], "expiry": ["20260116", "20260116", "", "20260220", "20260116"],
    "strike": ["4500", " 4500", "", "4500", "4500"], "right": ["C", "C", "", "C", "P"],
}  # fmt: skip
JOINED = ["SPX 20260116 4500 C", "SPX 20260116 4500 C", "AAPL", "SPX 20260220 4500 C", "SPX 20260116 4500 P"]


@pytest.mark.parametrize("form", FORMS)
def test_a_symbol_may_be_made_of_several_columns(tmp_path: Path, form: str) -> None:
    rows, times = [*zip(*PARTS.values(), strict=True)], [1_767_571_200_000_000_000 + at for at in range(len(JOINED))]
    join, options = list(PARTS), {}
    if form == "csv":
        path, profile = tmp_path / "rows.csv", PROFILE.replace('column = "name"', f"join = {json.dumps(join)}")
        lines = [f"{time};{';'.join(parts)};1.5" for time, parts in zip(times, rows, strict=True)]
        path.write_text("\n".join([f"at;{';'.join(PARTS)};price", *lines]) + "\n")
        (tmp_path / "own.toml").write_text(profile)
        options = {"profile": tmp_path / "own.toml"}
    elif form == "jsonl":
        path = tmp_path / "rows.jsonl"
        messages = [json.dumps({**dict(zip(PARTS, parts, strict=True)), "p": 1}) for parts in rows]
        path.write_text("".join(f"{time} {text}\n" for time, text in zip(times, messages, strict=True)))
        options = {"profile": {"message": [{"kind": "trade", "symbol": {"join": join}, "fields": {"price": "p"}}]}}
    else:
        import pyarrow.feather
        import pyarrow.parquet as pq

        values = {name: pa.array([part or None for part in parts]) for name, parts in PARTS.items()}
        values["strike"] = pa.array([float(part) if part else None for part in PARTS["strike"]])
        values["root"] = values["root"].dictionary_encode() if form.startswith("coded") else values["root"]
        table = pa.table({"ts_event": pa.array(times, pa.timestamp("ns")), "price": [1.0] * len(rows), **values})
        path = tmp_path / f"rows.{form.rsplit(maxsplit=1)[-1]}"
        pq.write_table(table, path) if path.suffix == ".parquet" else pyarrow.feather.write_feather(table, path)
        options = {"columns": {"symbol": {"join": join}}}
    for select in ((), ("SPX * C",)):
        with strand.feeds.open(path, **options, **({"symbols": select} if select else {})) as feed:
            read = [feed.symbols[key] for batch in feed.batches() for key in batch["instrument_id"].tolist()]
        assert read == [name for name in JOINED if not select or name.endswith("C")]


def test_the_parts_of_a_symbol_are_columns_that_exist_and_the_first_one_is_needed(tmp_path: Path) -> None:
    path = parquet_of(tmp_path, ["A", "B"])
    with pytest.raises(ConfigurationError, match="no column 'right' for symbol"):
        strand.feeds.open(path, columns={"symbol": {"join": ["symbol", "right"]}})
    assert option_values({"columns.symbol.join": "symbol,right"}) == {
        "columns": {"symbol": {"join": ["symbol", "right"]}}
    }
    with strand.feeds.open(path, columns={"symbol": {"join": ["symbol", "price"]}}) as feed:
        assert sum(map(len, feed.batches())) == 2
        assert list(feed.symbols) == ["A 1", "B 1"]
    path = parquet_of(tmp_path, ["A", ""])
    feed = strand.feeds.open(path, columns={"symbol": {"join": ["symbol", "price"]}})
    with feed, pytest.raises(FormatError, match="row 2: column 'symbol' holds null or an empty text"):
        list(feed.batches())


def test_a_csv_file_is_judged_in_its_own_encoding(tmp_path: Path) -> None:
    path, profile = csv_of(tmp_path, ["A", "\u65e5\u7d4c", "B"], "gb18030")
    with strand.feeds.open(path, profile=profile) as feed:
        assert sum(map(len, feed.batches())) == 3
        assert list(feed.symbols) == ["A", "\u65e5\u7d4c", "B"]
    path, profile = csv_of(tmp_path, ["A", "B"], "utf-8")
    path.write_bytes(path.read_bytes().replace(b"B", b"\xff"))
    with strand.feeds.open(path, profile=profile) as feed, pytest.raises(FormatError, match="no symbol's name"):
        list(feed.batches())


@pytest.mark.parametrize("why", BAD)
def test_the_names_of_an_npz_file_are_its_own_and_one_that_is_none_is_refused(tmp_path: Path, why: str) -> None:
    path = tmp_path / "day.npz"
    write_npy(path, strand.ticks.zeros(2), ["A", "B"])
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "symbols": np.array(["A", BAD[why] + "."])})
    with pytest.raises(FormatError, match="'symbols' holds"):
        NpyFeed(path)
    with pytest.raises(ConfigurationError, match="symbols"):
        NpyFeed(path, symbols=["A", BAD[why]])


@pytest.mark.parametrize("name", ["A\x1b[2J", "A\x85"])
def test_a_files_name_that_names_a_symbol_is_judged_too(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}_20260105_trade.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("20260105_x_Trade_Tick.csv", "1,10000,5,Q,0,0\n")
    with pytest.raises(StrandError):
        strand.feeds.open(path)


def test_a_files_name_that_is_not_text_is_shown_and_does_no_harm(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.itch50"
    with open(path, "wb") as file:  # noqa: PTH123 - a name that is no text
        file.write(b"nothing")
    with pytest.raises(FeedError):
        strand.feeds.open(os.fsdecode(path))


@given(names=st.lists(st.sampled_from(["A", "B", "C", " B", "b", "long name " * 3, "bad\x01", ""]), max_size=24))
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_keys_follow_the_rows_whatever_dictionary_each_row_group_has(
    tmp_path_factory: pytest.TempPathFactory, kind: Any, names: list[str]
) -> None:
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("groups") / "rows.parquet"
    rows = {
        "ts_event": pa.array(range(1, len(names) + 1), pa.timestamp("ns")),
        "price": pa.array([1] * len(names), pa.int64()),
        "symbol": pa.array(names, kind),
        "side": pa.array(["BUY" if name < "B" else "s" for name in names], kind),
    }
    pq.write_table(pa.table(rows), path, row_group_size=5)
    good = [name for name in names if name not in ("bad\x01", "")]
    with strand.feeds.open(path, on_bad_record="skip") as feed:
        ticks = feed.to_arrow()
        assert list(filter(None, feed.symbols)) == list(dict.fromkeys(name.strip() for name in good))
        assert feed.skipped.total == len(names) - len(good)
    assert ticks["symbol"].to_pylist() == [name.strip() for name in good]
    assert ticks["side"].to_pylist() == ["B" if name < "B" else "A" for name in good]
