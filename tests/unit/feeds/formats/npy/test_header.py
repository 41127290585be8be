"""The header of an array is not believed before it is checked."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import ticks_of

from strand import TICK
from strand.errors import FeedError, FormatError
from strand.feeds.formats.npy import NpyFeed
from strand.ticks import zeros

pytestmark = pytest.mark.python


def header(descr: str, shape: str, padding: int = 0) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b" " * padding + b"\n"
    return b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text


EVENT = ", ".join(
    f"('{name}', '{kind}')"
    for name, kind in zip(
        ("ev", "exch_ts", "local_ts", "px", "qty", "order_id", "ival", "fval"),
        ("<u8", "<i8", "<i8", "<f8", "<f8", "<u8", "<i8", "<f8"),
        strict=True,
    )
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no array", "starts with neither magic"),
        (header("'|O'", "(1,)"), "only pickle can read"),
        (header("'<f8'", "(3,)"), "holds plain float64"),
        (header("'<f8'", "(3,)", padding=100_000), "header takes more than 64 KiB"),
        (header(f"[{EVENT}, ('', '|V2000000000')]", "(1099511627776,)"), "records of 2000000064 bytes"),
        (header(f"[{EVENT}, ('', '|V16000')]", "(1099511627776,)") + bytes(100), "ends inside record 1"),
    ],
)
def test_a_packed_header_is_not_believed(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress(content))
    tracemalloc.start()
    try:
        with pytest.raises(FeedError, match=words):
            ticks_of(NpyFeed(tmp_path / "a.npy.gz"))
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.array([{}, None], dtype=object), "Python objects"),
        (np.array([(1, None)], dtype=[("a", "u4"), ("b", object)]), "Python objects"),
        (zeros((2, 2)), "one dimension"),
        (np.zeros(3, np.float64), "plain float64"),
        (np.zeros(3, [("ts_event", "<i8")]), "no field 'ts_recv'"),
        (np.zeros(3, TICK.newbyteorder(">")), "field 'ts_event' is >i8 at byte 0"),
        (np.zeros(3, [*TICK.descr, ("more", "u1")]), "65 bytes with 16 fields"),
    ],
)
def test_an_array_that_is_no_array_of_ticks_is_refused_in_words(tmp_path: Path, array: Any, words: str) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(FormatError, match=words):
        NpyFeed(tmp_path / "a.npy")
