"""Public names that are elsewhere now, and the error for one that is asked for at its old place.

They are answered as attributes (``strand.feeds.itch``). An import by the old path (``import strand.feeds.itch``,
``from strand.feeds import itch``) is Python's own ImportError: CHANGELOG.md has the table.
"""

from __future__ import annotations

from typing import Final, NoReturn

__all__ = ["MOVED", "refuse_missing"]

#: By the old place: the new one, both within ``strand``.
MOVED: Final = {
    "cli": "command.cli",
    "outputs": "output",
    "pacing": "replaying.pacing",
    "serving": "command.serving",
    "sessions": "handlers.sessions",
    "feeds.closeness": "feeds.synthetic.calibration_check",
    "feeds.convert": "feeds.write.conversion",
    "feeds.csv": "feeds.formats.csv.reader",
    "feeds.dbn": "feeds.formats.dbn.reader",
    "feeds.itch": "feeds.formats.itch.reader",
    "feeds.lean": "feeds.formats.lean.reader",
    "feeds.live.MoldFeed": "feeds.live.mold.MoldFeed",
    "feeds.merge.merge_feeds": "feeds.merge.feeds.merge_feeds",
    "feeds.npy": "feeds.formats.npy.reader",
    "feeds.parquet": "feeds.formats.parquet.reader",
    "feeds.pcap": "feeds.formats.pcap",
    "feeds.pitch": "feeds.formats.pitch",
    "feeds.recording": "feeds.formats.recording",
    "feeds.streams": "feeds.io.streams",
    "feeds.synthetic.SyntheticFeed": "feeds.synthetic.market.SyntheticFeed",
    "feeds.websocket": "feeds.live.websocket",
    "ticks.MOST_SEQUENCE": "ticks.MAX_SEQUENCE",
}


def refuse_missing(module: str, name: str) -> NoReturn:
    """The ``__getattr__`` of a module. Raises AttributeError, with the new place of what has moved."""
    now = MOVED.get(f"{module}.{name}".removeprefix("strand."))
    if now is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    raise AttributeError(f"{module}.{name} is strand.{now} now", name=name)
