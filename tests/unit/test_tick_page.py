"""The page about the tick says what the code has: fields, kinds, actions, flags, and what each format makes."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from feed_samples import SAMPLES, Sample

from strand import feeds, ticks
from strand.feeds.formats.registry import formats
from strand.ticks import BY_NAME, TICK

pytestmark = pytest.mark.python

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tick.md").read_text("utf-8")
HEADER = (ROOT / "csrc/sd_tick.h").read_text("utf-8")
KINDS = {name: getattr(ticks, name) for name in dir(ticks) if name.startswith("KIND_")}
#: Constants of a module of a format that are no flags.
NO_FLAGS = {"BATCH_STEP", "DAY_NS", "LOCATES", "LONGEST_LINE"}


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
