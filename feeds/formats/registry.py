"""The formats that files are recognised as: one line each.

A reader's module has ``recognise(head: bytes) -> bool``, which judges the first ``HEAD_BYTES`` decompressed bytes, or a
function of its own here where the bytes alone do not tell. Modules are imported only when a file calls for them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from numpy.lib import format as npy_format

from strand.errors import TruncatedFeedError, UnknownFormatError
from strand.feeds.formats.guess import guess
from strand.feeds.io.files import is_hour, times_path
from strand.feeds.io.sources import HEAD_BYTES, STANDARD_INPUT, InflateLimits, is_pipe, open_source
from strand.feeds.io.stores import object_at
from strand.feeds.io.streams import ZIP_MAGICS, data_members, open_archive, open_stream, split_member
from strand.validate import one_of


class Input(NamedTuple):
    """Facts about a file before its reader is chosen.

    ``head``: its first decompressed bytes; empty where it is an archive of several files. ``compression`` as
    ``InputStream`` has it. ``members``: the names in an archive, none where it is no archive.
    """

    path: str | Path
    head: bytes
    compression: str
    members: tuple[str, ...] = ()


class Format(NamedTuple):
    """A format: its name as an option, what to call it, the reader's module in this package, and its class.

    ``endings`` decide where the content looks like more than one format. ``begins``: what all files of it begin with,
    so that the module is imported for such files only. ``takes_list``: the reader merges several files by itself.
    ``seeks``: what files of it begin with that are not read from a pipe, but from a copy. ``in_parts``: of an object of
    a store it reads parts, so that there is no copy.

    For the documentation: ``page`` in docs/feeds, the kinds and actions of ticks that the reader ``makes``, and where
    the format is ``described``.
    """

    name: str
    words: str
    module: str
    reader: str
    endings: tuple[str, ...] = ()
    recognises: Callable[[Input], bool] | None = None
    takes_list: bool = False
    begins: tuple[bytes, ...] = (b"",)
    seeks: tuple[bytes, ...] = ()
    in_parts: bool = False
    page: str = ""
    makes: str = ""
    described: str = ""

    def matches(self, found: Input) -> bool:
        """Tells whether the reader would take the file."""
        if self.recognises is not None:
            return self.recognises(found)
        if not found.head or not found.head.startswith(self.begins):
            return False
        return bool(self.imported().recognise(found.head))

    def feed_class(self) -> Callable[..., Any]:
        """The reader."""
        reader: Callable[..., Any] = getattr(self.imported(), self.reader)
        return reader

    def imported(self) -> Any:
        """The reader's module."""
        return importlib.import_module(f"strand.feeds.formats.{self.module}")


#: What captures begin with.
_CAPTURES: Final = (b"\xa1\xb2", b"\xd4\xc3", b"\x4d\x3c", b"\x0a\x0d\x0d\x0a")


def _is_numpy(found: Input) -> bool:
    if found.compression != "zip" and found.head.startswith(npy_format.MAGIC_PREFIX):
        return True
    return any(name.lower().endswith(".npy") for name in found.members)


def _is_lean(found: Input) -> bool:
    tables = [name for name in found.members if name.lower().endswith(".csv")]
    return bool(tables) and bool(format_named("lean").imported().named_as_lean(Path(found.path), tables))


def _is_recording(found: Input) -> bool:
    # A look at the file beside it costs a system call, so only files that a recorder may have written get one.
    itch = importlib.import_module("strand.feeds.formats.itch")
    if not itch.recognise(found.head) or is_pipe(found.path):
        return False
    return has_times(found.path)


def has_times(path: str | os.PathLike[str]) -> bool:
    """Tells whether a file is the ITCH half of a recording: its receive times lie beside it."""
    try:
        with times_path(path).open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return False
    return bool(importlib.import_module("strand.feeds.formats.recording").recognise(head))


def _is_bi5(found: Input) -> bool:
    if is_hour(found.path) and not found.head:
        return not found.members
    return found.compression == "lzma" and bool(format_named("bi5").imported().recognise(found.head))


def _is_iex(found: Input) -> bool:
    return found.head.startswith(_CAPTURES) and bool(format_named("iex").imported().recognise_iex(found.head))


def _is_messages(found: Input) -> bool:
    return found.head.startswith(b"strand-websocket ")


def _is_document(found: Input) -> bool:
    """JSON says little of what is meant: of other files than those that built-in profiles know, a profile says it."""
    begins = found.head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    return begins and bool(format_named("jsonl").imported().recognise(found.head))


# Formats known by a magic come before those known by the look of their first records.
_FORMATS: Final = (
    Format("npy", "numpy arrays (.npy, .npz)", "npy", "NpyFeed", (".npy", ".npz"), _is_numpy, seeks=(b"",),
           page="npy.md", makes="as the file has them",
           described='numpy.org, "NumPy file format"; github.com/nkaz001/hftbacktest, "Data"'),
    Format("dbn", "Databento DBN", "dbn", "DbnFeed", (".dbn",), begins=(b"DBN",),
           page="dbn.md#what-a-record-becomes",
           makes="order A, C, M, R, F; trade T; quote A, C, M, R, T, F, N; status N; none N",
           described='databento.com/docs, "Databento Binary Encoding"'),
    Format("parquet", "Parquet and Arrow", "parquet.reader", "ParquetFeed", (".parquet", ".arrow", ".feather"),
           begins=(b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"), seeks=(b"PAR1",),
           in_parts=True,
           page="parquet.md", makes="as the columns say",
           described='parquet.apache.org; arrow.apache.org, "Columnar format"; freqtrade.io, "Data downloading"'),
    Format("iex", "IEX TOPS, DEEP and DEEP+ (pcap)", "pcap", "IexFeed", (".pcap", ".pcapng"), _is_iex,
           page="iex.md#what-each-message-becomes", makes="quote M; order A, C, M, R, F; trade T; status N",
           described='IEX, "Transport", "TOPS", "DEEP" and "DEEP+"'),
    Format("pcap", "pcap of MoldUDP64", "pcap", "PcapFeed", (".pcap", ".pcapng"),
           begins=_CAPTURES,
           page="pcap.md", makes="as `itch`",
           described='Nasdaq, "MoldUDP64"; ietf.org, the drafts of pcap and pcapng'),
    Format("websocket", "recordings of WebSocket feeds", "json.reader", "RecordedMessages", (), _is_messages,
           page="live.md", makes="as the profile says",
           described="Strand's own"),
    Format("bi5", "Dukascopy ticks (.bi5)", "bi5", "DukascopyFeed", (".bi5",), _is_bi5, takes_list=True,
           seeks=(b"",),
           page="dukascopy.md", makes="quote N",
           described="the public decoders dukascopy-node, duka and lib-dukascopy"),
    Format("scid", "Sierra Chart intraday data (.scid)", "scid", "ScidFeed", (".scid",), begins=(b"SCID",),
           seeks=(b"",),
           page="sierra-chart.md", makes="quote N; trade T",
           described='sierrachart.com, "Intraday data file format"'),
    Format("lean", "LEAN equity tick archives", "lean", "LeanFeed", (), _is_lean, takes_list=True, seeks=(b"",),
           page="csv.md", makes="trade T; quote N",
           described="github.com/QuantConnect/Lean, the readme of Data/equity"),
    Format("recording", "recordings of live feeds", "recording", "RecordedFeed", (".itch", ".itch50"), _is_recording,
           page="live.md", makes="as `itch`",
           described="Strand's own"),
    Format("itch", "NASDAQ TotalView-ITCH 5.0", "itch", "ItchFeed", (".itch", ".itch50"),
           page="itch.md#what-each-message-becomes", makes="order A, F, C, M, N; trade T; status N, R",
           described='Nasdaq, "TotalView-ITCH 5.0"'),
    Format("pitch", "Cboe PITCH", "pitch", "PitchFeed", (".pitch",),
           page="pitch.md", makes="order A, F, C, N, R; trade T; status N",
           described='Cboe, "US Equities TCP Depth of Book (PITCH)"'),
    Format("jsonl", "JSON lines and documents (by a profile)", "json.reader", "JsonLinesFeed", (), _is_document,
           page="json.md", makes="as the profile says",
           described="the venue's own description, in each profile"),
    Format("csv", "CSV (of other columns: by a profile)", "csv.reader", "CsvFeed", (".csv", ".tsv"),
           page="csv.md", makes="as the profile says",
           described="that which each profile names"),
)  # fmt: skip
_SHOWN_LETTERS: Final = 80
_PACKINGS: Final = (".gz", ".zst", ".bz2", ".xz", ".lzma", ".zip")


def formats() -> tuple[Format, ...]:
    """All formats, in the order in which files are held against them."""
    return _FORMATS


def format_named(name: str) -> Format:
    """The format of that name. Raises ConfigurationError."""
    return formats()[one_of("format", name, [known.name for known in formats()])]


def look_at(path: str | Path, limits: InflateLimits | None = None) -> Input:
    """A file's first bytes, and its compression.

    Raises TruncatedFeedError where it is empty and may not be, or holds not one byte before a fault, and FeedError
    where it cannot be read.
    """
    whole = is_pipe(path) or object_at(path) is not None or Path(path).exists()
    archive, member = (path, None) if whole else split_member(Path(path))
    with open_source(archive) as source:
        magic = source.head(4)
        if not magic and is_hour(archive):
            return Input(path, b"", "none")
        if not magic:
            raise TruncatedFeedError(
                "no data came from it" if str(path) == STANDARD_INPUT else "the file is empty", path=path, offset=0
            )
    names: tuple[str, ...] = ()
    if magic.startswith(ZIP_MAGICS) and member is None and not is_pipe(path):
        with open_archive(Path(path)) as opened:
            names = tuple(info.filename for info in data_members(opened))
        if len(names) != 1:
            return Input(path, b"", "zip", names)
    with open_stream(path, limits=limits) as stream:
        # The name of an hour says what it holds, also where its beginning is damaged.
        is_known = is_hour(archive) and stream.compression == "lzma"
        return Input(path, b"" if is_known else stream.head(HEAD_BYTES), stream.compression, names)


def archived(path: str | Path) -> list[Path]:
    """The files in a zip archive of several that no format reads as one, by name; empty for any other file.

    Raises FeedError for an archive that cannot be read.
    """
    if is_pipe(path) or object_at(path) is not None or Path(path).suffix.lower() != ".zip" or not Path(path).is_file():
        return []
    with open_source(path) as source:
        if not source.head(4).startswith(ZIP_MAGICS):
            return []
    with open_archive(Path(path)) as opened:
        names = tuple(sorted(info.filename for info in data_members(opened)))
    found = Input(path, b"", "zip", names)
    if len(names) < 2 or _is_state(found) or any(known.matches(found) for known in formats()):
        return []
    return [Path(path, name) for name in names]


def _is_state(found: Input) -> bool:
    return {"state.json", "memory"} <= set(found.members)


def recognised(path: str | Path, limits: InflateLimits | None = None) -> Format:
    """The format of a file, by its content; its name decides only between formats that both could be.

    Raises UnknownFormatError where no reader knows the content, and as ``look_at`` does.
    """
    found = look_at(path, limits)
    ending = _ending(found.path)
    # Those of the ending come first, and the first that matches is it: so few modules are imported.
    for known in sorted(formats(), key=lambda known: ending not in known.endings):
        if known.matches(found):
            return known
    if not found.head and len(found.members) != 1 and found.compression == "zip":
        if _is_state(found):
            raise UnknownFormatError(
                "the saved state of a run is not a feed: replay the files of that run with --load, or load= in Python",
                path=path,
            )
        held = ", ".join(found.members[:5]) or "nothing"
        what = f"a zip archive of {held}: name a file in it, as in {path}/NAME"
    else:
        kind = f"a zip archive of {found.members[0]}" if found.members else f"{found.compression} data"
        inside = f"{kind}, which " if found.compression != "none" else ""
        what = f"{inside}starts with {found.head[:8].hex(' ') or 'nothing'}{_as_text(found.head)}"
    if (said := guess(found.head, (Path(path).name, *found.members))) is not None:
        what = f"{said}; it {what if found.compression == 'none' else f'is {what}'}"
        raise UnknownFormatError(f"{what}; docs/feeds/reads.md lists what can be read", path=path)
    words = ", ".join(known.words for known in formats())
    raise UnknownFormatError(f"{what}; what can be read, raw or compressed: {words}", path=path)


def _as_text(head: bytes) -> str:
    """The first line in brackets, where it is one that can be shown: the columns of a CSV file that is not known."""
    line = head.split(b"\n", 1)[0].rstrip(b"\r").decode("utf-8", "replace").removeprefix("\ufeff")
    shown = line if len(line) <= _SHOWN_LETTERS else f"{line[:_SHOWN_LETTERS]}..."
    return f" ({shown})" if shown.isprintable() and "\ufffd" not in shown and shown else ""


def _ending(path: str | Path) -> str:
    named = Path(path)
    while named.suffix.lower() in _PACKINGS:
        named = named.with_suffix("")
    return named.suffix.lower()
