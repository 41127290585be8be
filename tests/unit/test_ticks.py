"""The tick's layout is stated twice, in C and in numpy: the two must be one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from strand import ticks
from strand._bindings import ffi, lib
from strand.ticks import TICK

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
    tick = np.zeros(1, TICK)
    for value, name in enumerate(TICK.names or (), start=65):
        tick[name] = bytes([value]) if TICK[name].kind == "S" else value
    seen = ffi.from_buffer("sd_tick[]", tick)[0]
    for value, name in enumerate(TICK.names or (), start=65):
        in_c = getattr(seen, name)
        assert (ord(in_c) if isinstance(in_c, bytes) else in_c) == value, name
