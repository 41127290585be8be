"""The results of a run: rows, and the records that handlers emit, in order, in memory, in files and in users' sinks.

These values are for users. A record that no tick emitted has AT_TIMER or AT_END as its ``number``, NO_SEQUENCE as its
``sequence``, and NO_FEED as its ``feed``. So has a record whose tick has no sequence, or no feed.
"""

from __future__ import annotations

from strand.output.records import AT_END, AT_TIMER, NO_FEED, NO_SEQUENCE

__all__ = ["AT_END", "AT_TIMER", "NO_FEED", "NO_SEQUENCE"]
