"""The first emitted record that differs between two runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_here import run_here
from recorded_runs import record

import strand
from strand.diff import diff_runs, narrow

pytestmark = pytest.mark.python


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
