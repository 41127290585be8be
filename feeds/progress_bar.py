"""The bar that shows how far something is, on standard error of a terminal or in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from strand.errors import FeedError
from strand.feeds.base import BaseFeed, Feed, FeedInfo
from strand.feeds.io.streams import find_member, split_member
from strand.zones import UTC_CLOCK, FeedClock, clock_of


class InputShare:
    """A call with a number of ticks that are done returns their share of the feed, from 0 to 1.

    By ticks where the feed knows how many it has, else by bytes of its files; None where it tells neither, as a pipe's.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._ticks = feed.count() if isinstance(feed, BaseFeed) else None
        self._bytes = None if self._ticks is not None else _bytes_of(feed.info)

    def __call__(self, ticks: int, given: int | None = None) -> float | None:
        """Return the share of the feed that ``ticks`` are; ``given``: the ticks that came of the bytes read so far, as
        many where nothing is said."""
        if self._ticks is not None:
            return min(ticks / self._ticks, 1.0) if self._ticks else None
        read = self._feed.statistics().get("bytes_in") if self._bytes else None
        if read is None or not self._bytes:
            return None
        done = ticks / given if given else 1.0
        return min(read / self._bytes * done, 1.0)


def _bytes_of(info: FeedInfo) -> int | None:
    """The bytes of all files of a feed; None where one's are not known."""
    if "feeds" in info.details:
        paths = [str(feed["path"]) for feed in info.details["feeds"]]
    else:
        paths = [str(path) for path in info.details.get("files", [info.path])]
    sizes = [_file_bytes(Path(path)) for path in paths]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _file_bytes(path: Path) -> int | None:
    try:
        if path.is_file():
            return path.stat().st_size
        archive, member = split_member(path)
        return None if member is None else find_member(archive, member).compress_size
    except (OSError, FeedError):
        return None


#: As often as the bar is drawn, and not for each batch.
_SHOW_EVERY_S: Final = 0.1
_BAR_LETTERS: Final = 14
#: A rate of less time than this says nothing.
_LEAST_S: Final = 0.2


def is_watched() -> bool:
    """True if somebody sees a bar: standard error is a terminal, or this is a notebook."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class ProgressBar:
    """Ticks so far, their rate, the feed's time, and where the end is known the share done and the time left.

    ``what``: a word for what goes on. ``total``: how many are to come; None: the end of the files of the feed that
    ``opened`` tells of, if their size is known. ``steps``: the name of what is counted where it is no tick, but one of
    a few things that take long, such as ``"files"``. ``stays``: whether the last state stays to be seen. ``seen``:
    False makes one that shows nothing. ``check``: called with the feed before anything is read of it.

    Its figures are what a run counts anyway: a call with the number of ticks costs a look at the clock, and ten times
    per second a drawing.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        steps: str = "",
        stays: bool = True,
        seen: bool = True,
        check: Callable[[Feed], None] | None = None,
    ) -> None:
        self._what = what
        self._total = total
        self._steps = steps
        self._check = check
        self._input: InputShare | None = None
        self._feed_ns: Callable[[], int | None] = lambda: None
        self._clock = UTC_CLOCK
        self._given: Callable[[], int] | None = None
        self._bar: Any = None
        if seen:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(_BAR_LETTERS), TextColumn("{task.fields[said]}"))
            clock = (TimeElapsedColumn(),) if steps else ()  # it goes on between the calls, which are seldom
            self._bar = Progress(*columns, *clock, console=Console(stderr=True), transient=not stays)
            self._task = self._bar.add_task(what, total=None, said="")
        self._begun_s = self._shown_s = time.monotonic()
        self._done = self._begun_done = 0
        self._at_ns: int | None = None

    def opened(self, feed: Feed) -> None:
        """Notes the feed that is read next. Raises the errors of its check."""
        if self._check is not None:
            self._check(feed)
        self._clock = clock_of(feed.info.zone, undated=feed.info.undated)
        if self._bar is not None and self._total is None:
            self._input = InputShare(feed)

    def follow(self, feed_ns: Callable[[], int | None]) -> None:
        """``feed_ns`` gives the time of the latest tick so far, in ns since the epoch, None before the first. It is
        called in the thread that calls this object."""
        self._feed_ns = feed_ns

    def given(self, ticks: Callable[[], int]) -> None:
        """``ticks`` gives the number of ticks that the feed has given so far, of which some are not done yet."""
        self._given = ticks

    def __call__(self, done: int, total: int | None = None, what: str | None = None) -> None:
        """Notes what is done. ``total`` and ``what``, where given, take the place of those before."""
        if self._bar is None:
            return
        self._total = self._total if total is None else total
        self._what = self._what if what is None else what
        now = time.monotonic()
        if not self._done:  # what came before, set-up and the opening of files, says nothing of the rate
            self._begun_s, self._begun_done = now, done
        self._done = done
        if self._steps or now - self._shown_s >= _SHOW_EVERY_S:
            self._shown_s = now
            self._show()

    def _share(self) -> float | None:
        if self._total is not None:
            return min(self._done / self._total, 1.0) if self._total else None
        return None if self._input is None else self._input(self._done, None if self._given is None else self._given())

    def _show(self) -> None:
        share = self._share()
        self._at_ns = self._feed_ns()
        elapsed_s = time.monotonic() - self._begun_s
        rate = (self._done - self._begun_done) / elapsed_s if elapsed_s >= _LEAST_S else None
        if self._steps:
            left = elapsed_s * (1 - share) / share if share else None
            said = f"{self._done:,}/{self._total or 0:,} {self._steps}{'' if left is None else f' {_clock(left)} left'}"
        else:
            said = bar_text(self._done, rate, elapsed_s, share, self._at_ns, clock=self._clock)
        known: dict[str, Any] = {} if share is None else {"completed": share, "total": 1.0}
        self._bar.update(self._task, description=self._what, said=said, **known)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is None:
            return
        self._feed_ns, at = (lambda: at), self._at_ns  # what it was asked of may be gone
        self._show()
        self._bar.stop()


def bar_text(
    done: int,
    rate: float | None,
    elapsed_s: float,
    share: float | None,
    feed_ns: int | None,
    *,
    clock: FeedClock = UTC_CLOCK,
) -> str:
    """``12,345,678  25.1 M/s  14:31:07 UTC  43%  0:00:12 left``; without a share the time so far stands at the end. The
    feed's time is on the clock that tables show, with the short name of its zone there and then."""
    parts = [f"{done:,}"]
    if rate is not None:
        parts.append(f"{rate / 1e6:.1f} M/s" if rate >= 1e5 else f"{rate:,.0f}/s")
    if feed_ns is not None:
        parts.append(f"{datetime.fromtimestamp(feed_ns // 10**9, clock.zone):%H:%M:%S %Z}")
    if share is None:
        return "  ".join((*parts, _clock(elapsed_s)))
    parts.append(f"{share:.0%}")
    if share > 0 and rate is not None:
        parts.append(f"{_clock(elapsed_s * (1 - share) / share)} left")
    return "  ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
