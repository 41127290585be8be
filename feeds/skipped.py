"""Records that a reader skipped under ``on_bad_record="skip"``: all are counted, some are kept to look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from strand.brief import brief, several

__all__ = ["SAMPLES", "Skipped", "SkippedRecord"]

#: Samples kept of each reason.
SAMPLES: Final = 8


class SkippedRecord(NamedTuple):
    """A record that was passed over: why, and where (byte offset in the decompressed stream, or line from 1)."""

    reason: str
    offset: int | None = None
    line: int | None = None
    text: str = ""


@dataclass(slots=True, repr=False)
class Skipped:
    """Counts by reason, and the first records of each reason."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: list[SkippedRecord] = field(default_factory=list)

    def add(
        self, reason: str, n: int = 1, *, offset: int | None = None, line: int | None = None, text: str = ""
    ) -> None:
        """Counts ``n`` records under a short reason (``"unknown type"``), with the first one's place."""
        if sum(sample.reason == reason for sample in self.samples) < SAMPLES:
            self.samples.append(SkippedRecord(reason, offset, line, text[:80]))
        self.counts[reason] += n

    def __repr__(self) -> str:
        return brief(self, several(self.total, "record"), *(f"{n:,} {reason}" for reason, n in self.counts.items()))

    def clear(self) -> None:
        """Clears all counts and samples, for a feed that is read again."""
        self.counts.clear()
        self.samples.clear()

    @property
    def total(self) -> int:
        return sum(self.counts.values())
