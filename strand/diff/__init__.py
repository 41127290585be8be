"""Comparison of two runs: finds the first difference of two fingerprint files, or of two files of an output."""

from __future__ import annotations

from strand.diff.records import RecordDifference, diff_records
from strand.diff.rerun import Exact, Narrowed, RecordParting, narrow
from strand.diff.runs import OutputParting, Parting, SymbolParting, diff_runs

__all__ = [
    "Exact",
    "Narrowed",
    "OutputParting",
    "Parting",
    "RecordDifference",
    "RecordParting",
    "SymbolParting",
    "diff_records",
    "diff_runs",
    "narrow",
]
