"""The lines of one CSV file as ticks. The lines are counted, and a fault is reported with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from strand.binding.columns import FAULT_PRECISION, FAULT_RANGE, FAULT_TWICE, FAULT_WORDS
from strand.errors import FeedError, FormatError
from strand.feeds.base import TickBatch
from strand.feeds.formats.csv.lines import Block, blocks
from strand.feeds.formats.csv.parts import PartsMaker
from strand.feeds.formats.csv.profile import Match
from strand.feeds.formats.csv.ticks import Made, TickMaker
from strand.feeds.io.prefetch import Chunks
from strand.feeds.mapping.events import Rolls
from strand.feeds.mapping.options import MEND
from strand.feeds.mapping.values import PRICE_POWER, coarser_price, finer_unit
from strand.feeds.selection import Selection
from strand.feeds.skipped import Skipped
from strand.symbols import NAME_BYTES

__all__ = ["CsvRows"]

_COUNTS = (
    "records", "ticks", "empty_lines", "end_lines", "not_selected", "rows_rounded", "sequences_left_out",
    "time_reversals", "unended_lines", "repeated_ids", "rolled_instruments", "bytes_in", "bytes_out",
)  # fmt: skip


Kept = npt.NDArray[np.bool_]
#: Texts that programs write where there is no value.
_NO_VALUES: Final = frozenset(("nan", "null", "none", "na", "n/a", "nil", "-", "--", "\\n", "#n/a"))
_CUT: Final = "get the whole file, whose last line may be cut off; on_bad_record='skip' leaves that line out"


class _Bytes(Protocol):
    """A stream that tells how many bytes it has read."""

    @property
    def bytes_in(self) -> int: ...


class CsvRows:
    """Reads a file of a match once. ``counts`` and ``skipped`` are of as much as has been read.

    ``skipped``: where lines that are no rows go; None: they are an error. ``keeps``: which symbols are selected, by
    index; called only where ``select`` chooses symbols. ``rounds``: whether numbers are rounded; None: the reader has
    options neither for that nor for units. ``whole``: the file lies in an archive that says where it ends. So a last
    line without a line end is not taken for a cut one.
    """

    def __init__(
        self,
        path: str | Path,
        found: Match,
        maker: TickMaker | PartsMaker,
        *,
        skipped: Skipped | None,
        rounds: bool | None = False,
        max_symbols: int = 1,
        select: Selection | None = None,
        keeps: Callable[[], npt.NDArray[np.bool_]] | None = None,
        whole: bool = False,
    ) -> None:
        last = len(found.columns) - 1
        # If the file is cut within the last column, the rest of the text may still read as a number or a name.
        self._doubts_end = not whole and last in maker.wanted() and not maker.is_mapped(last)
        self._path, self._match, self._maker = path, found, maker
        self._skipped, self._rounds, self._max_symbols = skipped, rounds, max_symbols
        self._select, self._keeps = select, keeps
        self._highest_id: dict[int, int] = {}  # by symbol; only where the profile says that ids rise
        self.counts = self.no_counts()
        self.rolls = Rolls()

    @staticmethod
    def no_counts() -> dict[str, int]:
        """The counts of a file before it is read."""
        return dict.fromkeys(_COUNTS, 0)

    def ticks(self, chunks: Chunks, stream: _Bytes, threads: int) -> Iterator[TickBatch]:
        """The ticks of one block of lines after the other, some without any. Closes ``chunks``, which are the stream's.

        Raises FormatError with the line for one that is no row, once those before it have been given.
        """
        position, line, last_ns = 0, self._match.lines + 1, 0
        parsed = blocks(chunks, self._match, self._maker.wanted(), threads)
        try:
            for block in parsed:
                made = self._maker.make(block, position, self._select, self._keeps)
                fault, ticks, kept = self._settled(block, made, line)
                self._count(block, made, ticks, last_ns, stream.bytes_in)
                if made.instruments is not None:
                    ids = made.instruments if kept is None else made.instruments[kept]
                    rolled = self.rolls.put_in(ticks, ids)
                    self.counts["ticks"] += len(rolled) - len(ticks)
                    self.counts["rolled_instruments"] = self.rolls.count
                    ticks = rolled
                yield ticks
                if len(ticks):
                    last_ns = int(ticks["ts_recv"][-1])
                if fault is not None:
                    raise fault
                position += block.lines - len(block.empty)
                line += block.lines
            if (column := self._maker.unresolved()) is not None:
                problem = f"column {self._maker.columns[column]}: the file ends at {FAULT_WORDS[FAULT_TWICE]}"
                raise FormatError(f"{problem}{self._maker.cure(column, FAULT_TWICE)}", path=self._path, line=line - 1)
        except FeedError as error:
            if error.path is None:
                raise type(error)(str(error), path=self._path) from error.__cause__
            raise
        finally:
            chunks.close()  # first: a pipe's reader may wait in it for ever
            parsed.close()  # type: ignore[attr-defined]

    def _settled(self, block: Block, made: Made, line: int) -> tuple[FormatError | None, TickBatch, Kept | None]:
        """The ticks of good rows: all of them where lines are skipped, else those before the first fault.

        Which ticks these are comes last; None: all."""
        ticks = made.ticks
        if not block.bad and not made.faults.any():
            return None, ticks, None
        rows = np.arange(block.rows) if made.rows is None else made.rows
        at = rows if block.at is None else block.at[rows]  # by tick: its line in the block
        end = self._match.profile.end
        good = made.faults == 0
        faults: list[tuple[int, str, str, str]] = []
        for index in np.flatnonzero(~good).tolist():
            if end is not None and block.columns[0].text(int(rows[index])) == end.encode():
                self.counts["end_lines"] += 1
                continue
            why, problem, text = self._explained(block, int(rows[index]), int(made.faults[index]))
            faults.append((int(at[index]), why, problem, text))
        for bad in block.bad:
            if end is not None and bad.text.startswith(end + self._match.delimiter):
                self.counts["end_lines"] += 1
                continue
            faults.append((bad.at, bad.why, bad.problem, bad.text))
        faults.sort()
        if faults and self._skipped is None:
            place, _, problem, text = faults[0]
            cut = block.is_cut and place == block.lines - 1
            error = FormatError(
                f"{problem}: {text!r} ({self._match.profile.name}): {_CUT if cut else MEND}",
                path=self._path,
                line=line + place,
            )
            good &= at < place
            return error, ticks[good], good
        for place, why, _, text in faults:
            assert self._skipped is not None
            self._skipped.add(why, line=line + place, text=text)
        return None, ticks[good], good

    def _explained(self, block: Block, row: int, fault: int) -> tuple[str, str, str]:
        number, kind = fault >> 8, fault & 0xFF
        text = block.columns[number].text(row)[:80].decode(self._match.encoding, "backslashreplace")
        word = FAULT_WORDS[kind]
        cure = first = ""
        timed = self._maker.cure(number, kind)
        if self._rounds is not None and self._maker.can_round(number):
            cure = " (it rounds to 0)" if self._rounds else " (inexact='round' rounds them to the nearest)"
        more = {
            "one name too many": f", max_symbols is {self._max_symbols}",
            "no symbol's name": f", which is text of at most {NAME_BYTES} bytes as UTF-8 without control characters",
            "too precise": f", more decimals than fit{cure}",
            "below the running total before it": ", on the same day; split the file where the total starts anew",
        }
        target = None if self._rounds is None else self._maker.target(number)
        if target is not None and kind in (FAULT_RANGE, FAULT_PRECISION):
            mark, group = (sign.decode() for sign in self._match.profile.marks)
            value = Decimal(text.strip().replace(group, "").replace(mark, ".") if mark else text.strip())
            if kind == FAULT_RANGE and target.field == "price":
                more[word] = f": {coarser_price(value, target.power - PRICE_POWER)}"
            elif kind == FAULT_RANGE and value < 0:
                more[word] = "; give signed = true if a size below 0 is a sell"
            elif target.field == "size":
                first = "give a larger size_unit: " if kind == FAULT_RANGE else finer_unit(value)
        if word == "not of its form" and not timed:
            more[word] = self._form_of(text)
        problem = f"{first}column {self._maker.columns[number]}: {word}{timed or more.get(word, '')}"
        return word, problem, text

    def _form_of(self, text: str) -> str:
        """Advice for a number that the profile does not read: the key to set."""
        if text.strip().lower() in _NO_VALUES:
            return f'; give undefined = "{text.strip()}" if it stands for no value'
        if self._match.profile.marks[0] == b"," and "." in text:
            return '; give thousands = "." if its points stand between groups of digits'
        if "," in text and any(letter.isdigit() for letter in text):
            return '; give decimal = "," if a comma stands before its fraction, or thousands = "," between groups'
        return ""

    def _count(self, block: Block, made: Made, ticks: TickBatch, last_ns: int, bytes_in: int) -> None:
        counts = self.counts
        counts["records"] += block.lines - len(block.empty)
        counts["ticks"] += len(ticks)
        counts["empty_lines"] += len(block.empty)
        counts["not_selected"] += block.rows - (len(made.ticks) if made.count is None else made.count)
        counts["rows_rounded"] += made.inexact
        counts["sequences_left_out"] += made.left_out
        counts["unended_lines"] += self._doubts_end and block.is_cut and _has_last_line(block, made)
        counts["bytes_in"] = bytes_in
        counts["bytes_out"] += block.bytes
        if len(ticks):
            times = made.times if ticks is made.ticks else ticks["ts_recv"]
            counts["time_reversals"] += int(times[0] < last_ns) + int(np.count_nonzero(times[1:] < times[:-1]))
            if self._match.profile.ids_rise:
                counts["repeated_ids"] += self._repeated(ticks)

    def _repeated(self, ticks: TickBatch) -> int:
        """Number of ticks whose ``ref_id`` is not above all earlier ones of their symbol."""
        order = np.argsort(ticks["instrument_id"], kind="stable")
        keys, ids = ticks["instrument_id"][order], ticks["ref_id"][order].astype(np.int64)
        starts = np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1))
        repeated = 0
        for key, own in zip(keys[starts].tolist(), np.split(ids, starts[1:]), strict=True):
            highest = np.maximum.accumulate(np.concatenate(([self._highest_id.get(key, -1)], own)))
            repeated += int(np.count_nonzero(own <= highest[:-1]))
            self._highest_id[key] = int(highest[-1])
        return repeated


def _has_last_line(block: Block, made: Made) -> bool:
    """True if the last line of a block became a tick, and nothing shows where its last value ends."""
    if not len(made.faults) or made.faults[-1] or block.ends_value:
        return False
    row = block.rows - 1 if made.rows is None else int(made.rows[-1])
    return (row if block.at is None else int(block.at[row])) == block.lines - 1
