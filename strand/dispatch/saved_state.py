"""The file that a dispatcher at rest is saved to, and that another process goes on from.

A zip file. ``state.json`` says of what it is, ``memory`` has what handlers keep in the dispatcher's space, without the
stretches that are all zeros, ``tables/NAME`` the parts of the arena, ``objects/KEY`` what the object of a symbol
said of itself, ``arrays/NAME`` what a replay adds. zipfile checks each part's CRC as it is read.
"""

from __future__ import annotations

import json
import os
import platform
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from strand.binding.space import ABI_VERSION
from strand.errors import ConfigurationError, SavedStateError

__all__ = ["FORMAT", "SavedState", "SavedSymbol", "build", "check_name"]

#: Of the format.
FORMAT: Final = 1


def check_name(path: str | os.PathLike[str]) -> None:
    """Raises ConfigurationError for a name of a saved state that promises another packing than its own."""
    if (ending := Path(path).suffix.lower()) in (".gz", ".zst", ".bz2", ".xz", ".zip"):
        raise ConfigurationError(
            f"save: {path}: a saved state is not compressed again: give a name that does not end in {ending}"
        )


def build() -> str:
    """Facts that decide the layout of memory: the release, the version of the layout, and the processor."""
    from strand.machine import strand_version

    return f"strand {strand_version()}, layout {ABI_VERSION}, {platform.machine()}"


class SavedSymbol(NamedTuple):
    """Python's state of a symbol. ``alarm``: the due time of its timer (0: never). ``data``: the bytes that its object
    saved (None: there is no object)."""

    key: int
    alarm: int
    data: bytes | None


@dataclass
class SavedState:
    """A file, read as far as it is asked for. ``about``: what state.json says.

    Raises SavedStateError where it is none, is damaged, or is of another format."""

    path: Path
    about: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        try:
            self.about = json.loads(self.part("state.json"))
            found = self.about["strand_state"]
        except (ValueError, KeyError, TypeError) as error:
            raise self.error("it is not a saved state of a dispatcher") from error
        if found != FORMAT:
            raise self.error(f"its format is {found}, made by {self.about.get('build')}; this release reads {FORMAT}")
        if self.about.get("build") != build():
            raise self.error(
                f"it was saved by {self.about.get('build')}; its memory layout may be different from that of this "
                f"build, {build()}"
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raises SavedStateError for faults that reading the block meets."""
        try:
            yield
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise self.error(f"it is damaged: {error!r}") from error

    def read_into(self, name: str, arrays: Sequence[npt.NDArray[np.uint8]]) -> None:
        """Reads a part into arrays, one behind the other, which have to take it all. Raises SavedStateError."""
        with self._opened(name) as part:
            for array in arrays:
                to, read = array.data, 0
                while read < len(to) and (n := part.readinto(to[read:])):
                    read += n
                if read < len(to):
                    raise self.error(f"it is damaged: {name} ends too soon")
            if part.read(1):
                raise self.error(f"it is damaged: {name} is longer than it should be")

    def error(self, what: str) -> SavedStateError:
        return SavedStateError(f"{self.path}: {what}")

    def part(self, name: str) -> bytes:
        with self._opened(name) as part:
            found: bytes = part.read()
        return found

    @contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        import zipfile

        try:
            with zipfile.ZipFile(self.path) as packed, packed.open(name) as part:
                yield part
        except KeyError as error:
            raise self.error(f"it is damaged: {name} is missing") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise self.error(f"it is damaged, or not a saved state: {error}") from error
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror or error}") from error

    def table(self, name: str, dtype: npt.DTypeLike, n: int | None = None) -> npt.NDArray[Any]:
        """A table, of ``n`` numbers where that is known. Raises SavedStateError where it has another size."""
        data = self.part(f"tables/{name}")
        size = np.dtype(dtype).itemsize
        if len(data) % size or n not in (None, len(data) // size):
            raise self.error(f"it is damaged: {name} has {len(data)} bytes")
        return np.frombuffer(data, dtype)

    def array(self, name: str) -> npt.NDArray[Any]:
        """Array that the caller added. Raises SavedStateError where there is none of this name."""
        if name not in self.about["arrays"]:
            raise self.error(f"it has no {name}: it was not saved by a replay")
        return np.frombuffer(self.part(f"arrays/{name}"), self.about["arrays"][name])

    def symbols(self, n: int) -> Iterator[SavedSymbol]:
        """Python's state of each of ``n`` symbols."""
        for key, alarm, has_object in self.about["python"]:
            if not 0 <= key < n:
                raise self.error(f"it is damaged: it has no symbol {key}")
            yield SavedSymbol(key, alarm, self.part(f"objects/{key}") if has_object else None)
