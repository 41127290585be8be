"""A small file of each format and layout, made without Strand.

The files that only Strand writes lie in tests/contract/data: recordings and conversions of an earlier day.
"""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import importlib.util
import io
import json
import lzma
import random
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bi5_reference
import dbn_reference
import iex_reference
import itch_reference
import json_documents
import json_lines
import lean_files
import numpy as np
import pcap_reference
import pitch_reference
import scid_reference
from csv_files import KINDS, write_made_up

DATA = Path(__file__).resolve().parents[1] / "contract" / "data"
SECOND = 10**9
NOON = 1_580_385_600 * SECOND
MIDNIGHT = NOON - 12 * 3600 * SECOND


@dataclass(frozen=True)
class SmallFile:
    """A file of some hundred ticks at most.

    Attributes:
        name: Its name in tests and golden values.
        format: The name that docs/tick.md gives the format.
        write: Writes it to a folder and returns its path.
        options: Options of its reader.
        needs: Packages that reading or writing it needs.
    """

    name: str
    format: str
    write: Callable[[Path], Path]
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def available(self) -> bool:
        return all(importlib.util.find_spec(package) is not None for package in self.needs)


def _bytes(name: str, content: Callable[[], bytes]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content())
        return folder / name

    return write


def _zipped(name: str, member: str, content: Callable[[], bytes]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, content())
        return folder / name

    return write


def _made(name: str) -> Callable[[Path], Path]:
    return lambda folder: write_made_up(folder, name, 60)


def _committed(name: str) -> Callable[[Path], Path]:
    return lambda folder: DATA / name


# ---- contents


def itch_bodies() -> list[bytes]:
    """Every type of message, then a market of two stocks: orders, executions, replaces, hidden trades and crosses."""
    message, rng, ns = itch_reference.message, random.Random(5), 34_300 * SECOND
    bodies = itch_reference.every_type()
    open_orders: list[tuple[int, int]] = []
    for n in range(160):
        ns, locate, what = ns + rng.randint(1, 10**9), rng.choice([7, 13]), rng.random()
        name = {7: b"AAPL    ", 13: b"BRK.A   "}[locate]
        if what < 0.5 or not open_orders:
            open_orders.append((1000 + n, locate))
            price = rng.randint(990_000, 1_010_000)
            bodies.append(
                message("A", locate, ns, 1000 + n, rng.choice([b"B", b"S"]), rng.randint(2, 900), name, price)
            )
            continue
        at = rng.randrange(len(open_orders))
        order, locate = open_orders[at]
        if what < 0.7:
            bodies.append(message("E", locate, ns, order, 1, n))
        elif what < 0.8:
            bodies.append(message("X", locate, ns, order, 1))
        elif what < 0.9:
            bodies.append(
                message("U", locate, ns, order, 1000 + n, rng.randint(2, 900), rng.randint(990_000, 1_010_000))
            )
            open_orders[at] = 1000 + n, locate
        else:
            bodies.append(message("D", locate, ns, order))
            del open_orders[at]
    return bodies


def itch() -> bytes:
    return b"".join(map(itch_reference.frame, itch_bodies()))


def pcap(writer: Callable[..., bytes]) -> bytes:
    """Three messages a packet of MoldUDP64."""
    bodies, packets = itch_bodies(), []
    for first in range(0, len(bodies), 3):
        payload = pcap_reference.mold(first + 1, bodies[first : first + 3])
        (ns,) = struct.unpack(">Q", b"\0\0" + bodies[first][5:11])
        packets.append((MIDNIGHT + ns, pcap_reference.ethernet(pcap_reference.ipv4(pcap_reference.udp(payload)))))
    return writer(packets)


def iex(protocol: int, writer: Callable[..., bytes]) -> bytes:
    """All types of message of one of IEX's feeds."""
    bodies = iex_reference.every_type(iex_reference.TYPES[protocol])
    return writer(iex_reference.packets(bodies, protocol=protocol))


def dbn(version: int, schema: str | None = None) -> bytes:
    """Every type of record; with a schema, orders of two instruments."""
    names = {f"ES{i}": [(dt.date(2019, 1, 1), dt.date(2030, 1, 1), str(i))] for i in (7, 8)}
    if schema is None:
        return dbn_reference.metadata(version, names) + b"".join(dbn_reference.every_type(version))
    rng, records, at = random.Random(3), [], NOON
    for i in range(90):
        at += rng.randint(0, SECOND)
        action = rng.choice([b"A"] * 5 + [b"C", b"M", b"T", b"F"])
        records.append(
            dbn_reference.mbo(
                instrument=rng.choice([7, 8]), order=i // 3, price=10**11 + rng.randint(0, 9) * 10**7,
                size=rng.randint(1, 99), event=at, received=at + 500, sequence=i + 1, action=action,
                side=rng.choice([b"A", b"B"]), flags=rng.choice([0, 128]),
            )
        )  # fmt: skip
    import databento_dbn

    return dbn_reference.metadata(version, names, schema=getattr(databento_dbn.Schema, schema)) + b"".join(records)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def own_records() -> Any:
    """An array of a dtype that is no one's."""
    rng = np.random.default_rng(4)
    records = np.zeros(80, [("when", "<i8"), ("px", "<f8"), ("qty", "<u4"), ("who", "<u2")])
    records["when"] = 1_580_385_600_000_000 + np.cumsum(rng.integers(1, 10**6, 80))
    records["px"], records["qty"] = rng.integers(1, 10**6, 80) / 100, rng.integers(1, 999, 80)
    records["who"] = rng.integers(0, 3, 80)
    return records


def hftbacktest() -> Any:
    """Depth and trades, valid at both ends."""
    rng = np.random.default_rng(6)
    fields = [("ev", "<u8"), ("exch_ts", "<i8"), ("local_ts", "<i8"), ("px", "<f8"), ("qty", "<f8"),
              ("order_id", "<u8"), ("ival", "<i8"), ("fval", "<f8")]  # fmt: skip
    events = np.zeros(80, np.dtype(fields, align=True))
    events["ev"] = rng.choice([1, 2], 80) | 1 << 31 | 1 << 30 | rng.choice([1 << 29, 1 << 28], 80)
    events["exch_ts"] = NOON + np.cumsum(rng.integers(1, SECOND, 80))
    events["local_ts"] = events["exch_ts"] + 1000
    events["px"], events["qty"] = rng.integers(100, 200, 80) / 4, rng.integers(0, 99, 80)
    return events


def table() -> Any:
    import pyarrow as pa

    rng = random.Random(8)
    rows = [(NOON + i * SECOND + rng.randint(0, 999), rng.choice("AB"), rng.randint(1, 999) / 4, i) for i in range(80)]
    times, symbols, prices, sizes = zip(*rows, strict=True)
    when = pa.array(times, pa.timestamp("ns", "UTC"))
    return pa.table({"ts_event": when, "symbol": list(symbols), "price": list(prices), "size": list(sizes)})


def parquet() -> bytes:
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(table(), file, row_group_size=30)
    return file.getvalue()


def arrow() -> bytes:
    from pyarrow import ipc

    file, rows = io.BytesIO(), table()
    with ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows, 30)
    return file.getvalue()


def freqtrade(folder: Path, name: str, rows: list[tuple[Any, ...]]) -> Path:
    """A table of trades or candles as freqtrade writes it, under a name of its own."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    columns = "date,open,high,low,close,volume" if len(rows[0]) == 6 else "timestamp,id,type,side,price,amount,cost"
    made = dict(zip(columns.split(","), zip(*rows, strict=True), strict=True))
    arrays = {
        title: pa.array(values, pa.timestamp("ms", "UTC") if title == "date" else None)
        for title, values in made.items()
    }
    path = folder / name
    if path.suffix == ".parquet":
        parquet.write_table(pa.table(arrays), path)
    else:
        feather.write_feather(pa.table(arrays), path, compression="lz4")
    return path


def freqtrade_trades(count: int) -> list[tuple[Any, ...]]:
    rng = random.Random(12)
    return [
        (1_767_571_200_000 + at, str(7 + at), None, rng.choice(["buy", "sell"]), rng.randint(1, 9999) / 100,
         rng.randint(1, 9999) / 1000, 1.5)
        for at in range(count)
    ]  # fmt: skip


def freqtrade_candles(count: int, minutes: int = 5) -> list[tuple[Any, ...]]:
    rng = random.Random(13)
    return [
        (1_767_571_200_000 + at * minutes * 60_000, *(rng.randint(1, 9999) / 100 for _ in range(4)),
         rng.randint(0, 9999) / 1000)
        for at in range(count)
    ]  # fmt: skip


def json_messages(folder: Path) -> Path:
    """The messages of docs/feeds/json.md with numbers of their own, received every third of a second."""
    rng, lines = random.Random(2), []
    for n in range(60):
        if n % 3:
            trade = {"e": "trade", "T": 1_767_571_200_000 + n, "s": rng.choice(["ETHUSDT", "BTCUSDT"]),
                     "p": f"{rng.randint(1, 9999)}.25", "q": f"0.{rng.randint(1, 999):03}", "t": n,
                     "m": n % 2 == 0}  # fmt: skip
            lines.append(f"{json_lines.FIRST_NS + n * SECOND // 3} {json.dumps({'stream': 'x@trade', 'data': trade})}")
        else:
            levels = {"b": [[f"{n + 1}.5", "2"], ["1", "0"]], "a": [[f"{n + 3}", "4"]]}
            depth = {"e": "depthUpdate", "E": 1_767_571_200_000 + n, "s": "ETHUSDT", "U": n + 1, "u": n + 3, **levels}
            lines.append(f"{json_lines.FIRST_NS + n * SECOND // 3} {json.dumps({'stream': 'x@depth', 'data': depth})}")
    json_lines.profile(folder)
    return json_lines.write(folder / "messages.jsonl", lines, None)


PROFILE = """
name = "mine"
size_unit = "0.01"
delimiter = ";"

[symbol]
column = "Instrument"

[fields.ts_event]
column = "When"
unit = "us"

[fields.price]
column = "Px"

[fields.size]
column = "Lots"

[fields.side]
column = "BuySell"
map = { b = "B", s = "A" }

[fields.action]
constant = "T"

[fields.kind]
constant = "trade"
"""


def own_table(folder: Path) -> Path:
    rng = random.Random(9)
    lines = ["When;Instrument;Px;Lots;BuySell"]
    for i in range(60):
        cells = 1_580_385_600_000_000 + i * 10**6, rng.choice("XY"), rng.randint(1, 9999) / 8
        lines.append(";".join(map(str, cells)) + f";0.{rng.randint(10, 99)};{rng.choice('bs')}")
    (folder / "mine.toml").write_text(PROFILE)
    (folder / "mine.csv").write_text("\n".join(lines) + "\n")
    return folder / "mine.csv"


def dukascopy() -> bytes:
    return bi5_reference.packed(bi5_reference.some(5, 80, 110_000))


def lean_trades() -> bytes:
    rng = random.Random(1)
    return "".join(
        f"{34_200_000 + 700 * i},{rng.randint(479_000, 481_000)},{100 + i},P,2000,0\n" for i in range(60)
    ).encode()


def lean_quotes() -> bytes:
    rng = random.Random(1)
    cells = [(34_200_000 + 700 * i, rng.randint(479_000, 479_900), rng.randint(480_000, 481_000)) for i in range(60)]
    return "".join(f"{ms},{bid},100,{ask},200,P,1,0\n" for ms, bid, ask in cells).encode()


ITCH = "20200130.itch50"
DAY = {"date": "2020-01-30"}
PA, DBN = ("pyarrow",), ("databento_dbn",)
OWN = {"columns": {"ts_event": "when", "price": "px", "size": "qty", "instrument_id": "who"},
       "time_unit": "us", "constants": {"kind": 2, "action": "T"}}  # fmt: skip

FILES = [
    SmallFile("itch", "itch", _bytes(ITCH, itch)),
    SmallFile("itch in gzip", "itch", _bytes(f"{ITCH}.gz", lambda: gzip.compress(itch()))),
    SmallFile("itch in bz2", "itch", _bytes(f"{ITCH}.bz2", lambda: bz2.compress(itch()))),
    SmallFile("itch in xz", "itch", _bytes(f"{ITCH}.xz", lambda: lzma.compress(itch()))),
    SmallFile("itch in zip", "itch", _zipped(f"{ITCH}.zip", ITCH, itch)),
    SmallFile("recording", "recording", _committed("recorded.itch50"), {"date": "2026-01-05"}),
    SmallFile("pcap", "pcap", _bytes("20200130.pcap", lambda: pcap(pcap_reference.pcap)), DAY),
    SmallFile("pcapng", "pcap", _bytes("20200130.pcapng", lambda: pcap(pcap_reference.pcapng)), DAY),
    *(
        SmallFile(f"iex {name}", "iex", _bytes(f"20200130.{name}", lambda p=protocol, w=writer: iex(p, w)))
        for name, protocol, writer in (
            ("tops1.5", iex_reference.TOPS_1_5, pcap_reference.pcapng),
            ("tops", iex_reference.TOPS, pcap_reference.pcap),
            ("deep", iex_reference.DEEP, pcap_reference.pcapng),
            ("deep+", iex_reference.DEEP_PLUS, pcap_reference.pcap),
        )
    ),
    SmallFile(
        "pitch",
        "pitch",
        _bytes("20200130.pitch", lambda: b"".join(line + b"\n" for line in pitch_reference.every_type())),
    ),
    *(
        SmallFile(f"dbn {version}", "dbn", _bytes(f"every.v{version}.dbn", lambda v=version: dbn(v)), needs=DBN)
        for version in (1, 2, 3)
    ),
    SmallFile("dbn of orders", "dbn", _bytes("20200130.mbo.dbn", lambda: dbn(3, "MBO")), needs=DBN),
    SmallFile("lean of trades", "lean", lambda folder: lean_files.archive(folder, lean_trades()), needs=PA),
    SmallFile(
        "lean of quotes", "lean", lambda folder: lean_files.archive(folder, lean_quotes(), kind="quote"), needs=PA
    ),
    SmallFile("dukascopy", "bi5", _bytes("12h_ticks.bi5", dukascopy), {"symbol": "EURUSD", **DAY}),
    SmallFile("sierra chart", "scid", _bytes("ESH20.scid", lambda: scid_reference.file(scid_reference.some(4, 80)))),
    SmallFile("npy of one's own", "npy", _bytes("own.npy", lambda: npy(own_records())), OWN),
    SmallFile("hftbacktest", "npy", _bytes("btcusdt.20200130.npy", lambda: npy(hftbacktest()))),
    SmallFile("npz of ticks", "npy", _committed("converted.npz")),
    SmallFile("parquet", "parquet", _bytes("20200130.parquet", parquet), needs=PA),
    SmallFile("arrow", "parquet", _bytes("20200130.arrow", arrow), needs=PA),
    SmallFile("parquet of ticks", "parquet", _committed("converted.parquet"), needs=PA),
    SmallFile("arrow of ticks", "parquet", _committed("converted.arrow"), needs=PA),
    SmallFile(
        "freqtrade trades",
        "parquet",
        lambda folder: freqtrade(folder, "BTC_USDT-trades.feather", freqtrade_trades(60)),
        needs=PA,
    ),
    SmallFile(
        "freqtrade candles",
        "parquet",
        lambda folder: freqtrade(folder, "BTC_USDT-5m.feather", freqtrade_candles(60)),
        needs=PA,
    ),
    SmallFile("csv of one's own", "csv", own_table, {"profile": "mine.toml"}, PA),
    *(SmallFile(f"csv {name}", "csv", _made(name), kind.options, PA) for name, kind in KINDS.items()),
    *(
        SmallFile(f"json {name}", "jsonl", lambda folder, name=name: json_documents.write(folder, name, 60))
        for name in json_documents.DOCUMENTS
    ),
    SmallFile("json lines", "jsonl", json_messages, {"profile": "binance.toml"}),
    SmallFile("websocket", "websocket", _committed("recorded.ws")),
]


def options_of(file: SmallFile, folder: Path) -> dict[str, Any]:
    """Options of the reader, with the profile in the folder that the file was written to."""
    found = dict(file.options)
    if found.get("profile", "").endswith(".toml"):
        found["profile"] = str(folder / found["profile"])
    return found
