"""Archives as LEAN has them, of one table each."""

from __future__ import annotations

import zipfile
from pathlib import Path

TRADES = b"34200000,479900,100,P,2000,0\n34200000,481000,200,Q,20002020,1\n34200005,480000,1,,,0"


def archive(
    folder: Path,
    data: bytes,
    *,
    symbol: str = "xyz",
    date: str = "20131009",
    kind: str = "trade",
    member: str | None = None,
    name: str | None = None,
    method: int = zipfile.ZIP_DEFLATED,
) -> Path:
    path = folder / (name or f"{symbol}_{date}_{kind}.zip")
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as zipped:
        zipped.writestr(member or f"{date}_{symbol}_{kind.title()}_Tick.csv", data)
    return path
