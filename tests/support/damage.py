"""Small files, cut and overwritten: the class and place of the error, and the ticks before it.

.venv/bin/python tests/support/damage.py           shows what differs from tests/contract/damage.json
.venv/bin/python tests/support/damage.py --write   writes it, for a review with git diff
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from small_files import FILES, SmallFile, options_of

from strand import feeds
from strand.errors import StrandError

PATH = Path(__file__).resolve().parents[1] / "contract" / "damage.json"
#: What is written over four bytes of a file: of text, letters.
BAD, LETTERS = b"\xff\x00\xfe?", b"x?y!"
TEXT = ("csv", "jsonl", "pitch", "websocket")
#: Files whose bytes depend on the release of a library, so that the contract has their error's class alone.
BY_LIBRARIES = ("itch in gzip", "itch in bz2", "itch in xz", "itch in zip", "lean of trades", "lean of quotes",
                "parquet", "arrow", "dukascopy", "json ccxt-candles in gzip", "json freqtrade-trades",
                "freqtrade trades", "freqtrade candles")  # fmt: skip


def of_file(name: str, folder: Path) -> dict[str, str]:
    """A file as it is cut at three fifths, at its last byte, and overwritten in its middle."""
    (file,) = (file for file in FILES if file.name == name)
    path = file.write(folder)
    if not path.is_relative_to(folder):  # it is one of the committed files
        for each in path.parent.glob(f"{path.name}*"):
            shutil.copy(each, folder)
        path = folder / path.name
    data = path.read_bytes()
    middle, bad = len(data) // 2, LETTERS if file.format in TEXT else BAD
    damaged = {
        "cut at 3/5": data[: len(data) * 3 // 5],
        "last byte gone": data[:-1],
        "overwritten": data[:middle] + bad + data[middle + len(bad) :],
    }
    return {how: _ended(file, path, folder, content) for how, content in damaged.items()}


def _ended(file: SmallFile, path: Path, folder: Path, content: bytes) -> str:
    path.write_bytes(content)
    ticks = 0
    try:
        with feeds.open(path, **options_of(file, folder)) as feed:
            for batch in feed.batches():
                ticks += len(batch)
    except StrandError as error:
        place = [
            f"{where} {getattr(error, where)}"
            for where in ("offset", "line")
            if getattr(error, where, None) is not None
        ]
        named = "" if Path(getattr(error, "path", None) or "").name == path.name else ", without its path"
        if file.name in BY_LIBRARIES:
            return f"{type(error).__name__}{named}"
        return f"{type(error).__name__}{named} at {', '.join(place) or 'no place'} after {ticks} ticks"
    return f"{ticks} ticks"


def main() -> None:
    old = json.loads(PATH.read_text("utf-8")) if PATH.exists() else {}
    found: dict[str, Any] = {}
    for file in FILES:
        with tempfile.TemporaryDirectory() as folder:
            found[file.name] = of_file(file.name, Path(folder))
    for name in sorted({*old, *found}):
        if old.get(name) != found.get(name):
            sys.stdout.write(f"{name}: {old.get(name)} -> {found.get(name)}\n")
    if "--write" in sys.argv:
        PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
