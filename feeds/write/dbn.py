"""Ticks as the MBO records of a Databento DBN file. Extra ``[dbn]``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from strand.binding.decoders import DbnDecoder
from strand.errors import ConfigurationError, MissingExtraError
from strand.feeds.base import FeedInfo, TickBatch
from strand.feeds.write.check import Misfits, misfits
from strand.ticks import zeros

__all__ = ["DbnTicks"]

_VERSION: Final = 3
#: Bytes of a symbol's name, which a zero ends.
_NAME_BYTES: Final = 70
_DATASET_BYTES: Final = 16
_RTYPE: Final = 0xA0
_LAST_NS: Final = (1 << 64) - 1
_DAY_NS: Final = 86_400_000_000_000
#: As csrc/codec/dbn/dbn.c reads it.
_MBO: Final = np.dtype(
    [("length", "u1"), ("rtype", "u1"), ("publisher_id", "<u2"), ("instrument_id", "<u4"), ("ts_event", "<u8"),
     ("order_id", "<u8"), ("price", "<i8"), ("size", "<u4"), ("flags", "u1"), ("channel", "u1"), ("action", "S1"),
     ("side", "S1"), ("ts_recv", "<u8"), ("ts_in_delta", "<i4"), ("sequence", "<u4")]
)  # fmt: skip
_SAME: Final = ("publisher_id", "instrument_id", "ts_event", "order_id", "price", "size", "flags", "action", "side",
                "ts_recv", "sequence")  # fmt: skip


class DbnTicks:
    """Writes batches of ticks through ``write`` as MBO records; ``metadata`` then gives what belongs before them.

    An instrument id is the tick's key. Values that an MBO record cannot hold (a ``ref_id``, a ``depth``, a quote, a
    ``sequence`` beyond 32 bits) do not fit: each batch is read back, and ``misfits`` takes a tick that comes out
    different, or refuses it.
    """

    #: The target, for errors.
    TARGET: Final = "DBN's MBO schema"

    def __init__(self, write: Callable[[bytes], Any], misfits: Misfits) -> None:
        try:
            import databento_dbn
        except ImportError:
            raise MissingExtraError("writing DBN files", "databento-dbn", "dbn") from None
        self._library: Any = databento_dbn
        self._write = write
        self._misfits = misfits
        self._used: set[int] = set()
        self._names: Sequence[str] = ()
        self._first, self._last = _LAST_NS, 0
        self._ticks = 0

    def write(self, ticks: TickBatch, symbols: Sequence[str]) -> TickBatch:
        """Writes a batch, and returns the ticks of it that fit; ``symbols`` are the names known by now."""
        before, self._ticks = self._ticks, self._ticks + len(ticks)
        self._names = symbols
        found = misfits(ticks, _read_back).astype("U16")
        keys = np.unique(ticks["instrument_id"]).tolist()
        for key in keys:
            name = symbols[key] if key < len(symbols) else ""
            if key not in self._used and (why := _fault_of(name)):
                if not self._misfits.skips:
                    raise ConfigurationError("symbols", why)
                found[ticks["instrument_id"] == key] = "symbols"
        ticks = self._misfits.take_out(ticks, found, before, symbols)
        if not len(ticks):
            return ticks
        keys = np.unique(ticks["instrument_id"]).tolist()
        self._used.update(keys)
        self._first = min(self._first, int(ticks["ts_recv"].min()))
        self._last = max(self._last, int(ticks["ts_recv"].max()))
        self._write(_records_of(ticks).tobytes())
        return ticks

    def metadata(self, info: FeedInfo) -> bytes:
        """The metadata of a file of everything written, in DBN version 3."""
        library = self._library
        start, end = _utc_date(self._first if self._used else 0), _utc_date(self._last) + dt.timedelta(1)
        mappings = {}
        for key in sorted(self._used):
            name = self._names[key] if key < len(self._names) else ""
            if not name:
                continue  # it is called by its number when it is read
            if why := _fault_of(name):  # once more: it may have come after its key's first ticks
                raise ConfigurationError("symbols", why)
            if name in mappings:
                raise ConfigurationError(
                    "symbols",
                    f"{name!r} is the name of two keys, but DBN allows only one per day: convert to Parquet or npz",
                )
            mappings[name] = SimpleNamespace(
                raw_symbol=name, intervals=[SimpleNamespace(start_date=start, end_date=end, symbol=str(key))]
            )
        dataset = info.venue or ""
        if not (dataset.isascii() and dataset.isprintable() and len(dataset) <= _DATASET_BYTES):
            raise ConfigurationError(
                "venue",
                f"{dataset!r} is not of at most {_DATASET_BYTES} printable ASCII characters, which DBN has for "
                "the name of a data set: convert to Parquet or npz",
            )
        made = library.Metadata(
            dataset=dataset,
            start=self._first if self._used else 0,
            end=self._last + 1 if self._used else None,
            stype_in=library.SType.RAW_SYMBOL,
            stype_out=library.SType.INSTRUMENT_ID,
            schema=library.Schema.MBO,
            symbols=list(mappings),
            partial=[],
            not_found=[],
            mappings=list(mappings.values()),
            version=_VERSION,
        )
        return bytes(made.encode())


def _records_of(ticks: TickBatch) -> np.ndarray[Any, Any]:
    records = np.zeros(len(ticks), _MBO)
    records["length"] = _MBO.itemsize // 4
    records["rtype"] = _RTYPE
    for name in _SAME:
        records[name] = ticks[name]
    return records


def _read_back(ticks: TickBatch) -> tuple[TickBatch, bool]:
    data = memoryview(_records_of(ticks).tobytes())
    decoder = DbnDecoder(version=_VERSION, skip=False, tail=0, levels=1, span=(0, _LAST_NS))
    for key in np.unique(ticks["instrument_id"]).tolist():
        decoder.add(key, 0, _LAST_NS, key)
    again = zeros(len(ticks) + decoder.max_per_record)
    made, used, _ = decoder.decode(data, last=True, out=again)
    return again[:made], used == len(data)


def _fault_of(name: str) -> str | None:
    """Reason for which no DBN file can hold a name; None: it can."""
    if not (name.isascii() and name.isprintable()):
        return (
            f"DBN holds names of printable ASCII characters, and {name!r} is not one: convert to Parquet or "
            "npz, or leave the symbol out by symbols= (--symbols) or on_unwritable='skip' (--on-unwritable skip)"
        )
    if len(name) > _NAME_BYTES:
        return (
            f"{name!r} is longer than the {_NAME_BYTES} bytes that DBN has for a symbol: convert to Parquet "
            "or npz, or leave it out by symbols= (--symbols) or on_unwritable='skip' (--on-unwritable skip)"
        )
    return None


def _utc_date(ns: int) -> dt.date:
    return dt.date(1970, 1, 1) + dt.timedelta(ns // _DAY_NS)
