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

import itch_reference as ref
import numpy as np

from strand import TICK

Pack = Callable[[Path, bytes], object]


@dataclass(frozen=True)
class Sample:
    """A file of a few KB, and what the suites may expect of it.

    ``content`` is what lies inside, ``pack`` writes it to a file. ``flat_from``: from this byte on, records follow
    each other as they are, so that damage to one leaves those before it alone; None where compression or a layout by
    columns carries it further. ``seekable``: the format needs a file, and is refused from a pipe.
    """

    name: str
    format: str
    file: str
    content: Callable[[], bytes]
    pack: Pack = Path.write_bytes
    flat_from: int | None = None
    seekable: bool = False
    needs: str | None = None

    @property
    def available(self) -> bool:
        return self.needs is None or importlib.util.find_spec(self.needs) is not None

    def build(self, folder: Path) -> Path:
        self.pack(folder / self.file, self.content())
        return folder / self.file


def itch_messages() -> list[bytes]:
    """The directory, then every type of message, a few times."""
    every = ref.every_type()
    return [ref.frame(body) for body in every + [body for body in every if body[:1] != b"R"] * 2]


def itch() -> bytes:
    return b"".join(itch_messages())


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


def some_ticks(count: int = 40) -> np.ndarray:
    """Ticks of two symbols, no two alike."""
    ticks = np.zeros(count, TICK)
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
    return "".join(f"{34_200_000 + 7 * i},{479_900 + i},{100 + i},P,2000,0\n" for i in range(60)).encode()


ITCH, NPZ, NAMES = "20190130.itch", "20200130.npz", npy(np.array(["A", "B"]))

SAMPLES = [
    Sample("itch", "itch", ITCH, itch, flat_from=0),
    Sample("itch in gzip", "itch", f"{ITCH}.gz", itch, by(gzip.compress)),
    Sample("itch in zstd", "itch", f"{ITCH}.zst", itch, by(zstd), needs="zstandard"),
    Sample("itch in bz2", "itch", f"{ITCH}.bz2", itch, by(bz2.compress)),
    Sample("itch in xz", "itch", f"{ITCH}.xz", itch, by(lzma.compress)),
    Sample("itch in zip", "itch", f"{ITCH}.zip", itch, zipped(ITCH), seekable=True),
    Sample("npy", "npy", "20200130.npy", npy_ticks, flat_from=576, seekable=True),
    Sample("npz", "npy", NPZ, npy_ticks, zipped("ticks.npy", zipfile.ZIP_STORED, symbols=NAMES), seekable=True),
    Sample("npz, deflated", "npy", NPZ, npy_ticks, zipped("ticks.npy", symbols=NAMES), seekable=True),
    Sample(
        "lean",
        "lean",
        "xyz_20131009_trade.zip",
        lean,
        zipped("20131009_xyz_Trade_Tick.csv"),
        seekable=True,
        needs="pyarrow",
    ),
]
