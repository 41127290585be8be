"""Fingerprint files: what ``replay(fingerprints=...)`` writes and ``strand diff`` reads.

JSON, an object a line, the file compressed where its name ends in ``.gz``. docs/determinism.md has the fields.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from strand.brief import brief, several
from strand.errors import ConfigurationError, FormatError, TruncatedFeedError
from strand.feeds.io.atomic_write import atomic_write
from strand.fixed import dataclass

#: Of the format. Version 1 had no outputs in its intervals.
VERSION: Final = 2
#: Start of a fingerprint file's first line.
_MAGIC: Final = '{"strand_fingerprints": '


class SymbolState(NamedTuple):
    """State of a symbol at rest. ``rows``, ``input``: digests (16 hexadecimal digits) of its row and of its ticks so
    far. ``ticks``: their number. ``sequence``: that of the last tick."""

    rows: str
    input: str
    ticks: int
    sequence: int


#: Number of an output's records, and their digest, 32 hexadecimal digits.
OutputState = tuple[int, str]


@dataclass(frozen=True, slots=True, repr=False)
class Interval:
    """The run at rest after so many ``ticks``: fingerprints of everything and of the input so far, the ``outputs`` by
    name, and each symbol that changed since the interval before (``changed`` by name; empty where only the fingerprints
    are kept)."""

    ticks: int
    fingerprint: str
    input: str
    outputs: Mapping[str, OutputState] = field(default_factory=dict, hash=False)
    changed: Mapping[str, SymbolState] = field(default_factory=dict, hash=False)

    def __repr__(self) -> str:
        return brief(self, several(self.ticks, "tick"), self.fingerprint)


@dataclass(frozen=True, slots=True)
class End:
    """End of a run: after ``ticks``, with ``dropped`` of them dropped, and with ``error`` in words if one ended it.

    ``fingerprint`` is the run's, outputs included. ``outputs``: the number of records of each output, and their digest.
    """

    ticks: int
    fingerprint: str
    dropped: int
    error: str | None
    outputs: Mapping[str, OutputState] = field(default_factory=dict, hash=False)


def dump(file: BinaryIO, item: Mapping[str, Any] | Interval | End) -> None:
    """Writes one line: the header (a mapping), an interval or the end."""
    if isinstance(item, Interval):
        plain: dict[str, Any] = {
            "ticks": item.ticks,
            "fingerprint": item.fingerprint,
            "input": item.input,
            "outputs": item.outputs,
            "changed": item.changed,
        }
    elif isinstance(item, End):
        plain = {
            "end": item.ticks,
            "fingerprint": item.fingerprint,
            "dropped": item.dropped,
            "error": item.error,
            "outputs": item.outputs,
        }
    else:
        plain = {"strand_fingerprints": VERSION, **item}
    file.write(json.dumps(plain, separators=(",", ":") if isinstance(item, Interval) else None).encode() + b"\n")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with path.open("rb") as raw:
        if raw.read(2) == b"\x1f\x8b":
            raw.seek(0)
            with gzip.open(raw) as inflated:
                yield inflated
        else:
            raw.seek(0)
            yield raw


def is_fingerprint_file(path: str | os.PathLike[str]) -> bool:
    """Tells whether a file begins as fingerprint files do. Raises OSError where the file cannot be read."""
    try:
        with _opened(Path(path)) as file:
            return bool(file.read(len(_MAGIC)) == _MAGIC.encode())
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False


class read_fingerprints:  # noqa: N801 - used like a function
    """A fingerprint file: ``header`` at once, then iterate over the intervals, after which ``end`` is there.

    Raises FormatError and TruncatedFeedError naming the line, also while iterating.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.end: End | None = None
        self._lines = self._read()
        number, first = next(self._lines, (1, {}))
        if "strand_fingerprints" not in first:
            raise FormatError(
                "this is not a fingerprint file: make one with strand replay --fingerprints", path=self.path
            )
        if first["strand_fingerprints"] != VERSION:
            raise FormatError(
                f"its format is version {first['strand_fingerprints']} (made by strand {first.get('version', '?')}), "
                f"and this release reads version {VERSION}: make both files with one release, by strand replay "
                "--fingerprints; the file's first line has the options of its run",
                path=self.path,
                line=number,
            )
        self.header = first

    def _read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        number = 0
        try:
            with _opened(self.path) as file:
                for number, line in enumerate(file, 1):
                    found = json.loads(line)
                    if not isinstance(found, dict):
                        raise ValueError("it is not a JSON object")
                    yield number, found
        except EOFError as error:
            raise TruncatedFeedError("the file ends in the middle", path=self.path, line=number + 1) from error
        except (ValueError, zlib.error, gzip.BadGzipFile) as error:
            what = TruncatedFeedError if not isinstance(error, zlib.error) and number > 1 else FormatError
            raise what(
                f"this is not a line of a fingerprint file: {error}", path=self.path, line=max(number, 1)
            ) from error
        except OSError as error:
            raise FormatError(f"cannot be read: {error.strerror or error}", path=self.path) from error

    def __iter__(self) -> Iterator[Interval]:
        for number, line in self._lines:
            try:
                outputs = {str(name): (int(n), str(digest)) for name, (n, digest) in line["outputs"].items()}
                if "end" in line:
                    self.end = End(
                        int(line["end"]), str(line["fingerprint"]), int(line["dropped"]), line["error"], outputs
                    )
                    return
                changed = {str(name): SymbolState(*state) for name, state in line["changed"].items()}
                yield Interval(int(line["ticks"]), str(line["fingerprint"]), str(line["input"]), outputs, changed)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise FormatError(f"a field is missing or wrong: {error!r}", path=self.path, line=number) from error
        raise TruncatedFeedError(
            "the file has no last line: its run did not end as it should, so run it again", path=self.path
        )


@contextmanager
def create_fingerprints(path: str | os.PathLike[str], header: Mapping[str, Any]) -> Iterator[BinaryIO]:
    """A fingerprint file with its header, which appears under its name when the block ends."""
    if Path(path).suffix.lower() == ".zst":
        raise ConfigurationError(
            f"{path}: fingerprints are compressed only as .gz: end the name in .gz, or do not compress them"
        )
    with atomic_write(path) as file:
        dump(file, header)
        yield file
