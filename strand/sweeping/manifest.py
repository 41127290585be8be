"""Manifest of a data set of sweeps: a SQLite file beside its tables.

A run is one set of parameters over one file, by one version of the code. It is there once its tables are.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from itertools import count
from pathlib import Path
from typing import Any, Final

from strand.errors import ConfigurationError, FeedError
from strand.fixed import dataclass
from strand.sweeping.digests import Stamp
from strand.sweeping.job import Emitted
from strand.sweeping.sets import ParameterSet, text_of

MANIFEST: Final = "manifest.sqlite"
#: Changes with the tables below: a file of another version is refused.
_VERSION: Final = 2
#: By rowid, the order of the last sweeps: several may be made in one second.
_CODES: Final = "SELECT code, handler, made FROM codes ORDER BY rowid"
_TABLES: Final = """
CREATE TABLE sets (number INTEGER PRIMARY KEY, params TEXT NOT NULL UNIQUE);
CREATE TABLE codes (code TEXT PRIMARY KEY, handler TEXT NOT NULL, made TEXT NOT NULL, units TEXT NOT NULL);
CREATE TABLE inputs (path TEXT PRIMARY KEY, bytes INTEGER NOT NULL, changed_ns INTEGER NOT NULL, digest TEXT NOT NULL);
CREATE TABLE runs (
  code TEXT NOT NULL REFERENCES codes, label TEXT NOT NULL, number INTEGER NOT NULL REFERENCES sets,
  input TEXT NOT NULL, fingerprint TEXT NOT NULL, rows TEXT NOT NULL, outputs TEXT NOT NULL, ticks INTEGER NOT NULL,
  seconds REAL NOT NULL, ended TEXT NOT NULL, files TEXT NOT NULL, warnings TEXT NOT NULL,
  PRIMARY KEY (code, label, number)
);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """``code``: the digest of the code and options it was made by. ``label``: of the file. ``number``: of the set.
    ``input``: the digest of the file's bytes. ``fingerprint``: that of a replay of the file with this set alone, with
    its outputs and the handlers before. ``rows``: the digest of the set's own rows. ``outputs``: how many records the
    set emitted to each output, and their digest. ``seconds``: wall time of the pass that it was made in, with all its
    sets. ``files``: of its tables, by name, within the data set. ``warnings``: of the run."""

    code: str
    label: str
    number: int
    input: str
    fingerprint: str
    rows: str
    outputs: Mapping[str, Emitted]
    ticks: int
    seconds: float
    ended: str
    files: Mapping[str, str]
    warnings: Sequence[str]


class Manifest:
    """Opens the manifest of a folder, or makes it.

    Raises ConfigurationError for a folder of something else. Where the file cannot be written, this and all that adds
    to it raise FeedError. Its results can be read there all the same.
    """

    def __init__(self, folder: Path, *, must_exist: bool = False) -> None:
        path = folder / MANIFEST
        if must_exist and not path.is_file():
            raise ConfigurationError(f"{folder}: there is no data set of a sweep: it has no {MANIFEST}")
        if not path.exists() and folder.is_dir() and any(folder.iterdir()):
            raise ConfigurationError("out", f"{folder} has files that are not of a sweep: name an empty or new folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._path = path
        try:
            self._sql = sqlite3.connect(path, timeout=30)
            self._sql.execute("PRAGMA foreign_keys = ON")
            (version,) = self._sql.execute("PRAGMA user_version").fetchone()
            if not version:
                self._sql.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {_VERSION}; COMMIT;")
        except sqlite3.OperationalError as error:
            raise self._unwritten(error) from error
        except sqlite3.Error as error:
            raise ConfigurationError(f"{path}: is no manifest of a sweep: {error}") from error
        if version not in (0, _VERSION):
            raise ConfigurationError(f"{path}: is of version {version}, and this Strand reads version {_VERSION}")

    def close(self) -> None:
        self._sql.close()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._sql:
                yield self._sql
        except sqlite3.OperationalError as error:
            raise self._unwritten(error) from error

    def _unwritten(self, error: sqlite3.OperationalError) -> FeedError:
        return FeedError(f"cannot be written: {error}", path=str(self._path))

    def number(self, sets: Iterable[ParameterSet]) -> list[int]:
        """The number of each set; new ones get the next."""
        texts = [text_of(each) for each in sets]
        known = {text: number for number, text in self._sql.execute("SELECT number, params FROM sets")}
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            numbered = dict(zip(new, count(max(known.values(), default=-1) + 1)))
            with self._change() as sql:
                sql.executemany("INSERT INTO sets VALUES (?, ?)", [(number, text) for text, number in numbered.items()])
            known |= numbered
        return [known[text] for text in texts]

    def sets(self) -> dict[int, ParameterSet]:
        """All sets by number."""
        return {number: json.loads(text) for number, text in self._sql.execute("SELECT * FROM sets ORDER BY number")}

    def add_code(self, code: str, handler: str, units: Mapping[str, str]) -> None:
        """Makes it the last one. ``units``: words for those of the fields of its rows."""
        with self._change() as sql:
            sql.execute("INSERT OR IGNORE INTO codes VALUES (?, ?, ?, ?)", (code, handler, now(), json.dumps(units)))
            sql.execute("UPDATE codes SET rowid = (SELECT max(rowid) + 1 FROM codes) WHERE code = ?", (code,))

    def units(self, code: str) -> dict[str, str]:
        """Words for the units of the fields of a handler's rows."""
        row = self._sql.execute("SELECT units FROM codes WHERE code = ?", (code,)).fetchone()
        return dict(json.loads(row[0]))

    def codes(self) -> dict[str, tuple[str, str]]:
        """Handler and time of the first sweep, by digest of the code, in the order of the last sweeps."""
        return {code: (name, made) for code, name, made in self._sql.execute(_CODES)}

    def known_digest(self, path: Path, stamp: Stamp) -> str | None:
        """Digest of a file whose bytes and time of last change are still those of ``stamp``; None: the file has to be
        read."""
        row = self._sql.execute(
            "SELECT digest FROM inputs WHERE path = ? AND bytes = ? AND changed_ns = ?", (str(path), *stamp)
        ).fetchone()
        return None if row is None else str(row[0])

    def note_input(self, path: Path, stamp: Stamp, digest: str) -> None:
        """Stores a file's digest, so that the file need not be read for it again; does nothing where the manifest
        cannot be written."""
        with suppress(FeedError), self._change() as sql:
            sql.execute("INSERT OR REPLACE INTO inputs VALUES (?, ?, ?, ?)", (str(path), *stamp, digest))

    def runs(self, code: str | None = None) -> list[SweepRun]:
        """Runs of one code, or all, in the order of code, label and number."""
        rows = self._sql.execute(
            "SELECT * FROM runs WHERE ?1 IS NULL OR code = ?1 ORDER BY code, label, number", (code,)
        ).fetchall()
        return [_run(*row) for row in rows]

    def add(self, runs: Sequence[SweepRun]) -> None:
        """Adds the runs of one pass. Those of the same code and label over another input are there no more."""
        with self._change() as sql:
            for run in runs[:1]:
                sql.execute(
                    "DELETE FROM runs WHERE code = ? AND label = ? AND input != ?", (run.code, run.label, run.input)
                )
            places = ", ".join("?" for _ in fields(SweepRun))
            sql.executemany(f"INSERT OR REPLACE INTO runs VALUES ({places})", [_line(run) for run in runs])

    def files(self) -> set[str]:
        """Files of all runs' tables, within the folder."""
        found: set[str] = set()
        for (text,) in self._sql.execute("SELECT DISTINCT files FROM runs"):
            found.update(json.loads(text).values())
        return found


def _line(run: SweepRun) -> list[Any]:
    """A run as the table has it: what is no number and no text is JSON."""
    values = asdict(run)
    return [json.dumps(value) if isinstance(value, dict | list | tuple) else value for value in values.values()]


def _run(*row: Any) -> SweepRun:
    values = dict(zip((field.name for field in fields(SweepRun)), row, strict=True))
    values |= {name: json.loads(values[name]) for name in ("outputs", "files", "warnings")}
    values["outputs"] = {name: Emitted(**each) for name, each in values["outputs"].items()}
    return SweepRun(**values)


def now() -> str:
    """The time in UTC to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
