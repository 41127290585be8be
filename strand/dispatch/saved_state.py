"""The file that a dispatcher at rest is saved to, and that another process goes on from.

A zip file. ``state.json`` says of what it is, ``memory`` has what handlers keep in the dispatcher's space, without the
stretches that are all zeros, ``tables/NAME`` the parts of the arena, ``objects/KEY`` what the object of a symbol
said of itself, ``arrays/NAME`` what a replay adds. zipfile checks each part's CRC as it is read.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strand.errors import SavedStateError

__all__ = ["FORMAT", "SavedState", "SavedSymbol"]

#: Of the format.
FORMAT: Final = 1


@dataclass(frozen=True)
class SavedSymbol:
    """What Python keeps for a symbol: when its ``alarm`` is due (0: never), and what its object saved (None: there is
    no object)."""

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
            raise self.error("it is no saved state of a dispatcher") from error
        if found != FORMAT:
            raise self.error(
                f"its format is {found}, made by strand {self.about.get('version')}; this release reads {FORMAT}"
            )
        if self.about.get("version") != version("strand"):
            raise self.error(
                f"strand {self.about.get('version')} saved it, and memory is laid out anew with each release: this is "
                f"{version('strand')}"
            )

    def error(self, what: str) -> SavedStateError:
        return SavedStateError(f"{self.path}: {what}")

    def part(self, name: str) -> bytes:
        try:
            with zipfile.ZipFile(self.path) as packed:
                return packed.read(name)
        except KeyError as error:
            raise self.error(f"it is damaged: {name} is missing") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise self.error(f"it is damaged, or no saved state: {error}") from error
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
        """What the caller added. Raises SavedStateError where it added no such thing."""
        if name not in self.about["arrays"]:
            raise self.error(f"it has no {name}: it was not saved by a replay")
        return np.frombuffer(self.part(f"arrays/{name}"), self.about["arrays"][name])

    def symbols(self) -> Iterator[SavedSymbol]:
        """What Python kept for each symbol."""
        for key, alarm, has_object in self.about["python"]:
            yield SavedSymbol(key, alarm, self.part(f"objects/{key}") if has_object else None)
