"""Public names of packages: they are loaded on their first use, and one that has moved is refused with its new place.

They are answered as attributes (``strand.feeds.itch``). An import by the old path (``import strand.feeds.itch``,
``from strand.feeds import itch``) is Python's own ImportError: CHANGELOG.md has the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, NoReturn

__all__ = ["MOVED", "loading", "refuse_missing"]

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


def loading(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package whose public names are loaded on their first use, so that a run imports what it
    uses alone. ``modules``: the module of each name, within the package."""

    def load(name: str) -> object:
        if name not in modules:
            refuse_missing(package, name)
        found: object = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load
