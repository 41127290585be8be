"""Files that are made of ticks, and ticks that a format cannot hold: those that do not read back as they were."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError
from strand.feeds.base import Feed, TickBatch
from strand.ticks import FIELDS
from strand.validate import one_of

__all__ = ["Found", "Misfits", "Target", "fields_that_differ", "misfits"]

_FIRST: Final = ("kind", "action", "side", "price", "size", "order_id", "ref_id", "ts_recv", "ts_event")
#: Fields in the order in which an error names them.
_FIELDS: Final = (*_FIRST, *(name for name in FIELDS if name not in _FIRST))

#: The name of the field that a format cannot hold, by tick; empty: it holds the tick.
Found = npt.NDArray[np.str_]


def fields_that_differ(written: TickBatch, read: TickBatch, ignore: Sequence[str] = ()) -> Found:
    """Compare ticks with what was read back, which are as many. Return the first field that differs, by tick."""
    found = np.zeros(len(written), f"U{max(map(len, _FIELDS))}")
    for field in _FIELDS:
        if field not in ignore:
            differs = written[field] != read[field]
            if differs.any():
                found[differs & (found == "")] = field
    return found


def misfits(
    ticks: TickBatch, read_back: Callable[[TickBatch], tuple[TickBatch, bool]], ignore: Sequence[str] = ()
) -> Found:
    """Find the ticks that do not read back as they are.

    Args:
        ticks: The ticks that are to be written.
        read_back: Writes and reads some of them. It returns what was read, and whether that came to the end.
        ignore: Names of fields that may differ.

    Returns:
        The name of the first field that differs, by tick.
    """
    if not len(ticks):
        return np.zeros(0, "U1")
    read, sound = read_back(ticks)
    if sound and len(read) == len(ticks):
        return fields_that_differ(ticks, read, ignore)
    if len(ticks) == 1:
        return np.array([_unreadable(ticks, read_back)])
    middle = len(ticks) // 2
    return np.concatenate([misfits(part, read_back, ignore) for part in (ticks[:middle], ticks[middle:])])


def _unreadable(tick: TickBatch, read_back: Callable[[TickBatch], tuple[TickBatch, bool]]) -> str:
    """The field because of which a tick does not come back as one: with another letter there it does."""
    for field, letters in (("side", b"BAN"), ("action", b"ACN")):
        for letter in letters:
            other = tick.copy()
            other[field] = bytes([letter])
            read, sound = read_back(other)
            if sound and len(read) == 1:
                return field
    return "action"


class Misfits:
    """Treatment of ticks that a format cannot hold: they raise an error, or are left out and counted.

    Attributes:
        skips: Whether they are left out.
        left_out: Number of ticks that were left out, by the field that does not fit.
    """

    def __init__(self, target: str, on_unwritable: Literal["raise", "skip"] = "raise") -> None:
        self._target = target
        self.skips = bool(one_of("on_unwritable", on_unwritable, ("raise", "skip")))
        self.left_out: Counter[str] = Counter()

    def take_out(self, ticks: TickBatch, found: Found, before: int, symbols: Sequence[str]) -> TickBatch:
        """Return the ticks that fit.

        Args:
            ticks: Some ticks in a row.
            found: The field of each that does not fit, as ``misfits`` has them.
            before: Number of ticks of the source before these.
            symbols: Names of symbols known by now.

        Raises:
            ConfigurationError: If one does not fit, unless such ticks are to be left out.
        """
        bad = np.flatnonzero(found != "")
        if not len(bad):
            return ticks
        if not self.skips:
            index = int(bad[0])
            self._refuse(str(found[index]), ticks[index], before + index, symbols)
        self.left_out.update(found[bad].tolist())
        kept: TickBatch = ticks[found == ""]
        return kept

    def _refuse(self, field: str, tick: np.void, before: int, symbols: Sequence[str]) -> None:
        value = tick[field].item() if field in FIELDS else symbols[int(tick["instrument_id"])]
        what = f"kind {int(tick['kind'])}, action {bytes(tick['action'])!r}, flags {int(tick['flags'])}"
        raise ConfigurationError(
            field,
            f"{self._target} cannot hold {value!r} in tick {before + 1} ({what}); on_unwritable='skip' "
            "(--on-unwritable skip) leaves such ticks out and counts them",
        )


class Target(ABC):
    """A file being made of ticks: batches, then ``finish``."""

    def __init__(self, file: BinaryIO, misfits: Misfits) -> None:
        self._file, self._misfits = file, misfits
        self._ticks = 0

    @abstractmethod
    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        """Takes a batch, and returns the ticks of it that fit. ``symbols``: the names known by now."""

    def finish(self, feed: Feed) -> None:  # noqa: B027 - nothing follows the last message of some
        """Writes what is left, and the file's end."""

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Called at the end, whole or not, while the file is still open."""

    def _fitting(self, ticks: TickBatch, found: Found, symbols: Sequence[str]) -> TickBatch:
        """The ticks that fit. ``found``: the field of each that does not, as ``misfits`` has them."""
        before, self._ticks = self._ticks, self._ticks + len(ticks)
        return self._misfits.take_out(ticks, found, before, symbols)
