"""Differences of two runs, and of two files of records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_here import run_here
from record_files import FORMATS, RECORD, output, write
from recorded_runs import record

import strand
from strand.diff import diff_records, diff_runs, narrow
from strand.diff.runs import to_json
from strand.errors import ConfigurationError, FeedError, FormatError, UnknownFormatError
from strand.feeds.write.npy import write_npy

pytestmark = pytest.mark.python


@pytest.mark.parametrize("every", [500, 250, 300, 10**6])
def test_the_same_run_is_the_same_whatever_its_settings_and_intervals(
    tmp_path: Path, order_day: Any, every: int
) -> None:
    a = record(tmp_path, "a", *order_day)
    b = record(tmp_path, "b", *order_day, workers=2, strands=1, fingerprint_every=every)
    found = diff_runs(a, b)
    assert found.same
    assert (found.after, found.symbols, found.notes) == (len(order_day[0]), (), ())
    assert "workers: 1 against 2" in found.settings


def test_other_code_over_the_same_ticks_is_found_at_its_first_tick(
    tmp_path: Path, order_day: Any, handlers: Any
) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names, handlers.plain)
    b = record(tmp_path, "b", ticks, names, handlers.doubled)
    found = diff_runs(a, b)
    assert (found.after, found.by, found.input_differs) == (1500, 2000, False)
    module = handlers.__name__
    wrong = narrow(found, handlers=(f"{module}:plain", f"{module}:plain"))
    assert wrong.exact is None
    assert any("that B recorded" in note for note in wrong.notes)
    narrowed = narrow(found)
    assert narrowed.notes == ()
    assert narrowed.exact is not None
    assert (narrowed.exact.what, narrowed.exact.position) == ("rows", 1700)
    assert narrowed.exact.symbol == names[int(ticks["instrument_id"][1700])]
    (one,) = narrowed.exact.fields
    assert one == "volume"
    assert narrowed.exact.fields["volume"][1] - narrowed.exact.fields["volume"][0] == 3


def test_built_in_handlers_are_told_apart_by_their_fields(tmp_path: Path, order_day: Any) -> None:
    a, b = record(tmp_path, "a", *order_day, "count"), record(tmp_path, "b", *order_day, "vwap")
    found = diff_runs(a, b)
    assert "handler: count against vwap" in found.notes
    exact = narrow(found).exact
    assert exact is not None
    assert exact.position == 0
    assert exact.fields["ticks"] == (1, None)


def test_one_run_that_is_shorter_is_the_same_as_far_as_it_goes(tmp_path: Path, order_day: Any) -> None:
    a, b = record(tmp_path, "a", *order_day), record(tmp_path, "b", *order_day, limit=1200)
    found = diff_runs(a, b)
    assert not found.same
    assert (found.after, found.by, found.symbols) == (1000, None, ())
    assert "limit: None against 1200" in found.notes


# ---- The first tick at which two runs part


@pytest.mark.parametrize("field", ["size", "price", "ts_recv", "flags", "publisher_id"])
@pytest.mark.parametrize("at", [0, 499, 500, 1234, -1])
def test_one_other_tick_of_the_input_is_found(tmp_path: Path, order_day: Any, field: str, at: int) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    at %= len(ticks)
    before = ticks[at].copy()
    ticks[field][at] ^= 1
    b = record(tmp_path, "b", ticks, names)
    found = diff_runs(a, b)
    symbol = names[int(ticks["instrument_id"][at])]
    assert not found.same
    assert found.after <= at < (found.by or 0) <= found.after + 500
    assert [s.symbol for s in found.symbols] == [symbol]
    assert found.symbols[0].input_differs
    exact = narrow(found).exact
    assert exact is not None
    assert (exact.what, exact.symbol, exact.position) == ("input", symbol, at)
    assert (exact.sequence, exact.ts_recv) == (before["sequence"], before["ts_recv"])
    assert exact.fields == {field: (int(before[field]), int(ticks[field][at]))}


def test_of_many_other_ticks_the_first_is_found(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    ticks["size"][1100:1400] += 1
    b = record(tmp_path, "b", ticks, names)
    found = diff_runs(a, b)
    assert (found.after, found.by) == (1000, 1500)
    assert len(found.symbols) > 3
    exact = narrow(found).exact
    assert exact is not None
    assert exact.position == 1100


def test_a_tick_that_only_one_run_has_is_found(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    # A symbol's last tick of the interval: without it the symbol goes on with what comes later in B.
    b = record(tmp_path, "b", np.delete(ticks, 700), names)
    exact = narrow(diff_runs(a, b)).exact
    assert exact is not None
    assert exact.symbol == names[int(ticks["instrument_id"][700])]
    assert exact.position == 700
    assert exact.sequence == ticks["sequence"][700]


def test_two_ticks_that_changed_places_are_found(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    mine = np.flatnonzero(ticks["instrument_id"] == ticks["instrument_id"][900])
    pair = mine[np.searchsorted(mine, 900)] + 0, mine[np.searchsorted(mine, 900) + 1]
    ticks[list(pair)] = ticks[list(pair)[::-1]]
    b = record(tmp_path, "b", ticks, names)
    exact = narrow(diff_runs(a, b)).exact
    assert exact is not None
    assert (exact.what, exact.position) == ("input", 900)


# ---- The first emitted record that differs between two runs


def test_runs_whose_outputs_alone_differ_are_told_apart(tmp_path: Path, order_day: Any) -> None:
    def emitting(extra: int) -> Any:
        @strand.batch_handler(state=[("n", "u8")], outputs={"prices": [("price", "i8")], "sizes": [("size", "u4")]})
        def on_ticks(symbol: str, ticks: Any, row: Any, ctx: Any) -> None:
            row["n"] += len(ticks)
            prices = np.zeros(len(ticks), [("price", "i8")])
            prices["price"] = ticks["price"] // 2 + extra
            ctx.emit(prices, np.arange(len(ticks)), "prices")

        return on_ticks

    a, b, c = (record(tmp_path, letter, *order_day, emitting(e)) for letter, e in (("a", 0), ("b", 1), ("c", 0)))
    assert diff_runs(a, c).same
    found = diff_runs(a, b)
    assert not found.same
    assert ([output.name for output in found.outputs], found.symbols) == (["prices"], ())
    assert (found.after, found.by) == (0, 500)
    assert (narrow(found).exact, narrow(found).records) == (None, ())
    done = run_here("diff", a, b)
    assert done.returncode == 1
    assert "different records of prices: 500 records against 500 records; the first 0 are the same" in done.stdout
    assert "not narrowed to a record" in done.stdout  # the handlers have no name to be loaded by


EMITTING = """
import numpy as np
import strand


def emitting(after, extra):
    @strand.batch_handler(state=[("n", "u8")], outputs={"odd": [("price", "i8")], "all": [("size", "u4")]})
    def on_ticks(symbol, ticks, row, ctx):
        row["n"] += len(ticks)
        every = np.zeros(len(ticks), [("size", "u4")])
        every["size"] = ticks["size"] + (ticks["sequence"] == after) * extra
        ctx.emit(every, np.arange(len(ticks)), "all")
        at = np.flatnonzero(ticks["sequence"] % 2)
        odd = np.zeros(len(at), [("price", "i8")])
        odd["price"] = ticks["price"][at]
        ctx.emit(odd, at, "odd")

    return on_ticks


plain = emitting(0, 0)
other = emitting({after}, 5)
"""


def test_the_first_other_record_is_found_where_rows_are_the_same(
    tmp_path: Path, order_day: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks, names = order_day
    ticks["sequence"] = np.arange(len(ticks))
    name = f"emitting_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(EMITTING.replace("{after}", "1702"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    module = __import__(name)
    a = record(tmp_path, "a", ticks, names, module.plain)
    b = record(tmp_path, "b", ticks, names, module.other, workers=2)
    found = diff_runs(a, b)
    assert (found.after, found.by, found.symbols) == (1500, 2000, ())
    ((output, before, a_state, b_state),) = ((o.name, o.before, o.a, o.b) for o in found.outputs)
    assert (output, before) == ("all", 1500)
    assert (a_state or (0,))[0] == (b_state or (0,))[0] == 2000
    narrowed = narrow(found)
    assert (narrowed.exact, narrowed.notes) == (None, ())
    (one,) = narrowed.records
    difference = one.difference
    assert (one.output, difference.record, difference.number) == ("all", 1702, 1702)
    assert difference.symbol == names[int(ticks["instrument_id"][1702])]
    size = int(ticks["size"][1702])
    assert difference.fields == {"size": (size, size + 5)}
    # What is loaded now may not be what ran then.
    wrong = narrow(found, handlers=(f"{name}:plain", f"{name}:plain"))
    assert wrong.records == ()
    assert any("B, run again, does not emit the recorded all" in note for note in wrong.notes)
    done = run_here("diff", a, b, cwd=tmp_path)
    assert done.returncode == 1
    assert "the first different record of all" in done.stdout
    assert "they differ at record 1,702 (from 0)" in done.stdout
    plain = json.loads(run_here("diff", a, b, "--json", cwd=tmp_path).stdout)
    assert plain["outputs"][0]["before"] == 1500
    assert plain["records"][0]["difference"]["fields"] == {"size": [size, size + 5]}


def test_options_that_differ_are_named_and_their_first_record_is_found(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names, strand.bars("1s", book=True))
    b = record(tmp_path, "b", ticks, names, strand.bars("2s", book=True))
    found = diff_runs(a, b)
    assert "handler: every: 1s against 2s" in found.notes
    narrowed = narrow(found)
    assert [one.output for one in narrowed.records] == ["bars"]
    assert narrowed.records[0].difference.record == 0
    assert not any("record" in note for note in narrowed.notes)
    done = run_here("diff", a, b)
    assert "bars (every=1s, book=yes) over a.npz" in done.stdout


def test_records_of_the_run_s_end_are_compared_with_those_of_the_end(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    whole = len(ticks) // 500 * 500
    like = strand.bars("1h", book=True)
    # One of them rests where the ticks end, and once more when the last bars have been emitted.
    a = record(tmp_path, "a", ticks[:whole], names, like)
    b = record(tmp_path, "b", ticks[:whole], names, like, fingerprint_every=700)
    assert diff_runs(a, b).same
    c = record(tmp_path, "c", ticks[:whole], names, strand.bars("1h", book=True, partial=False))
    found = diff_runs(a, c)
    assert not found.same
    assert (found.after, found.by, found.symbols) == (whole, whole, ())
    narrowed = narrow(found)
    assert narrowed.notes == ()
    (one,) = narrowed.records
    assert (one.difference.record, one.difference.only_in) == (found.outputs[0].before, "a")
    done = run_here("diff", a, c)
    assert ", of the run's end" in done.stdout


def test_other_ticks_leave_other_records_and_both_are_found(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    like = strand.bars(ticks=1, book=True)
    a = record(tmp_path, "a", ticks, names, like)
    at = int(np.flatnonzero(ticks["action"] == b"F")[20])
    ticks["size"][at] -= 1
    b = record(tmp_path, "b", ticks, names, like)
    narrowed = narrow(diff_runs(a, b))
    assert narrowed.exact is not None
    assert (narrowed.exact.what, narrowed.exact.position) == ("input", at)
    (one,) = narrowed.records
    assert one.difference.symbol == narrowed.exact.symbol
    assert one.difference.fields["volume"][0] - one.difference.fields["volume"][1] == 1


# ---- Runs that are made again from what their files say


def test_a_handler_that_throws_dice_is_found_out(tmp_path: Path, order_day: Any, handlers: Any) -> None:
    a, b = (record(tmp_path, letter, *order_day, handlers.dice) for letter in "ab")
    narrowed = narrow(diff_runs(a, b))
    assert narrowed.exact is not None
    assert any("run twice" in note for note in narrowed.notes)


def test_code_that_has_changed_since_is_named_and_nothing_is_made_up(
    tmp_path: Path, order_day: Any, handlers: Any
) -> None:
    a = record(tmp_path, "a", *order_day, "count")
    b = record(tmp_path, "b", *order_day, "vwap")
    text = b.read_text().splitlines(keepends=True)
    b.write_text(text[0].replace("vwap", "count") + "".join(text[1:]))  # as if count had been another then
    narrowed = narrow(diff_runs(a, b))
    assert narrowed.exact is None
    assert any("does not leave the rows that B recorded" in note for note in narrowed.notes)
    assert not any("that A recorded" in note for note in narrowed.notes)


def test_what_stands_in_the_way_is_said(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a = record(tmp_path, "a", ticks, names)
    ticks["size"][3] += 1
    b = record(tmp_path, "b", ticks, names)
    found = diff_runs(a, b)
    (tmp_path / "a.npz").rename(tmp_path / "elsewhere.npz")
    assert "a.npz" in narrow(found).notes[0]
    exact = narrow(found, sources=([str(tmp_path / "elsewhere.npz")], None)).exact
    assert exact is not None
    assert exact.position == 3
    write_npy(tmp_path / "a.npz", ticks[:50], names)
    assert "has changed since the run was" in narrow(found).notes[0]
    assert "same ticks there" in narrow(found, sources=([str(tmp_path / "b.npz")], None)).notes[0]


# ---- Values as JSON has them


def test_each_kind_of_field_becomes_what_json_has() -> None:
    row = np.zeros(1, [("n", "<u8"), ("side", "S1"), ("name", "U3"), ("top", "<i8", (2,)), ("deep", [("x", "<f4")])])[0]
    row["n"], row["side"], row["name"], row["top"], row["deep"] = 2**63, b"\xe9", "abc", (1, 2), (0.5,)
    found = {name: to_json(row[name]) for name in row.dtype.names}
    assert found == {"n": 2**63, "side": "\xe9", "name": "abc", "top": [1, 2], "deep": [0.5]}
    assert json.loads(json.dumps(found)) == found


# ---- The first record that differs between two files


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("field", ["number", "sequence", "price", "value", "top"])
def test_the_first_record_that_differs_is_found(tmp_path: Path, ending: str, field: str) -> None:
    records = output()
    a = write(tmp_path / f"a.{ending}", records)
    assert diff_records(a, a) == (None, 1000)
    if field == "top":
        records["top"][612, 1] = -5
    else:
        records[field][612] += 1
    records["price"][800] = 9
    found, before = diff_records(a, write(tmp_path / f"b.{ending}", records))
    assert found is not None
    assert before == found.record == 612
    assert found.symbol == ("3" if ending == "npy" else "S3")
    assert int(found.number or 0) == 1836
    assert field == "sequence" or int(found.sequence or 0) == 4285
    assert list(found.fields) == [field]
    assert found.only_in is None
    x, y = found.fields[field]
    assert x != y


@pytest.mark.cells(1)
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("at", [0, 299, 999])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_record_that_only_one_file_has_is_found(tmp_path: Path, ending: str, at: int, side: str) -> None:
    records = output()
    whole = write(tmp_path / f"whole.{ending}", records)
    less = write(tmp_path / f"less.{ending}", np.delete(records, at))
    found, _ = diff_records(whole, less) if side == "a" else diff_records(less, whole)
    assert found is not None
    assert (found.record, found.only_in, int(found.number or 0)) == (at, side, at * 3)


def test_zeros_of_either_sign_differ_and_a_nan_is_as_good_as_another(tmp_path: Path) -> None:
    records = output()
    a = write(tmp_path / "a.npy", records)
    records["value"][0] = -np.nan
    assert diff_records(a, write(tmp_path / "b.npy", records))[0] is None
    records["value"][1] = 0.0
    a = write(tmp_path / "a.npy", records)
    records["value"][1] = -0.0
    found, _ = diff_records(a, write(tmp_path / "b.npy", records))
    assert found is not None
    assert found.record == 1


def test_numbers_beside_nulls_and_in_lists_are_compared_by_their_bits_too(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def written(name: str, value: Any, pair: list[float]) -> Path:
        pairs = pa.array([[1.0, 2.0], pair], pa.list_(pa.float64(), 2))
        parquet.write_table(pa.table({"number": [0, 1], "value": [None, value], "pair": pairs}), tmp_path / name)
        return tmp_path / name

    a = written("a.parquet", 0.0, [0.0, np.nan])
    assert diff_records(a, written("same.parquet", 0.0, [0.0, np.nan]))[0] is None
    for name, value, pair in (("value", -0.0, [0.0, np.nan]), ("pair", 0.0, [-0.0, np.nan])):
        found, _ = diff_records(a, written("b.parquet", value, pair))
        assert found is not None
        assert (found.record, list(found.fields)) == (1, [name])


def test_npy_and_parquet_are_compared_by_their_columns_and_csv_is_not(tmp_path: Path) -> None:
    records = output()[["number", "price"]].copy()
    np.save(tmp_path / "a.npy", records)
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({n: pa.array(records[n]) for n in ("number", "price")})
    pyarrow.parquet.write_table(table, tmp_path / "b.parquet")
    assert diff_records(tmp_path / "a.npy", tmp_path / "b.parquet")[0] is None
    with pytest.raises(ConfigurationError, match="CSV"):
        diff_records(tmp_path / "a.npy", write(tmp_path / "c.csv", output()))


# ---- Files of records, read by their columns


def test_other_columns_are_named(tmp_path: Path) -> None:
    records = output()
    a = write(tmp_path / "a.npy", records)
    fields = [(n, np.dtype("<i4") if n == "price" else RECORD[n]) for n in RECORD.names if n != "ts"]
    np.save(tmp_path / "b.npy", np.zeros(10, fields))
    found, compared = diff_records(a, tmp_path / "b.npy")
    assert found is not None
    assert (found.record, compared) == (None, 0)
    assert found.columns == ("only A has 'ts'", "'price' is int64 in A, int32 in B")


def test_what_is_no_file_of_records_is_an_error(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.parquet", output())
    with pytest.raises(FeedError, match="cannot be read"):
        diff_records(whole, tmp_path / "nothing")
    for data, error in (
        (b"\x00\x01\x02", UnknownFormatError),
        (whole.read_bytes()[:-10], FormatError),
        (b"\x93NUMPY\x01\x00", FormatError),
        (b"ARROW1\x00\x00", FormatError),
        (b"\x1f\x8b\x08rubb", FormatError),
    ):
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(error, match="bad"):
            diff_records(whole, tmp_path / "bad")
    (tmp_path / "bad").write_text("a,b\n1,2\n3\n")
    with pytest.raises(FormatError, match="line 3"):
        diff_records(tmp_path / "bad", tmp_path / "bad")
