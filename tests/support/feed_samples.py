"""A small valid file of each format, for suites that damage it: a new format is one line in SAMPLES."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import itch_reference as ref
import numpy as np

from strand import TICK
from strand.feeds.npy import write_npy


@dataclass(frozen=True)
class Sample:
    """A file of a few KB, and what the suites may expect of it.

    ``build`` writes it into a folder. ``flat_from``: from this byte on, records follow each other as they are, so that
    damage to one leaves those before it alone; None where compression or a layout by columns carries it further.
    ``seekable``: the format needs a file, and is refused from a pipe.
    """

    name: str
    format: str
    build: Callable[[Path], Path]
    flat_from: int | None = None
    seekable: bool = False
    needs: str | None = None

    @property
    def available(self) -> bool:
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


def itch_messages() -> list[bytes]:
    """The directory, then every type of message, a few times."""
    every = ref.every_type()
    return [ref.frame(body) for body in every + [body for body in every if body[:1] != b"R"] * 2]


def _itch(pack: Callable[[bytes], bytes], ending: str) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        path = folder / f"20190130.itch{ending}"
        path.write_bytes(pack(b"".join(itch_messages())))
        return path

    return build


def _zstd(data: bytes) -> bytes:
    import zstandard

    return bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))


def _zipped(folder: Path) -> Path:
    path = folder / "20190130.itch.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("20190130.itch", b"".join(itch_messages()))
    return path


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


def _npy(name: str) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        write_npy(folder / name, some_ticks(), ["A", "B"] if name.endswith(".npz") else ())
        return folder / name

    return build


def _npz_deflated(folder: Path) -> Path:
    np.savez_compressed(folder / "20200130.npz", ticks=some_ticks(), symbols=np.array(["A", "B"]))
    return folder / "20200130.npz"


def _lean(folder: Path) -> Path:
    path = folder / "xyz_20131009_trade.zip"
    rows = "".join(f"{34_200_000 + 7 * i},{479_900 + i},{100 + i},P,2000,0\n" for i in range(60))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("20131009_xyz_Trade_Tick.csv", rows)
    return path


SAMPLES = [
    Sample("itch", "itch", _itch(bytes, ""), flat_from=0),
    Sample("itch in gzip", "itch", _itch(gzip.compress, ".gz")),
    Sample("itch in zstd", "itch", _itch(_zstd, ".zst"), needs="zstandard"),
    Sample("itch in bz2", "itch", _itch(bz2.compress, ".bz2")),
    Sample("itch in xz", "itch", _itch(lzma.compress, ".xz")),
    Sample("itch in zip", "itch", _zipped, seekable=True),
    Sample("npy", "npy", _npy("20200130.npy"), flat_from=576, seekable=True),
    Sample("npz", "npy", _npy("20200130.npz"), seekable=True),
    Sample("npz, deflated", "npy", _npz_deflated, seekable=True),
    Sample("lean", "lean", _lean, seekable=True, needs="pyarrow"),
]
