"""Result of ``strand.sweep``: tables over all files and sets."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import closing
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strand.brief import brief, several
from strand.dicts import ByName
from strand.fixed import dataclass
from strand.handlers.state import SET
from strand.lazy import imported
from strand.sweeping.job import ROWS
from strand.sweeping.manifest import Manifest, SweepRun
from strand.sweeping.sets import ParameterSet
from strand.tables.tabular import pandas_frame, polars_frame
from strand.validate import file_path, whole

if TYPE_CHECKING:
    import polars

#: The column that says of which file a record is.
FILE = "file"


class Place:
    """The folder of a data set. Without ``path``: a new one, which is removed when nothing refers to this any more."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="strand-sweep-")) if path is None else file_path("out", path)
        if path is None:
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class SweepTable:
    """Table of a sweep over all its files and sets: the rows, or one output. It lies in Parquet files.

    Columns are ``set`` (u4, the number of the set), ``file`` (a category: the file's name), and those that the rows and
    outputs of a replay have. Prices are floats. Files follow one another in the order of the call. Rows are in the
    order of sets, records of an output in the order of the ticks.
    """

    def __init__(self, place: Place, paths: Mapping[Path, tuple[str, tuple[int, ...]]]) -> None:
        self._place = place
        #: The files, what each is called, and the sets that are meant.
        self._paths = dict(paths)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The Parquet files, which may have records of other sets too."""
        return tuple(self._paths)

    def to_arrow(self) -> Any:
        """Returns a pyarrow.Table.

        Raises:
            MissingExtraError: Without pyarrow.
        """
        arrow, parquet = imported("pyarrow", "sweep"), imported("pyarrow.parquet", "sweep")
        tables = [
            self._with_file(
                arrow, parquet.read_table(path, filters=[(SET, "in", list(sets))], partitioning=None), label
            )
            for path, (label, sets) in self._paths.items()
        ]
        return arrow.concat_tables(tables).unify_dictionaries()

    @staticmethod
    def _with_file(arrow: Any, table: Any, label: str) -> Any:
        codes = arrow.repeat(arrow.scalar(0, arrow.int32()), len(table))
        return table.add_column(1, FILE, arrow.DictionaryArray.from_arrays(codes, arrow.array([label])))

    def to_polars(self) -> polars.DataFrame:
        """Returns a polars.DataFrame.

        Raises:
            MissingExtraError: Without polars or pyarrow.
        """
        return polars_frame(self.to_arrow)

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame.

        Raises:
            MissingExtraError: Without pandas or pyarrow.
        """
        return pandas_frame(self.to_arrow)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table as a stream of Arrow's C interface. Raises as ``to_arrow``."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, kw_only=True, repr=False)
class SweepResult:
    """Result of ``strand.sweep``.

    Attributes:
        code: The digest of the code and options.
        labels: The names of the files, in the order of the call.
        numbers: The numbers of the sets, in their order.
        ran: The files that were run. The others had all their results.
        missing: The files that have no result, since the sweep was interrupted. They are not among ``labels``.
    """

    code: str
    labels: tuple[str, ...]
    numbers: tuple[int, ...]
    ran: tuple[str, ...]
    missing: tuple[str, ...] = ()
    _place: Place = field(repr=False, compare=False)

    def __repr__(self) -> str:
        figures = several(len(self.labels), "file"), several(len(self.numbers), "set"), f"{len(self.ran):,} run"
        missing = [f"{len(self.missing):,} missing"] if self.missing else []
        return brief(self, *figures, *missing, f"code {self.code[:8]}")

    @property
    def folder(self) -> Path:
        """The folder of the data set."""
        return self._place.path

    @cached_property
    def runs(self) -> tuple[SweepRun, ...]:
        """Every set over every file, in the order of files and then of sets: ticks, fingerprint, warnings."""
        with closing(Manifest(self.folder, must_exist=True)) as manifest:
            found = {(run.label, run.number): run for run in manifest.runs(self.code)}
        return tuple(found[label, number] for label in self.labels for number in self.numbers)

    @cached_property
    def sets(self) -> dict[int, ParameterSet]:
        """The parameters of each set by its number."""
        with closing(Manifest(self.folder, must_exist=True)) as manifest:
            known = manifest.sets()
        return {number: known[number] for number in self.numbers}

    @cached_property
    def units(self) -> dict[str, str]:
        """A word for the unit of each field of the rows that declares one, as tables show it."""
        with closing(Manifest(self.folder, must_exist=True)) as manifest:
            return manifest.units(self.code)

    def plot(self, by: str, *, best: int = 5, smallest: bool = False) -> Any:
        """Draws a matplotlib figure of the scores, which a notebook shows by itself.

        It shows each set's score over its parameters, and how the best sets reached it file by file. Where two
        parameters vary, the scores are a map. Else they are dots over each parameter of numbers that varies, up to
        four.

        Args:
            by: A field of the rows: ``"pnl"``. A set's score is its sum over all symbols and files, in the unit of
                ``rows``. Undefined values are left out; a set with no other values has no score.
            best: How many sets to draw apart, up to 10.
            smallest: The best sets are those with the smallest score.

        Raises:
            ConfigurationError: If the rows have no such field of numbers, or ``best`` is not a whole number from 1.
            MissingExtraError: Without the extra ``plot``.
        """
        from strand.sweeping.plots import plot, scores_of

        return plot(self, scores_of(self, by), best=whole("best", best, 1), smallest=smallest)

    @property
    def rows(self) -> SweepTable:
        """Every symbol's row, as each set left it."""
        return self._table(ROWS)

    @property
    def outputs(self) -> dict[str, SweepTable]:
        """Records that each set emitted, by the name of the output."""
        names = {name for run in self.runs for name in run.files if name != ROWS}
        return ByName("output", {name: self._table(name) for name in sorted(names)})

    def _table(self, name: str) -> SweepTable:
        found: dict[Path, tuple[str, tuple[int, ...]]] = {}
        for run in self.runs:
            path = self.folder / run.files[name]
            _, sets = found.get(path, (run.label, ()))
            found[path] = run.label, (*sets, run.number)
        return SweepTable(self._place, found)
