"""strand diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_here import run_here
from record_files import output, write
from recorded_runs import record

pytestmark = pytest.mark.python


def test_the_command_ends_with_0_1_or_2(tmp_path: Path, order_day: Any) -> None:
    ticks, names = order_day
    a, b = record(tmp_path, "a", ticks, names), record(tmp_path, "b", ticks, names, workers=2)
    done = run_here("diff", a, b)
    assert done.returncode == 0, done.stderr
    assert "the same at every fingerprint" in done.stdout
    ticks["size"][1234] += 1
    c = record(tmp_path, "c", ticks, names)
    done = run_here("diff", a, c)
    assert done.returncode == 1, done.stderr
    symbol = names[int(ticks["instrument_id"][1234])]
    for words in (
        "the same after 1,000 ticks, not after 1,500",
        f"the first different tick: {symbol}, sequence",
        "size  A",
    ):
        assert words in done.stdout, words
    done = run_here("diff", a, c, "--json")
    assert done.returncode == 1
    plain = json.loads(done.stdout)
    assert plain["exact"]["position"] == 1234
    assert not plain["same"]
    assert json.loads(run_here("diff", a, c, "--json", "--no-narrow").stdout)["exact"] is None
    for args, words in (
        ((a, tmp_path / "nothing"), "No such file"),
        ((a, tmp_path / "a.npz"), "is a fingerprint file, but"),
        ((tmp_path / "a.npz", tmp_path / "c.npz"), "not an npy, Parquet"),
    ):
        done = run_here("diff", *args)
        assert done.returncode == 2
        assert words in done.stderr
    a.write_bytes(a.read_bytes()[:-100])
    done = run_here("diff", a, b)
    assert done.returncode == 2
    assert "a.jsonl, line" in done.stderr


def test_the_command_shows_the_record_and_its_fields(tmp_path: Path) -> None:
    records = output()
    a = write(tmp_path / "a.npy", records)
    assert run_here("diff", a, a).returncode == 0
    records["price"][5] = 77
    b = write(tmp_path / "b.npy", records)
    done = run_here("diff", a, b)
    assert done.returncode == 1, done.stderr
    assert "they differ at record 5 (from 0), 5, number 15, sequence 36" in done.stdout
    assert "price  A 0  B 77" in done.stdout
    assert json.loads(run_here("diff", a, b, "--json").stdout)["difference"]["fields"] == {"price": [0, 77]}
