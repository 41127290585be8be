"""Ticks that are in memory as .npy and .npz files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from strand.errors import ConfigurationError
from strand.feeds.io.atomic_write import atomic_write
from strand.ticks import TICK


def npy_header(dtype: np.dtype[Any], length: int) -> bytes:
    """The header of an array of so many records, which are then written piece by piece."""
    header = io.BytesIO()
    described = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": (length,)}
    npy_format.write_array_header_1_0(header, described)
    return header.getvalue()


def write_npy(path: str | Path, ticks: npt.NDArray[Any], symbols: Sequence[str] = ()) -> None:
    """Write ticks, a one-dimensional array of dtype ``TICK``, so that ``NpyFeed`` reads them back.

    A path ending in ``.npz`` takes the symbols' names along, uncompressed; ``.npy``
    has no room for names. The file gets its name only once it is whole.
    """
    path = Path(path)
    if ticks.dtype != TICK or ticks.ndim != 1:
        raise ConfigurationError("ticks", f"{ticks.dtype}{ticks.shape} is not a one-dimensional array of TICK")
    if path.suffix not in (".npy", ".npz"):
        raise ConfigurationError("path", f"{path.name} must end in .npy or .npz")
    if path.suffix == ".npy" and len(symbols):
        raise ConfigurationError("symbols", "an .npy file holds no names; write an .npz file")
    if len(symbols) and len(ticks) and int(ticks["instrument_id"].max()) >= len(symbols):
        raise ConfigurationError("symbols", f"{len(symbols)} names for keys up to {int(ticks['instrument_id'].max())}")
    with atomic_write(path) as file:
        if path.suffix == ".npy":
            np.save(file, ticks, allow_pickle=False)
        elif len(symbols):
            np.savez(file, ticks=ticks, symbols=np.array(list(symbols), dtype=np.str_))
        else:
            np.savez(file, ticks=ticks)
