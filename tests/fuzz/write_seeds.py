"""Writes the seeds of fuzz_NAME.c, which ``seeds`` of seed_NAME.py gives by name, into a folder.

python tests/fuzz/write_seeds.py NAME FOLDER
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main(name: str, folder: Path) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
    folder.mkdir(parents=True, exist_ok=True)
    for seed, content in importlib.import_module(f"seed_{name}").seeds():
        (folder / seed).write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
