"""The tick's layout is stated twice, in C and in numpy: the two must be one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quote_ticks import EXPECTED, quotes

from strand import ticks
from strand.binding import ffi, lib
from strand.errors import RecordTypeError
from strand.ticks import TICK, Ticks, zeros

pytestmark = pytest.mark.python
CSRC = Path(__file__).resolve().parents[2] / "csrc"
KINDS = [name for name in ticks.__all__ if name.startswith("KIND_")]
C_TYPES = {
    np.dtype("<u8"): "uint64_t",
    np.dtype("<i8"): "int64_t",
    np.dtype("<u4"): "uint32_t",
    np.dtype("<u2"): "uint16_t",
    np.dtype("u1"): "uint8_t",
    np.dtype("S1"): "char",
}


def test_a_tick_is_one_cache_line_in_c_and_in_numpy() -> None:
    assert TICK.itemsize == 64
    assert ffi.sizeof("sd_tick") == 64


def test_c_and_numpy_list_the_same_fields_in_the_same_order() -> None:
    assert [name for name, _ in ffi.typeof("sd_tick").fields] == list(TICK.names or ())


@pytest.mark.parametrize("name", TICK.names or ())
def test_a_field_has_the_same_place_size_and_type_in_c_and_in_numpy(name: str) -> None:
    dtype, offset = TICK.fields[name][:2]  # type: ignore[index]
    declared = dict(ffi.typeof("sd_tick").fields)[name]
    assert offset == ffi.offsetof("sd_tick", name) == declared.offset
    assert dtype.itemsize == ffi.sizeof(declared.type)
    assert declared.type.cname == C_TYPES[dtype]


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_the_same_number_in_c_and_in_python(name: str) -> None:
    assert getattr(ticks, name) == getattr(lib, f"SD_{name}")


def test_python_names_every_kind_that_c_has() -> None:
    in_c = {name for name in dir(lib) if name.startswith("SD_KIND_")}
    assert in_c == {f"SD_{name}" for name in KINDS}


def test_the_price_constants_are_those_of_the_header() -> None:
    header = (CSRC / "sd_tick.h").read_text()
    assert re.search(r"#define SD_UNDEF_PRICE INT64_MAX\b", header)
    assert np.iinfo(np.int64).max == ticks.UNDEF_PRICE
    scale = re.search(r"#define SD_PRICE_SCALE INT64_C\((\d+)\)", header)
    assert scale is not None
    assert int(scale[1]) == ticks.PRICE_SCALE


def test_values_written_through_numpy_are_read_by_c_field_by_field() -> None:
    tick = zeros(1)
    for value, name in enumerate(TICK.names or (), start=65):
        tick[name] = bytes([value]) if TICK[name].kind == "S" else value
    seen = ffi.from_buffer("sd_tick[]", tick)[0]
    for value, name in enumerate(TICK.names or (), start=65):
        in_c = getattr(seen, name)
        assert (ord(in_c) if isinstance(in_c, bytes) else in_c) == value, name


def test_the_whole_sequence_and_both_sides_of_a_quote_are_read_by_name_from_arrays_and_records() -> None:
    made = quotes()
    for name, expected in EXPECTED.items():
        assert made[name].tolist() == expected
        assert made[name].dtype == np.int64
        assert [int(tick[name]) for tick in made] == expected
    assert made[["sequence", "size"]].tolist() == [(1, 5), (1 << 32, 6), (ticks.MAX_SEQUENCE, 7)]
    assert type(made[1:]) is Ticks
    assert np.concatenate([made, made])["sequence"].tolist() == 2 * EXPECTED["sequence"]


@pytest.mark.parametrize("beyond", [1 << 40, -1, 0.5])
def test_a_sequence_that_no_tick_holds_is_refused_where_it_is_filled_in(beyond: Any) -> None:
    made = zeros(2)
    with pytest.raises(RecordTypeError, match="sequence"):
        made["sequence"] = [1, beyond]
    tick = made[0]
    with pytest.raises(RecordTypeError, match="sequence"):
        tick["sequence"] = beyond
    assert made["sequence"].tolist() == [0, 0]


def test_a_write_that_would_be_lost_is_refused() -> None:
    made = zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        made["sequence"][0] = 1


def test_differences_of_sizes_and_times_are_those_of_arithmetic() -> None:
    made = quotes()
    made["ts_recv"], made["ts_event"] = 5, [7, 5, 3]
    assert (made["bid_size"] - made["ask_size"]).tolist() == [5 - (1 << 40), -6, 7]
    assert (-made["size"]).tolist() == [-5, -6, -7]
    assert (made["ts_recv"] - made["ts_event"]).tolist() == [-2, 0, 2]
    assert all(made[name].dtype == np.int64 for name in ("size", "ts_event", "ts_recv"))
