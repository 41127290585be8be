"""The names of :mod:`strand.output` that users have: outputs, and the marks of their records."""

from __future__ import annotations

from strand.output.output import Output
from strand.output.outputs import Outputs
from strand.output.records import AT_END, AT_TIMER, NO_FEED, NO_SEQUENCE, merged_dtype

__all__ = ["AT_END", "AT_TIMER", "NO_FEED", "NO_SEQUENCE", "Output", "Outputs", "merged_dtype"]
