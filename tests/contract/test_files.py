"""Every format by every code and shape, on any number of workers: the plain run's rows, records and fingerprint.

The ticks of each file, and what handlers of trades make of it, are in golden.json: tests/support/golden.py writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import golden
import marked
import numpy as np
import plain
import pytest
from all_pairs import Cell, every, name_of, pairwise
from small_files import FILES, SmallFile, options_of

import strand
from strand.errors import ConfigurationError

pytestmark = pytest.mark.python
pytest.importorskip("numba")
pytest.importorskip("pyarrow")

BY_NAME = {file.name: file for file in FILES}
FACTORS: Mapping[str, Any] = {
    "file": list(BY_NAME),
    "code": ["C", "compiled", "batch", "object"],
    "shape": ["symbol", "trade", "basket", "sets"],
    "workers": [0, 1, 2, 4],
    "strands": ["auto", "per-symbol"],
}  # fmt: skip
FACTOR = 6364136223846793005
#: Formats whose files name their symbols, and the room for these: with that for 65,536 a run takes twice as long. Files
#: that number them have this room, as ITCH, in all combinations too.
NAMED, ROOM = ("csv", "parquet", "jsonl"), 32


def possible(cell: Cell) -> bool:
    """Baskets have no code in C; a sweep has no strands."""
    return not (cell["shape"] == "basket" and cell["code"] == "C") and not (
        cell["shape"] == "sets" and cell["strands"] != "auto"
    )


def refused(cell: Cell) -> type[Exception] | None:
    """A sweep takes no handler in C, and needs a worker."""
    return ConfigurationError if cell["shape"] == "sets" and (cell["code"] == "C" or cell["workers"] == 0) else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


class Known:
    """A file, its ticks and the names of its symbols."""

    def __init__(self, file: SmallFile, folder: Path) -> None:
        if not file.available:
            pytest.skip(f"{file.name} needs {', '.join(file.needs)}")
        (folder / file.name).mkdir()
        self.path = file.write(folder / file.name)
        room = {"max_symbols": ROOM} if file.format in NAMED else {}
        self.options = {**options_of(file, folder / file.name), **room}
        self.array, self.names = golden.read(self.path, self.options)
        self.ticks = plain.ticks_of(self.array)
        had = [self.names[key] for key in dict.fromkeys(self.array["instrument_id"].tolist())]
        self.baskets = {"pair": had[:2], "last": had[-1:]}
        # Timers that fire between the ticks of most files.
        gaps = np.diff(self.array["ts_recv"])
        span = int(np.median(gaps[gaps > 0])) * 3 if (gaps > 0).any() else 1000
        self.params = {"factor": FACTOR, "span": max(span, 2), "fail_at": 0}
        self.sets = [{**self.params, "factor": FACTOR + 2 * n} for n in range(3)]

    @cache  # noqa: B019 - as long as the tests
    def expected(self, shape: str, number: int = 0) -> plain.Ran:
        handler = self.handler(shape)
        return plain.plain_run(handler, self.names, self.ticks, params={"*": self.sets[number]})

    def handler(self, shape: str) -> plain.Plain:
        return marked.plain_basket(self.baskets) if shape == "basket" else marked.PLAIN


@pytest.fixture(scope="module")
def known(folder: Path) -> Any:
    return cache(lambda name: Known(BY_NAME[name], folder))


def assert_cell(cell: Cell, known: Known, folder: Path) -> None:
    error = refused(cell)
    if error is not None:
        with pytest.raises(error):
            swept(cell, known, folder)
    elif cell["shape"] == "sets":
        assert_sets(swept(cell, known, folder), known)
    elif cell["shape"] == "trade":
        handler = marked.of_code(cell["code"], folder, "trade")
        assert replayed(cell, known, handler).fingerprint == golden.GOLDEN[cell["file"]]["trades"]
    else:
        baskets = cell["shape"] == "basket"
        handler = marked.in_baskets(cell["code"], known.baskets) if baskets else marked.of_code(cell["code"], folder)
        assert_run(replayed(cell, known, handler), known, cell["shape"])


def replayed(cell: Cell, known: Known, handler: Any) -> strand.ReplayResult:
    return strand.replay(
        known.path, handler.with_params({"*": known.params}), feed_options=known.options, workers=cell["workers"],
        strands=cell["strands"], cores=None,
    )  # fmt: skip


def swept(cell: Cell, known: Known, folder: Path) -> strand.SweepResult:
    handler = marked.of_code(cell["code"], folder)
    return strand.sweep(known.path, handler, known.sets, feed_options=known.options, workers=cell["workers"])


def assert_run(result: strand.ReplayResult, known: Known, shape: str) -> None:
    ran, handler = known.expected(shape), known.handler(shape)
    assert result.ticks == ran.ticks
    for name, row in ran.rows.items():
        assert tuple(result.rows[known.names.index(name)].tolist()) == tuple(row.values()), name
    for name, row in ran.baskets.items():
        assert tuple(result.baskets[name].tolist()) == tuple(row.values()), name
    for name, records in result.outputs.items():
        columns = {field: records[field].tolist() for field in records.dtype.names}
        columns["instrument_id"] = [known.names[key] for key in columns["instrument_id"]]
        assert list(zip(*columns.values(), strict=True)) == ran.outputs[name]
    assert result.fingerprint == plain.fingerprint_of(handler, ran.rows, ran.counts, ran)


def assert_sets(result: strand.SweepResult, known: Known) -> None:
    rows = result.rows.to_arrow().to_pylist()
    outputs = {name: output.to_arrow().to_pylist() for name, output in result.outputs.items()}
    for number, run in enumerate(sorted(result.runs, key=lambda run: run.number)):
        ran = known.expected("symbol", number)
        assert run.fingerprint == plain.fingerprint_of(marked.PLAIN, ran.rows, ran.counts, ran)
        mine = {row["symbol"]: tuple(row[f] for f, _ in marked.STATE) for row in rows if row["set"] == number}
        idle = {name: (0,) * len(marked.STATE) for name in mine.keys() - ran.rows.keys()}  # named, and without a tick
        assert mine == {name: tuple(row.values()) for name, row in ran.rows.items()} | idle
        for name, records in outputs.items():
            fields = [field for field, _ in marked.OUTPUTS[name]]
            found = [(r["symbol"], *(r[field] for field in fields)) for r in records if r["set"] == number]
            assert found == [record[3:] for record in ran.outputs[name]]


CELLS = pairwise(FACTORS, possible)


@pytest.mark.parametrize("file", BY_NAME)
def test_a_file_leaves_what_the_plain_run_leaves(file: str, known: Any, folder: Path) -> None:
    for cell in CELLS:
        if cell["file"] == file:
            try:
                assert_cell(cell, known(file), folder)
            except AssertionError as error:
                raise AssertionError(name_of(cell)) from error


@pytest.mark.parametrize("file", BY_NAME)
def test_every_combination_leaves_what_the_plain_run_leaves(
    file: str, known: Any, folder: Path, exhaustive: None
) -> None:
    for cell in every({**FACTORS, "file": [file]}, possible):
        try:
            assert_cell(cell, known(file), folder)
        except AssertionError as error:
            raise AssertionError(name_of(cell)) from error


@pytest.mark.parametrize("file", BY_NAME)
def test_a_file_has_the_ticks_that_it_had(file: str, known: Any) -> None:
    assert golden.of_ticks(known(file).array, known(file).names, known(file).path, known(file).options) == {
        key: value for key, value in golden.GOLDEN[file].items() if key != "trades"
    }


def test_every_format_of_the_page_has_a_file() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "tick.md").read_text("utf-8")
    section = page.split("## By format")[1].split("## Flags")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == {file.format for file in FILES}


def test_two_files_are_swept_by_two_processes(known: Any, folder: Path) -> None:
    """Each file is a run of its own, whatever the number of processes."""
    files = [known(name) for name in ("itch", "pitch")]
    sets = files[0].sets
    result = strand.sweep(
        [file.path for file in files], marked.of_code("compiled", folder).with_params({"*": sets[0]}), sets, workers=2
    )
    found = {(run.label, run.number): run.fingerprint for run in result.runs}
    for file in files:
        for number, given in enumerate(sets):
            ran = plain.plain_run(marked.PLAIN, file.names, file.ticks, params={"*": given})
            assert found[file.path.name, number] == plain.fingerprint_of(marked.PLAIN, ran.rows, ran.counts, ran)


@pytest.mark.parametrize("workers", [0, 2])
def test_several_files_are_one_feed_in_the_order_of_times_then_files(known: Any, folder: Path, workers: int) -> None:
    files = [known("parquet"), known("arrow")]
    ticks = []
    for file in files:
        for tick in plain.ticks_of(file.array):
            tick.instrument_id = files[0].names.index(file.names[tick.instrument_id])
            ticks.append(tick)
    ticks.sort(key=lambda tick: tick.ts_recv)
    handler = marked.of_code("object", folder).with_params({"*": files[0].params})
    result = strand.replay([file.path for file in files], handler, workers=workers, cores=None)
    ran = plain.plain_run(marked.PLAIN, files[0].names, ticks, params={"*": files[0].params})
    assert result.fingerprint == plain.fingerprint_of(marked.PLAIN, ran.rows, ran.counts, ran)
    marks = result.outputs["marks"]
    of_ticks = marks[marks["number"] >= 0]
    assert of_ticks["feed"].tolist() == (of_ticks["number"] % 2).tolist()
