"""Where two runs part: by their fingerprint files, or by two files of an output."""

from __future__ import annotations

from strand.diff.narrow import Exact, Narrowed, narrow
from strand.diff.records import RecordDifference, diff_records
from strand.diff.runs import Parting, SymbolParting, diff_runs

__all__ = [
    "Exact",
    "Narrowed",
    "Parting",
    "RecordDifference",
    "SymbolParting",
    "diff_records",
    "diff_runs",
    "narrow",
]
