"""What a fingerprint file says of its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strand
from strand.replaying.fingerprint_file import read_fingerprints
from strand.replaying.recorder import describe_handlers

pytestmark = pytest.mark.python


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
