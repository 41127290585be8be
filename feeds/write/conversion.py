"""Conversion of any feed to a file: Parquet, Arrow, numpy, ITCH 5.0 or DBN, whole or not at all."""

# Not with annotations as text: the declarations of options stand in types.

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Unpack

import numpy as np
import numpy.typing as npt

from strand.errors import ConfigurationError, FeedError, called, url_of
from strand.feeds.base import Feed, Skipped, skipped_of
from strand.feeds.io.atomic_write import atomic_write
from strand.feeds.io.files import Frames, Paths, as_paths, check_folder
from strand.feeds.io.stores import StoredObject, is_url
from strand.feeds.merge.selected import empty_feed, unknown_symbol
from strand.feeds.opening import ReadOptions, options_with_date, read_symbols
from strand.feeds.opening import open as open_feed
from strand.feeds.write.destinations import check_outputs
from strand.feeds.write.targets import ENDINGS, NAMES, TARGETS, Misfits, target_for
from strand.fixed import dataclass
from strand.options import Choice, named_options
from strand.tables.columns import Prices
from strand.tables.tabular import Tabular
from strand.validate import callable_of

_PACKED: Final = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Converted(Tabular):
    """Result of ``convert``: the file that it wrote.

    ``to_arrow`` and the like read the file as a feed, and give the tables of one: see ``strand.feeds.BaseFeed``.

    Attributes:
        path: The file.
        format: The format of the file.
        ticks: The number of ticks.
        symbols: The number of symbols that have ticks.
        bytes: The size of the file on disk, bytes.
        skipped: What of the source was skipped.
        undated: Whether its times count from 1970-01-01 because nothing told their day.
        left_out: Number of ticks that ``on_unwritable="skip"`` left out, by the field that the format cannot hold.
    """

    path: str
    format: str
    ticks: int
    symbols: int
    bytes: int
    skipped: Skipped
    undated: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)

    def to_arrow(self, *, prices: Prices = "float") -> Any:
        """All ticks of the file: see ``Tabular``. Raises FeedError where it cannot be read, or is empty."""
        with open_feed(self.path) as feed:
            return feed.to_arrow(prices=prices)

    def to_numpy(self) -> npt.NDArray[np.void]:
        """All ticks of the file: a ``strand.Ticks`` array of shape (n,), exact integers. Raises FeedError."""
        with open_feed(self.path) as feed:
            return feed.to_numpy()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Stream of Arrow's C interface, with one batch of 65,536 ticks at a time in memory."""
        return open_feed(self.path).__arrow_c_stream__(requested_schema)


def target_of(path: str | os.PathLike[str], to: str | None = None) -> str:
    """Format to write a file in: ``to``, else the one of the file's name. Raises ConfigurationError."""
    named = Path(path)
    check_folder("path", named)
    if named.suffix.lower() in _PACKED:
        packing, named = named.suffix.lower(), named.with_suffix("")
    else:
        packing = ""
    known = to if to is not None else ENDINGS.get(named.suffix.lower())
    if known not in TARGETS:
        what = f"{to!r}" if to is not None else f"the ending of {called(path)}"
        raise ConfigurationError("to", f"{what} is not one of {', '.join(TARGETS)}: say which one by to= (--to)")
    if packing and known in ("parquet", "arrow", "npy", "npz"):
        raise ConfigurationError(
            "path",
            f"{known} cannot be compressed as {packing}, because its readers seek in the file: leave {packing} out",
        )
    return known


class ConvertOptions(ReadOptions, total=False):
    """Options of ``convert``."""

    to: Annotated[str | None, None, Choice(TARGETS), "The format to write. None: by the ending of the file's name."]
    on_unwritable: Annotated[
        Literal["raise", "skip"],
        "raise",
        "At a tick that the format cannot hold: end with an error, or leave the tick out and count it.\n"
        "``left_out`` has the counts. State that such ticks would have changed, as a book, differs in the new file.",
    ]
    progress: Annotated[
        Callable[[int], None] | None,
        None,
        "Called with the ticks read so far.\nIts method ``opened``, if it has one, is called with the feed before.",
    ]


@named_options("convert()", declares=ConvertOptions)
def convert(
    source: Paths | Frames | Feed,
    path: str | os.PathLike[str],
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Writes the ticks of a file, of several merged in time, or of a feed, as another format.

    The file gets its name once it is whole. A file that had the name stays until then, and if anything fails.

    Args:
        source: Paths or a table in memory, as ``strand.feeds.open`` takes them, or a feed.
        path: The file to write. Its name ends in .parquet, .arrow, .feather, .npy, .npz, .itch, .itch50 or .dbn, the
            last three also with .gz or .zst behind it.

    Returns:
        What was written, with the numbers of ticks and symbols, and the file's size in bytes.

    Raises:
        ConfigurationError: If ``path`` is a file of the source (before anything is read), or if the format cannot hold
            a tick, or any tick. It names field and tick (docs/feeds/convert.md says what each format can hold).
        UnknownSymbolError: If no symbol of the whole source has a name or fits a glob.
        EmptyFeedError: If the source has no tick, unless ``allow_empty`` is true.
        FeedError: If the source cannot be read on, or the file cannot be written.
    """
    kind, symbols, progress = target_of(path, options["to"]), options["symbols"] or (), options["progress"]
    names = read_symbols(symbols)
    if progress is not None:
        callable_of("progress", progress)
    bounds = options["start"], options["end"]
    given: Paths | Feed = as_paths(source)
    misfits = Misfits(NAMES.get(kind, kind), options["on_unwritable"])
    reading = options_with_date(options["feed_options"], options["date"])
    check_outputs([("out", path)], given, symbols=symbols, options=reading)
    if isinstance(given, str | os.PathLike | Sequence):
        feed: Feed = open_feed(given, symbols=symbols, start=bounds[0], end=bounds[1], **reading)
    elif symbols or bounds != (None, None) or reading:
        raise ConfigurationError(
            "symbols, start, end, date, feed_options: a feed is converted as it is; open it with them"
        )
    else:
        feed = given
    try:
        if (opened := getattr(progress, "opened", None)) is not None:
            opened(feed)

        def check_end(read: int) -> None:
            if (unknown := unknown_symbol(feed, names)) is not None:
                raise unknown
            if read == 0 and not options["allow_empty"]:
                raise empty_feed(feed, selected=bool(symbols) or bounds != (None, None))

        return _write(feed, Path(path), kind, misfits, limit=options["limit"], progress=progress, check_end=check_end)
    finally:
        feed.close()


def _write(
    feed: Feed,
    path: Path,
    kind: str,
    misfits: Misfits,
    *,
    limit: int | None,
    progress: Callable[[int], None] | None,
    check_end: Callable[[int], None],
) -> Converted:
    """Writes the file. ``check_end``: called with the number of ticks that were read, where that are all."""
    read = written = 0
    used = np.zeros(feed.max_symbols, np.bool_)
    with atomic_write(path) as file:
        try:
            with contextlib.closing(target_for(kind, file, path, feed.info, misfits)) as target:
                for batch in feed.batches():
                    part = batch if limit is None else batch[: limit - read]
                    kept = target.write(part, feed.symbols)
                    used[kept["instrument_id"]] = True
                    read += len(part)
                    written += len(kept)
                    if progress is not None:
                        progress(read)
                    if read == limit:
                        break
                else:
                    check_end(read)
                if read and not written:
                    reasons = ", ".join(misfits.left_out)
                    raise ConfigurationError(
                        "on_unwritable", f"{kind} can hold none of {read:,} ticks, by their {reasons}"
                    )
                target.finish(feed)
        except OSError as error:
            raise FeedError(f"cannot be written: {error.strerror or error}", path=path) from error
    size = StoredObject(url_of(path)).size if is_url(path) else path.stat().st_size
    return Converted(
        called(path),
        kind,
        written,
        int(np.count_nonzero(used)),
        size,
        skipped_of(feed),
        undated=feed.info.undated,
        left_out=dict(misfits.left_out),
    )
