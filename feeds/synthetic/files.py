"""A generated day in formats other than ITCH: PITCH text, LOBSTER's pair of CSV files, and numpy arrays of MBO records.

Each tells the day of ``SyntheticFeed.write_itch``: the same orders with the same ids at the same times, as far as the
format can say it (docs/feeds/generator.md). Files are written as they are made, and compressed when their name ends in
``.gz`` or ``.zst``. They appear under their name only when they are whole. ``progress`` is called with the day's events
done and those in all; what it raises stops the writing and leaves no file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from strand.binding import lab as _market
from strand.binding.lab import MAX_LEVELS, MBO, Events, LobsterWriter, MboWriter, PitchWriter
from strand.errors import ConfigurationError
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.synthetic.market import SyntheticFeed, WrittenFile
from strand.feeds.write.destinations import check_outputs
from strand.feeds.write.npy import npy_header
from strand.ticks import TICK, empty
from strand.validate import whole

__all__ = ["MBO", "write_lobster", "write_mbo", "write_pitch", "write_ticks"]

_ROOM: Final = 16_384

Progress = Callable[[int, int], None]


def _states(feed: SyntheticFeed) -> Iterator[Any]:
    """The trading states at the day's start, in batches that are valid until the next."""
    ticks = empty(_ROOM)
    for first in range(0, feed.max_symbols - 1, _ROOM):
        count = min(_ROOM, feed.max_symbols - 1 - first)
        _market.fill_opening_ticks(feed.max_symbols - 1, first, feed.midnight_ns, ticks[:count])
        yield ticks[:count]


def _events(feed: SyntheticFeed, progress: Progress | None = None) -> Iterator[Events]:
    """The day's events in batches that are valid until the next."""
    market = feed.market()
    events = Events(_ROOM, empty(_ROOM))
    done = 0
    while made := market.next_batch(events.ticks, events.types, events.orders):
        events.count = made
        yield events
        done += made
        if progress is not None:
            progress(done, feed.messages)


def write_pitch(feed: SyntheticFeed, path: str | os.PathLike[str], *, progress: Progress | None = None) -> WrittenFile:
    """Writes the day as Cboe PITCH text (csrc/lab/generate/market_pitch.h): a line a message, times in milliseconds.

    Returns lines as ``messages`` and as ``ticks``, and bytes before compression. Raises FeedError when it cannot be
    written.
    """
    writer = PitchWriter(_ROOM, feed.midnight_ns)
    written = 0
    with atomic_write(path) as file:
        for states in _states(feed):
            written += file.write(writer.states(states))
        for events in _events(feed, progress):
            written += file.write(writer.events(events))
    return WrittenFile(os.fspath(path), writer.lines, writer.lines, written)


def write_mbo(feed: SyntheticFeed, path: str | os.PathLike[str], *, progress: Progress | None = None) -> WrittenFile:
    """Writes the day as a numpy ``.npy`` of DBN-like MBO records: shape (records,), dtype ``MBO``
    (csrc/lab/generate/market_mbo.h).

    The header of such a file says how many records follow, so the day is made twice: once to count. Returns the
    records as ``messages`` and as ``ticks``, and bytes before compression. Raises FeedError when it cannot be written,
    ConfigurationError for a name in ``.npz``.
    """
    _check_npy(path)
    records = feed.max_symbols - 1 + sum(MboWriter.count(events.types[: events.count]) for events in _events(feed))
    header = npy_header(MBO, records)
    writer = MboWriter(_ROOM)
    with atomic_write(path) as file:
        written = file.write(header)
        for states in _states(feed):
            written += file.write(writer.clears(states).data.cast("B"))
        for events in _events(feed, progress):
            written += file.write(writer.events(events).data.cast("B"))
    if written != len(header) + records * MBO.itemsize:
        raise AssertionError("the day had other records when it was made again")
    return WrittenFile(os.fspath(path), records, records, written)


def write_ticks(feed: SyntheticFeed, path: str | os.PathLike[str], *, progress: Progress | None = None) -> WrittenFile:
    """Writes the feed's ticks as a numpy ``.npy``: shape (symbols + messages,), dtype ``strand.TICK``.

    Returns the ticks as ``messages`` and as ``ticks``, and bytes before compression. Raises FeedError when it cannot be
    written, ConfigurationError for a name in ``.npz``.
    """
    _check_npy(path)
    count = feed.max_symbols - 1 + feed.messages
    with atomic_write(path) as file:
        written = file.write(npy_header(TICK, count))
        for states in _states(feed):
            written += file.write(states.data.cast("B"))
        for events in _events(feed, progress):
            written += file.write(events.ticks[: events.count].data.cast("B"))
    return WrittenFile(os.fspath(path), count, count, written)


def _check_npy(path: str | os.PathLike[str]) -> None:
    if os.fspath(path).lower().endswith(".npz"):
        raise ConfigurationError(f"{path}: one array is written, and no archive of arrays: end the name in .npy")


def write_lobster(
    feed: SyntheticFeed,
    path: str | os.PathLike[str],
    *,
    symbol: str | None = None,
    levels: int = 10,
    progress: Progress | None = None,
) -> tuple[WrittenFile, WrittenFile]:
    """Writes one symbol of the day as LOBSTER's pair of CSV files (csrc/lab/generate/market_lobster.h).

    A row for each of its orders, trades and halts.

    ``path``: an existing folder, where the files get LOBSTER's names; or the file of messages, with ``message`` in its
    name where the other one's has ``orderbook``. ``symbol``: by default the busiest one. ``levels``: of the book, 1 to
    200. Returns the file of messages and the one of the book. Raises ConfigurationError for a symbol that the day lacks
    or has no messages of, for levels out of range, and for a name without ``message``. Raises FeedError when a file
    cannot be written; it leaves no file then.
    """
    levels = whole("levels", levels, 1, MAX_LEVELS)
    locate = feed.locate_of(symbol)
    messages, book = _pair(Path(path), feed, feed.symbols[locate], levels)
    writer = LobsterWriter(locate, levels, feed.midnight_ns)
    check_outputs([("messages", messages), ("orderbook", book)])
    written = [0, 0]
    with atomic_write(messages) as message_file, atomic_write(book) as book_file:
        for events in _events(feed, progress):
            _write_rows(writer, events, (message_file, book_file), written)
        if writer.rows == 0:
            raise ConfigurationError(
                "symbol",
                f"{feed.symbols[locate]} has no messages on this day of {feed.messages:,}, and its files "
                "would be empty: give another one, or leave it out for the busiest",
            )
    return tuple(  # type: ignore[return-value]
        WrittenFile(str(name), writer.rows, writer.rows, size)
        for name, size in zip((messages, book), written, strict=True)
    )


def _write_rows(writer: LobsterWriter, events: Events, files: tuple[BinaryIO, BinaryIO], written: list[int]) -> None:
    start = 0
    while start < events.count:
        passed, *texts = writer.events(events, start)
        start += passed
        for i, text in enumerate(texts):
            written[i] += files[i].write(text)


def _pair(path: Path, feed: SyntheticFeed, name: str, levels: int) -> tuple[Path, Path]:
    """LOBSTER's names give a day's first and last moment in ms since midnight. Here the last one is the end of the
    closing crosses."""
    if path.is_dir():
        start = f"{name}_{feed.info.date}_34200000_57610000"
        return path / f"{start}_message_{levels}.csv", path / f"{start}_orderbook_{levels}.csv"
    if path.name.count("message") != 1:
        raise ConfigurationError(
            f"{path}: name the file of messages with 'message' in it once, so that the book beside it can have "
            "'orderbook' in its place; or give a folder that exists"
        )
    return path, path.with_name(path.name.replace("message", "orderbook"))
