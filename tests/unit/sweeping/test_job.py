"""One file of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_files import FEW

import strand
from strand.feeds.sample import sample_path
from strand.sweeping.sweep import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")

pytestmark = pytest.mark.python


def test_the_fingerprint_of_a_set_is_that_of_a_replay(tmp_path: Path) -> None:
    @strand.handler(state=[("n", "i8")], params=[("least", "u4")])
    def large(row, tick, params):  # type: ignore[no-untyped-def]
        row.n += tick.size >= params.least

    found = sweep(sample_path(), large, [{"least": 1}, {"least": 500}], out=tmp_path / "out", **FEW)
    for run, least in zip(found.runs, (1, 500), strict=True):
        one = strand.replay(sample_path(), large.with_params({"*": {"least": least}}), workers=0, **FEW)
        assert run.fingerprint == one.fingerprint
    assert found.runs[0].fingerprint != found.runs[1].fingerprint
