"""What a run gives back: rows, and the records that handlers emit, in order, in memory and in files.

The marks of records are here for users: ``number`` is AT_TIMER or AT_END, ``sequence`` NO_SEQUENCE, ``feed`` NO_FEED
where a record came of no tick, or of one that has none.
"""

from __future__ import annotations

from strand.output.records import AT_END, AT_TIMER, NO_FEED, NO_SEQUENCE

__all__ = ["AT_END", "AT_TIMER", "NO_FEED", "NO_SEQUENCE"]
