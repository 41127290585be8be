"""A small valid file of each format, for suites that damage it: a new format is one line in SAMPLES."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bi5_reference
import dbn_reference
import iex_reference
import itch_reference as ref
import json_documents
import numpy as np
import pcap_reference as capture
import scid_reference

from strand.feeds.formats.json.profile import read_profile
from strand.feeds.formats.registry import formats
from strand.feeds.formats.websocket import Header, entry_line, message_line
from strand.ticks import zeros

Pack = Callable[[Path, bytes], object]

#: Records of a sample: as few as show what the others would, since every byte of it is damaged.
COUNT = 20


@dataclass(frozen=True)
class Sample:
    """A file of a few KB, and what the suites may expect of it.

    ``content`` is what lies inside, ``pack`` writes it to a file. ``flat_from``: from this byte on, records follow
    each other as they are, so that damage to one leaves those before it alone; None where compression or a layout by
    columns carries it further. ``open_end``: a cut
    last record may still be one, of other values. ``may_be_empty``: a file of no bytes says that nothing happened.
    """

    name: str
    format: str
    file: str
    content: Callable[[], bytes]
    pack: Pack = Path.write_bytes
    flat_from: int | None = None
    open_end: bool = False
    may_be_empty: bool = False
    needs: str | None = None

    @property
    def available(self) -> bool:
        """True if there is a reader, and the package that it or the writing needs."""
        if self.format not in {known.name for known in formats()}:
            return False
        return self.needs is None or importlib.util.find_spec(self.needs) is not None

    def build(self, folder: Path) -> Path:
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        self.pack(path, self.content())
        return path


def itch_messages() -> list[bytes]:
    """The directory, then every type of message, twice."""
    return [ref.frame(body) for body in itch_bodies()]


def itch_bodies() -> list[bytes]:
    every = ref.every_type()
    return every + [body for body in every if body[:1] != b"R"]


def itch() -> bytes:
    return b"".join(itch_messages())


def itch_seconds(path: Path, locates: bytes = b"\1\2", *, pack: Callable[[bytes], bytes] = bytes) -> Path:
    """Ten deletes of each stock, a second apart from 09:30, after a directory that calls them S1, S2..."""
    messages = [ref.directory(key, b"S%d" % key) for key in locates]
    opening = 34_200 * 10**9
    messages += [ref.message("D", key, opening + n * 10**9, n) for n in range(10) for key in locates]
    path.write_bytes(pack(b"".join(ref.frame(body) for body in messages)))
    return path


def by(compress: Callable[[bytes], bytes]) -> Pack:
    return lambda path, data: path.write_bytes(compress(data))


def zstd(data: bytes) -> bytes:
    import zstandard

    return bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))


def zipped(member: str, method: int = zipfile.ZIP_DEFLATED, **others: bytes) -> Pack:
    """In an archive, as ``member``, with ``others`` (``name=...`` is ``name.npy``)."""

    def pack(path: Path, data: bytes) -> None:
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr(member, data)
            for name, content in others.items():
                archive.writestr(f"{name}.npy", content)

    return pack


def some_ticks(count: int = COUNT) -> np.ndarray:
    """Ticks of two symbols, no two alike."""
    ticks = zeros(count)
    ticks["ts_event"] = ticks["ts_recv"] = 1_580_394_600 * 10**9 + np.arange(count) * 1_000_003
    ticks["order_id"] = np.arange(count) * 7919
    ticks["price"] = 10**9 + np.arange(count) * 10**7
    ticks["instrument_id"] = np.arange(count) % 2
    ticks["sequence"] = np.arange(1, count + 1)
    ticks["action"], ticks["side"], ticks["kind"] = b"A", b"B", 1
    return ticks


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def npy_ticks() -> bytes:
    return npy(some_ticks())


def lean() -> bytes:
    return "".join(f"{34_200_000 + 7 * i},{479_900 + i},{100 + i},P,2000,0\n" for i in range(COUNT)).encode()


def dbn() -> bytes:
    return dbn_reference.metadata(3, {}) + b"".join(dbn_records())


def dbn_records() -> list[bytes]:
    """MBO records of two instruments."""
    times = [1_580_394_600 * 10**9 + i * 1003 for i in range(COUNT)]
    return [
        dbn_reference.mbo(
            instrument=7 + i % 2, order=i, price=10**11 + i * 10**7, size=100 + i, event=at, received=at + 500,
            sequence=i + 1,
        )
        for i, at in enumerate(times)
    ]  # fmt: skip


def pitch() -> bytes:
    lines = [f"{34_200_000 + i:08}A{i:012}B{100 + i:06}ABC   {1_000_000 + i:010}Y" for i in range(COUNT)]
    return "".join(f"{line}\n" for line in lines).encode()


def pcap() -> bytes:
    """MoldUDP64 over UDP over IPv4, four messages a packet."""
    bodies = itch_bodies()
    payloads = [(first, capture.mold(first + 1, bodies[first : first + 4])) for first in range(0, len(bodies), 4)]
    frames = [(first, capture.ethernet(capture.ipv4(capture.udp(payload)))) for first, payload in payloads]
    return capture.pcap((1_548_858_600 * 10**9 + first * 1000, frame) for first, frame in frames)


def iex(protocol: int) -> bytes:
    """Every type of message of one of IEX's feeds, four a packet."""
    bodies = iex_reference.every_type(iex_reference.TYPES[protocol])
    return capture.pcap(iex_reference.packets(bodies, 4, protocol=protocol))


def tardis() -> bytes:
    lines = ["exchange,symbol,timestamp,local_timestamp,id,side,price,amount"]
    at = 1_580_394_600 * 10**6
    lines += [f"binance,BTCUSDT,{at + i},{at + i + 900},{i},buy,{9300 + i}.25,0.{100 + i}" for i in range(COUNT)]
    return "".join(f"{line}\n" for line in lines).encode()


def websocket() -> bytes:
    """A trade a message, every fifth with a line's end in it, and a connection lost in the middle."""
    profile = {"message": [{"kind": "trade", "symbol": "s", "fields": {"price": "p"}}]}
    lines = [Header(read_profile(profile), "ws://127.0.0.1:1/", "raise", (), 16, 4096).line()]
    start = 1_580_394_600 * 10**9
    for i in range(COUNT):
        if i in (0, COUNT // 2):
            lines += [entry_line(start + i, b"disconnected", b'"ended"')] if i else []
            lines += [entry_line(start + i, b"connected", b'"to ws://127.0.0.1:1/"')]
        text = f'{{"s":"S{i % 2}",' + "\n" * (i % 5 == 0) + f'"p":{9300 + i}.25}}'
        lines += [message_line(text if i % 2 else text.encode(), start + i)]
    return b"".join([*lines, entry_line(start + COUNT, b"end", b"%d" % len(lines))])


def freqtrade() -> bytes:
    return json_documents.text_of("freqtrade-trades", json_documents.items_of("freqtrade-trades", COUNT))


def table() -> Any:
    import pyarrow as pa

    count, start = COUNT, 1_580_394_600 * 10**9
    return pa.table(
        {
            "ts_event": pa.array([start + i * 1003 for i in range(count)], pa.timestamp("ns", "UTC")),
            "symbol": ["A" if i % 2 else "B" for i in range(count)],
            "price": [100.25 + i for i in range(count)],
            "size": [100 + i for i in range(count)],
        }
    )


def parquet() -> bytes:
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(table(), file, row_group_size=COUNT // 2, compression="NONE")
    return file.getvalue()


def arrow() -> bytes:
    from pyarrow import ipc

    file, rows = io.BytesIO(), table()
    with ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows, COUNT // 2)
    return file.getvalue()


ITCH, NPZ, NAMES = "20190130.itch", "20200130.npz", npy(np.array(["A", "B"]))

SAMPLES = [
    Sample("itch", "itch", ITCH, itch, flat_from=0),
    Sample("itch in gzip", "itch", f"{ITCH}.gz", itch, by(gzip.compress)),
    Sample("itch in zstd", "itch", f"{ITCH}.zst", itch, by(zstd), needs="zstandard"),
    Sample("itch in bz2", "itch", f"{ITCH}.bz2", itch, by(bz2.compress)),
    Sample("itch in xz", "itch", f"{ITCH}.xz", itch, by(lzma.compress)),
    Sample("itch in zip", "itch", f"{ITCH}.zip", itch, zipped(ITCH)),
    Sample("npy", "npy", "20200130.npy", npy_ticks, flat_from=576),
    Sample("npy in gzip", "npy", "20200130.npy.gz", npy_ticks, by(gzip.compress)),
    Sample("npz", "npy", NPZ, npy_ticks, zipped("ticks.npy", zipfile.ZIP_STORED, symbols=NAMES)),
    Sample("npz, deflated", "npy", NPZ, npy_ticks, zipped("ticks.npy", symbols=NAMES)),
    Sample(
        "lean",
        "lean",
        "xyz_20131009_trade.zip",
        lean,
        zipped("20131009_xyz_Trade_Tick.csv"),
        needs="pyarrow",
    ),
    Sample(
        "scid",
        "scid",
        "ESH20.scid",
        lambda: scid_reference.file(scid_reference.some(4, COUNT)),
        flat_from=scid_reference.HEADER,
    ),
    Sample("dbn", "dbn", "20200130.mbo.dbn", dbn, needs="databento_dbn"),
    Sample("dbn in zstd", "dbn", "20200130.mbo.dbn.zst", dbn, by(zstd), needs="databento_dbn"),
    Sample("pitch", "pitch", "20200130.pitch", pitch, flat_from=0, open_end=True),
    Sample("pcap", "pcap", "20190130.pcap", pcap),
    Sample(
        "bi5",
        "bi5",
        "EURUSD/2020/00/30/10h_ticks.bi5",
        lambda: bi5_reference.packed(bi5_reference.some(5, COUNT)),
        may_be_empty=True,
    ),
    Sample("iex tops", "iex", "20200130_IEXTP1_TOPS1.6.pcap", lambda: iex(iex_reference.TOPS)),
    Sample("iex deep", "iex", "20200130_IEXTP1_DEEP1.0.pcap", lambda: iex(iex_reference.DEEP)),
    Sample("iex deep+", "iex", "20200130_IEXTP1_DPLS1.0.pcap", lambda: iex(iex_reference.DEEP_PLUS)),
    Sample("parquet", "parquet", "20200130.parquet", parquet, needs="pyarrow"),
    Sample("arrow", "parquet", "20200130.arrow", arrow, needs="pyarrow"),
    Sample("csv", "csv", "20200130.csv", tardis, flat_from=70, open_end=True, needs="pyarrow"),
    Sample("json document", "jsonl", "BTC_USDT-trades.json", freqtrade),
    Sample("json document in gzip", "jsonl", "BTC_USDT-trades.json.gz", freqtrade, by(gzip.compress)),
    Sample("websocket", "websocket", "recorded.ws", websocket, flat_from=websocket().index(b"\n") + 1),
    Sample("websocket in gzip", "websocket", "recorded.ws.gz", websocket, by(gzip.compress)),
    Sample("csv in gzip", "csv", "20200130.csv.gz", tardis, by(gzip.compress), needs="pyarrow"),
]
