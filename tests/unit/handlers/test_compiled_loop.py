"""The loop that numba compiles around a handler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import balanced, ticks_for

from strand import Dispatcher, handler
from strand.errors import HandlerError


def test_a_compiled_handler_reads_records_of_one_s_own_and_rows_of_another_size() -> None:
    dtype = np.dtype({"names": ["x", "key"], "formats": ["<f4", "<u4"], "offsets": [3, 9], "itemsize": 21})

    @handler(state=[("total", "f8"), ("wide", "u1", (100,))])
    def adds(row, record):  # type: ignore[no-untyped-def]
        row["total"] += record["x"]

    @handler(state=[("total", "f8")])
    def subtracts(row, record):  # type: ignore[no-untyped-def]
        row["total"] -= record["x"]

    records = np.zeros(1_000, dtype)
    records["x"], records["key"] = np.arange(1_000) % 7, np.arange(1_000) % 5
    with Dispatcher(5, handlers={"#1": adds, "*": subtracts}, workers=2, cores=None, dtype=dtype, key="key") as d:
        d.publish(records)
    for key in range(5):
        assert abs(d.rows[key]["total"]) == records["x"][records["key"] == key].sum()
        assert (d.rows[key]["total"] > 0) == (key == 1)


@pytest.mark.parametrize("on_full", ["block", "drop_oldest"])
def test_a_compiled_handler_that_raises_names_the_very_tick(on_full: str) -> None:
    @handler(state=[("ticks", "u8")])
    def refuses(row, tick):  # type: ignore[no-untyped-def]
        if tick.action == b"X":
            raise ValueError("no X")
        row.ticks += 1

    ticks = ticks_for([0, 1] * 500)
    ticks["action"][601] = b"X"
    with Dispatcher(2, refuses, workers=1, cores=None, on_error="quarantine", on_full=on_full) as d:
        d.pause(1)
        d.publish(ticks)
        d.resume(1)
        d.drain()
        (error,) = d.failures
        assert (error.symbol, error.sequence, error.handler) == ("#1", 301, "refuses")
        assert str(error).endswith(': raise ValueError("no X")')
        assert d.rows.array["ticks"].tolist() == [500, 300]
        d.release(1)
        d.drain()
        balanced(d)
        assert d.rows[1]["ticks"] == (499 if on_full == "block" else 300)


def test_a_compiled_handler_that_divides_by_nought_fails_instead_of_going_on() -> None:
    @handler(state=[("x", "i8")])
    def divides(row, tick):  # type: ignore[no-untyped-def]
        row.x = 100 // tick.size

    ticks = ticks_for([0] * 3)
    ticks["size"] = [1, 0, 2]
    with pytest.raises(HandlerError, match="sequence 2"), Dispatcher(1, divides, workers=1, cores=None) as d:
        d.publish(ticks)
    assert d.rows[0]["x"] == 100


def _counts(row, tick):  # type: ignore[no-untyped-def]
    row.n += 1


def test_two_keys_that_are_saved_at_the_same_time_do_not_get_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read the index before either has written it, as in two processes that start together."""
    from strand.handlers.compiled.loop import FunctionCache

    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    one, other = (FunctionCache.of(_counts, layout) for layout in ("one", "other"))
    assert one is not None
    assert other is not None
    files = [cache._cache_file for cache in (one, other)]
    indexes = [file._load_index() for file in files]
    for file, index in zip(files, indexes, strict=True):
        monkeypatch.setattr(file, "_load_index", lambda index=index: index)
    for cache in (one, other):
        Path(cache._cache_path).mkdir(parents=True, exist_ok=True)
        cache._cache_file.save("key", cache._digest)
    again = [FunctionCache.of(_counts, layout) for layout in ("one", "other")]
    assert [cache._cache_file.load("key") for cache in again if cache is not None] == [one._digest, other._digest]


def test_code_of_a_source_that_has_changed_since_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from strand.handlers.compiled.loop import FunctionCache

    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def save(layout: str, changed: float) -> Path:
        cache: Any = FunctionCache.of(_counts, layout)
        Path(cache._cache_path).mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(cache._impl.locator, "get_source_stamp", lambda: (changed, 1))
        cache._cache_file = cache._file(f"{cache._impl.filename_base}-{cache._digest[:16]}")
        cache._cache_file.save("key", layout)
        cache._remove_outdated()
        return Path(cache._cache_path)

    folder = save("one", 1.0)
    save("other", 1.0)
    assert len(list(folder.iterdir())) == 4
    (folder / "another.py311.nbi").write_bytes(b"numba's own")
    save("third", 2.0)
    assert sorted(path.suffix for path in folder.iterdir()) == [".nbc", ".nbi", ".nbi"]
