"""Common part of feeds with a decoder in C: bytes in, batches of ticks out, every tick before a fault first."""

from __future__ import annotations

import datetime as dt
import os
import stat
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from strand.binding.decoders import NAME_BYTES, Decoder, Keeps
from strand.binding.feeder import Feeder
from strand.errors import ConfigurationError, FeedError, UnknownFormatError
from strand.feeds.base import BaseFeed, FeedInfo, Flags, Selection, TickBatch, is_glob, names_like
from strand.feeds.formats.options import DecodedOptions
from strand.feeds.io.prefetch import Chunks, Prefetch, read_chunks
from strand.feeds.io.sources import RawStream
from strand.feeds.io.streams import InflateLimits, InputStream, names_of, open_stream
from strand.feeds.times import NEW_YORK, as_date, date_in_names, midnight_ns
from strand.ticks import aligned_ticks
from strand.validate import MAXIMUM, is_whole

#: Ticks of the largest batch, which has to lie in memory.
_LARGEST_BATCH: Final = 1 << 31


def symbol_filter(select: Selection) -> Keeps:
    """A function that says of each name what ``select.keeps`` says."""
    if not select.symbols:
        return lambda names: np.ones(len(names), np.bool_)
    if not any(map(is_glob, select.symbols)):
        # Names of up to eight letters compare as one number. Venues have no longer names, and none beyond ASCII.
        able = (
            name
            for name in set(select.symbols)
            if len(name) <= NAME_BYTES and name.isascii() and not name.endswith(" ")
        )
        wanted = np.array([name.ljust(NAME_BYTES).encode() for name in able], f"S{NAME_BYTES}").view(np.uint64)
        return lambda names: np.isin(names.view(np.uint64), wanted)
    wants = names_like(tuple(select.symbols))
    return lambda names: np.fromiter(
        map(wants, map(str.rstrip, names.astype("U").tolist())), np.bool_, count=len(names)
    )


#: Of most formats, ticks in a batch must be a multiple of this.
BATCH_STEP: Final = 4096
#: Bytes per read: of inflated data, and of a plain file. Plain reads are larger, so that they return to Python less
#: often.
_CHUNK: Final = 1 << 20
_RAW_CHUNK: Final = 1 << 22


class DecodedFeed(BaseFeed):
    """A file that a decoder reads in pieces. Each iteration has a decoder of its own.

    ``_decoder``: that of the latest iteration; before the first, one that has read nothing. ``_options``: the decoder's
    options that come from the selection and ``on_bad_record``; the format adds its own.
    """

    #: Divisor of ``batch_ticks``.
    batch_step: ClassVar = BATCH_STEP
    _decoder: Decoder
    _info: FeedInfo

    def __init__(self, path: str | os.PathLike[str], options: DecodedOptions, *, headroom: int) -> None:
        super().__init__()
        batch_ticks, select = options["batch_ticks"], options["select"]
        if not is_whole(batch_ticks) or not 0 < batch_ticks <= _LARGEST_BATCH or batch_ticks % self.batch_step:
            raise ConfigurationError(
                "batch_ticks",
                f"{batch_ticks!r} is not a positive multiple of {self.batch_step} up to {_LARGEST_BATCH:,}",
            )
        self._path = Path(path)
        self._options: dict[str, Any] = {"skip": options["on_bad_record"] == "skip"}
        if select:
            wanted = symbol_filter(select)
            self._options |= {"keeps": wanted, "start_ns": select.start_ns, "end_ns": select.end_ns}
        self._batch_ticks = batch_ticks
        self._limits = InflateLimits.of(options["limits"])
        self._headroom = headroom
        self._chunks: list[Chunks] = []
        self._last: Chunks | None = None
        self._stream: InputStream | None = None

    def _read_head(
        self, size: int, recognise: Callable[[bytes], bool], refusal: str
    ) -> tuple[bytes, list[str], dict[str, Any]]:
        """The first ``size`` bytes, the names of the file and of what is packed in it, and details for ``info``.

        Raises UnknownFormatError with the words ``refusal`` where the bytes are not recognised.
        """
        with open_stream(self._path, limits=self._limits) as stream:
            head = stream.head(size)
            details = details_of(self._path, stream)
            names = names_of(self._path, stream)
        if not recognise(head):
            raise UnknownFormatError(refusal if head else "the file is empty", path=self._path, offset=0)
        return head, names, details

    def _dated(
        self, date: dt.date | str | None, names: list[str], otherwise: Callable[[], dt.date | None] = lambda: None
    ) -> dt.date | None:
        """The trading day: the given one, else the one in a name, else ``otherwise``. Times count from the day's
        midnight in New York, or from 1970 without a day."""
        day = as_date(date) if date is not None else date_in_names(names) or otherwise()
        self._options["midnight_ns"] = midnight_ns(day) if day is not None else 0
        return day

    @property
    def info(self) -> FeedInfo:
        """Facts that are known without reading the file; ``details["inflater"]`` names the library that inflates it."""
        return self._info

    @abstractmethod
    def _begin(self) -> Decoder:
        """The decoder of a new iteration."""

    def batches(self) -> Iterator[TickBatch]:
        """The file from its start, in batches of ``batch_ticks``, the last one shorter; each valid until the next.
        Where a record makes several ticks, a batch may be longer by the rest of its last record's ticks.

        Raises TruncatedFeedError or FormatError with the byte offset in the uncompressed stream, after every tick
        before that byte has been handed out.
        """
        reading = self.reading()
        try:
            yield from reading
        finally:
            reading.close()

    def reading(self, *, in_blocks: bool = False, limit: int | None = None) -> Reading:
        """Begins to read the file from its start. The caller closes the reading. ``in_blocks``: a feeder is to take
        the ticks in blocks. ``limit``: nothing is decoded behind the record of that tick."""
        self._check_open()
        decoder = self._begin()
        self.skipped.clear()
        self._stream = open_stream(self._path, limits=self._limits)
        chunks = self._chunks_of(self._stream, in_blocks=in_blocks)
        self._chunks.append(chunks)
        self._last = chunks
        return Reading(self, decoder, chunks, self._stream, limit)

    def _chunks_of(self, stream: InputStream, *, in_blocks: bool) -> Chunks:  # noqa: ARG002 - for formats with stripes
        """The stream, cut into the pieces that the new decoder gets."""
        size = _RAW_CHUNK if isinstance(stream, RawStream) else _CHUNK
        return read_chunks(stream, chunk_bytes=size, headroom=self._headroom)

    def keep_reading_to(self, cores: Collection[int]) -> None:
        """Makes the reading threads of iterations under way run on these cores only."""
        for chunks in list(self._chunks):
            chunks.keep_to(cores)

    @property
    def is_its_reading(self) -> bool:
        """True if a ``reading`` gives the feed's ticks. It does not where ``batches`` was replaced: the replacement may
        give others."""
        return type(self).batches is DecodedFeed.batches and "batches" not in vars(self)

    @property
    def merges_in_blocks(self) -> bool:
        """True if blocks may read it as a file of a merge: all of it, from a plain file."""
        plain = self.info.details.get("compression") == "none" and bool(self._decoder.open_blocks)
        return plain and self.is_its_reading and "keeps" not in self._options

    def takes_feeder(self, *, in_blocks: bool) -> bool:  # noqa: ARG002 - for formats with stripes
        """Tells whether a feeder may take the ticks of such a ``reading``."""
        return True

    def statistics(self) -> dict[str, int]:
        """Counts of the latest iteration, zeros before the first.

        The decoder's, and ``bytes_in`` (of the file), ``bytes_out`` (uncompressed), and times in ns: ``read_ns``
        (reading and inflating, but not what all threads read in blocks), ``read_blocked_ns`` (the inflating thread
        waited for the decoder) and ``wait_ns`` (the decoder waited for input: near the whole run's time when the run
        is limited by inflating).
        """
        counts = self._decoder.statistics()
        chunks, stream = self._last, self._stream
        counts["bytes_in"] = stream.bytes_in if stream is not None else 0
        counts["bytes_out"] = stream.bytes_out if stream is not None else 0
        counts["read_ns"] = chunks.reading_ns if chunks is not None else 0
        counts["read_blocked_ns"] = chunks.full_ns if chunks is not None else 0
        counts["wait_ns"] = chunks.waiting_ns if chunks is not None else 0
        return counts

    def close(self) -> None:
        """Ends every iteration under way (asking one for more raises FeedError) and its thread. May be repeated."""
        self._closed = True
        for chunks in list(self._chunks):
            chunks.close()

    def _check_open(self) -> None:
        if self._closed:
            raise FeedError("the feed is closed", path=self._path)


class Reading(Iterator[TickBatch]):
    """A file on its way through a decoder. It gives batches, until a feeder takes all further ticks."""

    def __init__(
        self, feed: DecodedFeed, decoder: Decoder, chunks: Chunks, stream: InputStream, limit: int | None
    ) -> None:
        self._feed = feed
        self._stream = stream
        self._decoder = decoder
        self._chunks = chunks
        self._out = aligned_ticks(feed._batch_ticks + decoder.max_per_record - 1)
        self._left = MAXIMUM if limit is None else limit
        self._data = memoryview(b"")
        #: ``_last``: no bytes come after those in hand; ``_over``: nothing more is decoded.
        self._last = self._over = False
        self._fault: FeedError | None = None
        self._is_fed = False
        #: The byte of the file before which it pauses; None: it goes on.
        self._bound: int | None = None

    def __next__(self) -> TickBatch:
        """Returns the next batch, valid until the one after it. Raises the file's fault when all ticks before it have
        been returned, and StopIteration where it pauses, too."""
        self._feed._check_open()
        filled, wanted = 0, min(self._feed._batch_ticks, max(self._left, 1))
        out = self._out[: wanted + self._decoder.max_per_record - 1]
        while not self._over:
            left = MAXIMUM if self._bound is None else self._bound - self._decoder.place
            last = self._last and len(self._data) < left
            made, used, sound = self._decoder.decode(self._data[:left], last=last, out=out[filled:])
            filled += made
            self._note(used, sound)
            if (filled >= wanted or self.is_paused) and not self._over:
                break
            self._read()
        self._left -= filled
        if filled:
            batch: TickBatch = self._out[:filled]
            return batch
        if self.is_paused and not self._over:
            raise StopIteration
        self.close()
        if self._fault is not None:
            raise self._fault
        raise StopIteration

    def feed(self, feeder: Feeder) -> bool:
        """Lets a feeder go on for a while. Returns False when it has taken all ticks, or raises the file's fault then.
        Raises what the feeder raises."""
        if self._over or self._feed._closed:
            if self._is_fed and not self._over:
                feeder.flush()
            self._feed._check_open()
            self.close()
            if self._fault is not None:
                raise self._fault
            return False
        if not self._is_fed:
            self.offer(feeder)
        if feeder.goes_in_blocks:
            self._feed_in_blocks(feeder)
        elif self._is_fed and feeder.is_dry:
            self._read()
        self._is_fed = True
        if not self._over:
            used, sound = feeder.run(self._decoder, self._data, last=self._last)
            self._note(used, sound)
            self._over = self._over or (self._last and feeder.is_dry)
        if self._over:
            feeder.flush()
        return True

    def feed_blocks(self, feeder: Feeder) -> bool:
        """Lets a feeder take ticks in blocks for a while, if it wants them so. Returns False when the next batch is to
        be taken. Raises what the feeder raises."""
        if self._over or self._feed._closed or not feeder.goes_in_blocks:
            return False
        before = feeder.published
        self._feed_in_blocks(feeder)
        self._left -= feeder.published - before
        return True

    # ---- as a part of a merge

    @property
    def file(self) -> tuple[Decoder, int] | None:
        """The decoder, and the descriptor of the plain file that it reads; None where blocks cannot read it."""
        stream = self._stream
        if not isinstance(stream, RawStream) or stream.start or not self._decoder.open_blocks:
            return None
        return self._decoder, stream.fileno()

    @property
    def is_over(self) -> bool:
        """True if nothing more is decoded."""
        return self._over or self._feed._closed

    @property
    def is_paused(self) -> bool:
        """True if it stands at the byte before which it pauses."""
        return self._bound is not None and self._decoder.place >= self._bound

    def pause_at(self, place: int | None) -> None:
        """Pauses before a byte of the file, at which a record begins, and no sooner; None: goes on."""
        self._bound = place

    def read_in_turn(self) -> bool:
        """Gives up a thread that reads ahead, as blocks read the file themselves. Returns False where the path is
        another file by now."""
        feed, old, was = self._feed, self._chunks, self._stream
        if not isinstance(old, Prefetch):
            return True
        assert isinstance(was, RawStream)
        try:
            stream = open_stream(feed._path, limits=feed._limits)
        except FeedError:
            return False
        if not isinstance(stream, RawStream) or stream.identity != was.identity:
            stream.close()
            return False
        self._chunks = Chunks(stream, chunk_bytes=_RAW_CHUNK, headroom=feed._headroom)
        feed._chunks.append(self._chunks)
        old.close()
        feed._chunks.remove(old)
        self._chunks.add_times_of(old)
        self._stream = feed._stream = stream
        feed._last = self._chunks
        with self.in_blocks():
            pass
        return True

    @contextmanager
    def in_blocks(self) -> Iterator[None]:
        """Lets blocks read the file within, and reads on where the decoder stands then. Raises FeedError."""
        with self._chunks.apart() as stream:
            yield
            stream.stand_at(self._decoder.place)
        self._data, self._last = memoryview(b""), False

    def offer(self, feeder: Feeder) -> None:
        """Offers a plain file to be read in blocks."""
        if (file := self.file) is not None:
            feeder.offer(*file)

    def _feed_in_blocks(self, feeder: Feeder) -> None:
        """Lets a feeder go on in blocks, and reads on where the decoder stands then."""
        if not self.read_in_turn():
            feeder.withdraw()
            return
        self.offer(feeder)
        with self.in_blocks():
            feeder.run_blocks()

    def close(self) -> None:
        """Ends the reading, and its thread. May be repeated."""
        self._chunks.close()
        if self._chunks in self._feed._chunks:
            self._feed._chunks.remove(self._chunks)

    def _note(self, used: int, sound: bool) -> None:
        """Takes over how far the decoder came."""
        self._data = self._data[used:]
        if self._decoder.has_samples:
            skipped = self._feed.skipped
            for reason, where in self._decoder.skip_samples():
                skipped.add(reason, 0, **where)
            skipped.counts.update({why: n - skipped.counts[why] for why, n in self._decoder.skips().items()})
        if not sound:
            self._fault, self._over = self._decoder.fault(self._feed._path), True

    def _read(self) -> None:
        """Reads more bytes, behind those that are left, if there are more."""
        if self._over or self._last:
            self._over = True
            return
        try:
            more = self._chunks.next(self._data)
        except FeedError as error:
            self._fault, self._over = error, True
            return
        self._last = more is None
        self._data = self._data if more is None else more


def details_of(path: Path, stream: InputStream) -> dict[str, Any]:
    """Details for ``info`` of a file that is read as a stream."""
    size, compression, inflater = file_bytes(path), stream.compression, stream.inflater
    return {"file_bytes": size, "compression": compression, "inflater": inflater}


def orders_info(
    name: str, path: Path, venue: str | None, day: dt.date | None, details: dict[str, Any], *, flags: Flags
) -> FeedInfo:
    """``info`` of a file of single orders with prices in 1e-4, whose times count from the midnight of ``day``."""
    return FeedInfo(
        format=name,
        path=str(path),
        date=day.isoformat() if day is not None else None,
        venue=venue,
        price_unit=1e-4,
        undated=day is None,
        ticks="orders",
        flags=flags,
        details=details,
        zone=NEW_YORK,
    )


def times_since(day: dt.date | None) -> dict[str, str]:
    """The entry of ``info.details`` about a file that has times of day only: what its times count from."""
    return {"times_since": "UNIX epoch" if day is not None else "midnight in New York, the day being unknown"}


def file_bytes(path: Path) -> int | None:
    """The size of a file; None for a pipe."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
