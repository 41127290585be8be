"""JSON lines as ticks: one message a line, plain or behind the time of its receipt.

What the messages mean is said by a profile (strand.feeds.formats.json.profile), the same as for a live WebSocket. A
line is a JSON value, or a whole number of ns since the UNIX epoch, a space and a JSON value. Messages are parsed one by
one in Python: ten to forty thousand a second.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

from strand.errors import ConfigurationError, FormatError
from strand.feeds.base import FeedInfo
from strand.feeds.formats.json.file import JsonFileFeed
from strand.feeds.formats.json.profile import JsonProfile, read_profile
from strand.feeds.formats.json.ticks import JsonTicks
from strand.feeds.formats.websocket.lines import Line
from strand.feeds.io.bytestream import InflateLimits
from strand.feeds.io.streams import STANDARD_INPUT, open_stream
from strand.feeds.mapping.options import MEND, check_options
from strand.validate import whole

__all__ = ["JsonLinesFeed"]

_LONGEST_LINE: Final = 1 << 20
_RECEIVED: Final = re.compile(rb"([0-9]{1,19}) +")
_LATEST_NS: Final = (1 << 63) - 1


class JsonLinesFeed(JsonFileFeed):
    """Reads a file of JSON lines as batches of ticks, in the order of its lines.

    ``ts_recv`` is the time that stands before the message in its line, or the time of its event if there is none.
    ``sequence`` is the record's place if the profile has no field for it.

    Args:
        path: The file.
        profile: A ``JsonProfile``, a dict, or the path of a TOML file; it has to be given.
        size_unit: What 1 in a tick's ``size`` is worth, in place of the profile's ``size_unit``; None: the profile's.
        inexact: ``"raise"`` or ``"round"``, in place of the profile's ``inexact``; None: the profile's.
        max_symbols: The greatest number of symbols.
        on_bad_record: What to do with a line that is no JSON, or a message that the profile cannot read: ``"raise"``
            FormatError, or ``"skip"`` it. Messages that no rule of the profile is for are skipped and counted either
            way.
        batch_ticks: A batch ends with the message that makes it so many ticks or more.
        limits: How far a compressed file may expand; None: ``InflateLimits()``.

    Raises:
        ConfigurationError: If an option or the profile cannot work.
        FormatError: If a line cannot be read, after every tick before it; it names byte and line.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        profile: JsonProfile | Mapping[str, Any] | str | Path | None = None,
        size_unit: str | Decimal | None = None,
        inexact: Literal["raise", "round"] | None = None,
        max_symbols: int = 65_536,
        on_bad_record: Literal["raise", "skip"] = "raise",
        batch_ticks: int = 4_096,
        limits: InflateLimits | None = None,
    ) -> None:
        check_options(inexact=inexact, on_bad_record=on_bad_record)
        if profile is None:
            raise ConfigurationError("profile: give a profile that says which messages to read (docs/feeds/json.md)")
        source = profile.source if isinstance(profile, JsonProfile) else profile
        self._profile = read_profile(source, size_unit=size_unit, inexact=inexact)
        self._on_bad_record = on_bad_record
        named: str | Path = STANDARD_INPUT if str(path) == STANDARD_INPUT else Path(path)
        with open_stream(named, limits=limits) as stream:
            self._compression = stream.compression
        super().__init__(
            named,
            first=0,
            longest=_LONGEST_LINE,
            open_end=True,
            max_symbols=whole("max_symbols", max_symbols, 1),
            batch_ticks=whole("batch_ticks", batch_ticks, 1),
            limits=limits,
        )

    def _none_yet(self) -> JsonTicks:
        return JsonTicks(
            self._profile,
            str(self._path),
            on_bad_record=self._on_bad_record,
            skipped=self.skipped,
            symbols=(),
            max_symbols=self._max_symbols,
        )

    @property
    def info(self) -> FeedInfo:
        return self._profile.info("jsonl", str(self._path), {"compression": self._compression})

    def statistics(self) -> dict[str, int]:
        """``messages``, ``ticks``, ``other_messages``, ``rows_rounded``; of symbols whose profile says that they have
        no gaps ``gap``, ``gap_messages`` and ``not_rising``."""
        counts = self._ticks.statistics()
        return {name: n for name, n in counts.items() if name not in ("connected", "disconnected")}

    def _take(self, line: Line | None) -> bool:
        if line is None:
            return False
        text = None if line.text is None else line.text.strip().removeprefix(b"\xef\xbb\xbf")
        if text == b"":
            return True
        found = None if text is None else _RECEIVED.match(text)
        received = None if found is None else int(found[1])
        message = b"" if text is None else text[found.end() if found is not None else 0 :]
        why = None
        if text is None:
            why = f"is longer than {_LONGEST_LINE:,} bytes"
        elif received is not None and received > _LATEST_NS:
            why = "does not begin with a time in ns"
        elif not message.startswith((b"{", b"[")):
            why = "does not hold a JSON object or list; it may be cut off"
        if why is None:
            self._ticks.take(message, received, offset=line.offset, line=line.number)
        elif self._on_bad_record == "raise":
            raise FormatError(f"the line {why}: {MEND}", path=self._path, offset=line.offset, line=line.number)
        else:
            self.skipped.add("damaged line", offset=line.offset, line=line.number, text=why)
        return True
