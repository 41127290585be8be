"""Description of a file that no reader knows, and advice on it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from strand.feeds.io.sources import HEAD_BYTES

OTHER_DATABENTO: Final = (
    "looks like Databento's CSV of a schema without a profile: read its DBN file, or have symbols written into it "
    "(map_symbols) if it is of mbo, trades, mbp, tbbo, bbo or ohlcv"
)

#: Cure of tables of kdb+.
KDB: Final = "write the table as CSV in q (save `:trade.csv) or as Parquet by PyKX, and read that"

_SAY_MESSAGES: Final = (
    "give a profile that says which messages to read (profile=, --profile), as docs/feeds/json.md describes"
)

_HDF5: Final = b"\x89HDF\r\n\x1a\n"
#: Where HDF5 begins: a user's block may stand before it, as in the .mat files of MATLAB 7.3 (HDF Group, "HDF5 File
#: Format Specification", II.A).
_HDF5_PLACES: Final = (0, 512, 1024, 2048)
_HDF5_SAID: Final = "looks like HDF5: write Parquet of it (pandas: read_hdf, or h5py and DataFrame, then to_parquet)"

_MAGICS: Final = (
    (b"\0\5T", "looks like ITCH 4.1 or 4.0, but only ITCH 5.0 can be read: get that day's 5.0 file"),
    (b"8=FIX", "looks like FIX messages, which are not read: write CSV of them and give a profile"),
    (b"\xfe\x20", f"looks like a column of kdb+: {KDB}"),
    (b"\xfd\x20", f"looks like a column of kdb+: {KDB}"),
    (b"\xff\x01", f"looks like an object of kdb+: {KDB}"),
    (b"kxzipped", f"looks like a packed column of kdb+: {KDB}"),
    (b"SCDD", "looks like Sierra Chart's market depth, which is not read: its .scid file has the trades"),
    (b"SQLite format 3\0", "looks like an SQLite database: write Parquet or CSV of its table"),
    (b"7z\xbc\xaf\x27\x1c", "looks like a 7z archive: unpack it"),
    (b"Rar!\x1a\x07", "looks like a RAR archive: unpack it"),
    (b"\x80\x04\x95", "looks like a pickle, which is never read: write Parquet or npz of it"),
    (b"\x80\x05\x95", "looks like a pickle, which is never read: write Parquet or npz of it"),
)
_PACKED: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "zip"),
    (b"BZh91AY&", "bz2"),
    (b"\xfd7zXZ\0", "xz"),
)
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_TAR: Final = slice(257, 262)
_WEB_PAGE: Final = re.compile(rb"\s*<(?:!doctype|html|\?xml)", re.IGNORECASE)
_JSON: Final = re.compile(rb'(?:\d+ )?\s*[\[{]\s*(?:["{}\[\]]|$)')
_OPEN_INTEREST: Final = re.compile(
    r"(?:\d{8}_.*)?openinterest(?:_.*)?\.(?:csv|zip)|\d{8}_openinterest.*", re.IGNORECASE
)
_NAMES: Final = (
    (
        re.compile(r"(?:BID|ASK)_candles_.*\.bi5", re.IGNORECASE),
        "looks like Dukascopy's bars, which are not read: get its ticks (HHh_ticks.bi5), and make bars of them",
    ),
    (
        re.compile(r".*_orderbook_\d+\.csv(?:\.\w+)?"),
        "looks like LOBSTER's book after each message, which is not read: name the file of messages beside it",
    ),
)
_COLUMNS: Final = re.compile(rb"[^\x00-\x08\x0e-\x1f]+?[,;\t|][^\x00-\x08\x0e-\x1f]*")


def wrapping(head: bytes) -> str | None:
    """A clause about what has to be taken off a file whose decompressed bytes begin with ``head``; None: nothing."""
    if head[_TAR] == b"ustar":
        return "is a tar archive: unpack it (tar -x), and name the files in it"
    for magic, name in _PACKED:
        if head.startswith(magic):
            return f"is {name} data inside of other packed data: unpack it once"
    if head.startswith(_UTF_16):
        return "is text in UTF-16: write it in UTF-8 (iconv -f UTF-16 -t UTF-8)"
    return None


def _document(head: bytes) -> str:
    from strand.feeds.formats.json.profile import built_in, misfits

    found = misfits(head)
    if not found:
        cure = f"get the whole file, or {_SAY_MESSAGES}" if len(head) < HEAD_BYTES else _SAY_MESSAGES
        return f"looks like a JSON document without a whole first message in {len(head):,} bytes: {cure}"
    nearest = min(found, key=lambda name: len(found[name]))
    wrong = found[nearest]
    why = f", {nearest} not for {', '.join(wrong)}" if 2 * len(wrong) <= len(built_in()[nearest]["like"]) else ""
    return f"looks like a JSON document whose first message no built-in profile knows{why}: {_SAY_MESSAGES}"


def guess(head: bytes, names: Iterable[str] = ()) -> str | None:
    """A clause about a file that begins with ``head``; None where it looks like nothing known. ``names``: its own, and
    that of the file in it."""
    names = tuple(names)
    said = [said for magic, said in _MAGICS if head.startswith(magic)]
    said += [_HDF5_SAID for place in _HDF5_PLACES if head.startswith(_HDF5, place)]
    said += [said for name, said in _NAMES if any(map(name.fullmatch, names))]
    if said:
        return said[0]
    if (wrapped := wrapping(head)) is not None:
        return wrapped
    line = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].rstrip(b"\r")
    if _WEB_PAGE.match(line):
        return "looks like a web page, not the file that was to be downloaded: download it again"
    if _JSON.match(line):
        return _document(head) if line.lstrip().startswith(b"[") else f"looks like JSON lines: {_SAY_MESSAGES}"
    if {b"rtype", b"publisher_id"} <= {*line.split(b",")}:
        return OTHER_DATABENTO
    if _COLUMNS.fullmatch(line):
        if any(map(_OPEN_INTEREST.fullmatch, names)):
            return "looks like LEAN's open interest, which is not read: name the files of trades or quotes beside it"
        return (
            "looks like columns of text that no built-in profile knows: give a profile (profile=, --profile), as "
            "docs/feeds/csv.md describes"
        )
    return None


def is_beside_ticks(name: str) -> bool:
    """Tells whether a file is called as one that vendors put beside files of ticks, and that holds no ticks."""
    return any(pattern.fullmatch(name) for pattern in (_OPEN_INTEREST, *(pattern for pattern, _ in _NAMES)))
