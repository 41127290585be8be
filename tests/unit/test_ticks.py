"""The tick's layout is stated twice, in C and in numpy: the two must be one."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feed_samples import SAMPLES, Sample
from quote_ticks import EXPECTED, quotes

from strand import feeds, ticks
from strand.binding import ffi, lib
from strand.errors import RecordTypeError
from strand.feeds.formats.registry import formats
from strand.ticks import BY_NAME, TICK, Ticks, zeros

pytestmark = pytest.mark.python


CSRC = Path(__file__).resolve().parents[2] / "csrc"
KIND_NAMES = [name for name in ticks.__all__ if name.startswith("KIND_")]
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


@pytest.mark.parametrize("name", KIND_NAMES)
def test_a_kind_has_the_same_number_in_c_and_in_python(name: str) -> None:
    assert getattr(ticks, name) == getattr(lib, f"SD_{name}")


def test_python_names_every_kind_that_c_has() -> None:
    in_c = {name for name in dir(lib) if name.startswith("SD_KIND_")}
    assert in_c == {f"SD_{name}" for name in KIND_NAMES}


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


# ---- The page about the tick says what the code has: fields, kinds, actions, flags, and what each format makes


ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tick.md").read_text("utf-8")
HEADER = (ROOT / "csrc/sd_tick.h").read_text("utf-8")
KINDS = {name: getattr(ticks, name) for name in dir(ticks) if name.startswith("KIND_")}
#: Constants of a module of a format that are no flags.
NO_FLAGS = {"BATCH_STEP", "DAY_NS", "LOCATES", "LONGEST_LINE", "UNDEF_PRICE"}


def section(title: str) -> str:
    return PAGE.split(f"# {title}\n", 1)[1].split("\n## ")[0].split("\n### ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {number - 1 for number, line in enumerate(lines) if line.startswith("|---")}
    kept = [line for number, line in enumerate(lines) if number not in heads and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in kept]


def actions_of(cell: str) -> set[tuple[int, str]]:
    """Kinds and actions, as ``order A, F; trade T`` says them."""
    found = set()
    for part in cell.split("; "):
        kind, _, letters = part.partition(" ")
        found |= {(KINDS[f"KIND_{kind.upper()}"], letter) for letter in letters.split(", ")}
    return found


FORMATS = {row[0].strip("`"): row[1] for row in rows(section("By format"))}
MADE = {name: actions_of(cell) for name, cell in FORMATS.items() if not cell.startswith("as ")}


def test_the_fields_and_their_types_are_those_of_the_dtype_in_its_order() -> None:
    fields = rows(section("Fields"))
    own = [(name.strip("`"), kind) for name, kind, _ in (row for row in fields if len(row) == 3)]
    assert own == [(name, TICK[name].str.lstrip("<|")) for name in TICK.names or ()]
    named = {name for row in fields if len(row) == 2 for name in re.findall(r"`(\w+)`", row[0])}
    assert named == set(BY_NAME)


def test_the_kinds_are_those_of_the_module_and_of_the_header_in_c() -> None:
    said = {name.strip("`"): int(number) for number, name, *_ in rows(section("Kinds"))}
    assert said == KINDS
    in_c = {name: int(value) for name, value in re.findall(r"SD_(KIND_\w+) = (\d)", HEADER)}
    assert said == in_c


def test_the_actions_and_sides_are_those_of_the_header_in_c() -> None:
    for title, field in (("Actions", "action"), ("Sides", "side")):
        (comment,) = re.findall(rf"char {field};\s*/\* (.*) \*/", HEADER)
        assert [row[0] for row in rows(section(title))] == re.findall(r"\b([A-Z])\b", comment)


@pytest.mark.parametrize("title", re.findall(r"^### (.*)$", PAGE, flags=re.MULTILINE))
def test_the_flags_of_a_format_are_the_constants_of_its_module(title: str) -> None:
    (name,) = re.findall(r"^`(strand\.feeds\.[\w.]+)`", section(title), flags=re.MULTILINE)
    module = importlib.import_module(name)
    constants = {
        key: value
        for key, value in vars(module).items()
        if key.isupper() and isinstance(value, int) and not key.startswith(("_", "KIND_")) and key not in NO_FLAGS
    }
    assert {row[0].strip("`"): int(row[1], 16) for row in rows(section(title))} == constants


def test_every_format_has_a_row() -> None:
    assert sorted(FORMATS) == sorted(known.name for known in formats())


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.format in MADE], ids=lambda s: s.name)
def test_the_ticks_of_a_sample_have_the_kinds_and_actions_that_the_page_says(sample: Sample, tmp_path: Path) -> None:
    if not sample.available:
        pytest.skip(f"{sample.needs} is not there")
    with feeds.open(sample.build(tmp_path)) as feed:
        made = np.concatenate([np.array(batch[["kind", "action"]]) for batch in feed])
    found = {(int(kind), action.decode()) for kind, action in np.unique(made)}
    assert found
    assert found - MADE[sample.format] == set()


def test_the_kinds_that_a_row_has_are_those_that_the_decoder_in_c_names() -> None:
    for name, folder in (("itch", "itch"), ("pitch", "pitch"), ("dbn", "dbn")):
        source = "".join(path.read_text("utf-8") for path in sorted((ROOT / "csrc/codec" / folder).glob("*.[ch]")))
        in_c = {KINDS[f"KIND_{kind}"] for kind in re.findall(r"SD_KIND_(\w+)", source)}
        assert in_c == {kind for kind, _ in MADE[name]}, name
