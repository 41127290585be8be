"""The golden values of tests/contract: for each small file its ticks, symbols, and what handlers of trades make of it.

    .venv/bin/python tests/support/golden.py           shows the values that differ from golden.json
    .venv/bin/python tests/support/golden.py --write   writes them, for a review with git diff

A changed value is a changed contract: the commit says why.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from strand import feeds, replay
from strand.ticks import FIELDS

PATH = Path(__file__).resolve().parents[1] / "contract" / "golden.json"
GOLDEN: dict[str, dict[str, Any]] = json.loads(PATH.read_text("utf-8")) if PATH.exists() else {}
#: Ticks that stand there with all their fields.
SHOWN = (0, -1)


def read(path: Path, options: dict[str, Any]) -> tuple[Any, list[str]]:
    """A file's ticks, and the names of its symbols; an index without a name is called by its number."""
    with feeds.open(path, **options) as feed:
        batches = [batch.copy() for batch in feed.batches()]
        names = [name or f"#{key}" for key, name in enumerate(feed.symbols)]
    ticks = np.concatenate(batches)
    return ticks, names + [f"#{key}" for key in range(len(names), int(ticks["instrument_id"].max()) + 1)]


def of_ticks(ticks: Any, names: list[str], path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """A file's ticks in few words: their number, the first and the last, and a digest of them all."""
    columns = [ticks[field].tolist() for field in FIELDS]
    rows = [
        [value.decode() if isinstance(value, bytes) else value for value in row] for row in zip(*columns, strict=True)
    ]
    key = list(FIELDS).index("instrument_id")
    for row in rows:
        row[key] = names[row[key]]
    with feeds.open(path, **options) as feed:
        info = feed.info
        flags = {name: mask for name, mask in asdict(info.flags).items() if mask}
        told = {"format": info.format, "ticks": info.ticks, "date": str(info.date), "size_unit": str(info.size_unit),
                "has_sizes": info.has_sizes, "bars": info.bars, "flags": flags}  # fmt: skip
    return {
        "count": len(rows),
        "symbols": " ".join(sorted({row[key] for row in rows})),
        "info": _line(told),
        "digest": blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest(),
        **{f"tick {at}": _line(dict(zip(FIELDS, rows[at], strict=True))) for at in SHOWN},
    }


def _line(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def of_trades(path: Path, options: dict[str, Any]) -> str:
    """The fingerprint of a handler of trades, in Python, in the plain loop."""
    import marked

    handler = marked.batch("trade").with_params({"*": {"factor": 6364136223846793005, "span": 2, "fail_at": 0}})
    return replay(path, handler, feed_options=options, workers=0).fingerprint  # type: ignore[arg-type]


def computed() -> dict[str, dict[str, Any]]:
    """The values of the present code."""
    from small_files import FILES, options_of

    found = {}
    with tempfile.TemporaryDirectory() as name:
        for number, file in enumerate(FILES):
            folder = Path(name) / str(number)
            folder.mkdir()
            path, options = file.write(folder), options_of(file, folder)
            found[file.name] = {
                **of_ticks(*read(path, options), path, options), "trades": of_trades(path, options)
            }  # fmt: skip
    return found


def main() -> None:
    found = computed()
    for name in sorted({*found, *GOLDEN}):
        old, new = GOLDEN.get(name, {}), found.get(name, {})
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                sys.stdout.write(f"{name}: {key}: {old.get(key)} -> {new.get(key)}\n")
    if "--write" in sys.argv:
        PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
