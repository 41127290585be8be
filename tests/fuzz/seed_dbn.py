"""Writes the seeds of fuzz_dbn.c into a folder: streams of every type of record, and of each by itself.

python tests/fuzz/seed_dbn.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from dbn_reference import every_type, mbo, record


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for version in (1, 2, 3):
        bodies = every_type(version)
        # skip, version and levels; bytes a call less one; ticks a call less eleven: the header fuzz_dbn.c reads.
        choice = 1 | (version - 1) << 1 | 0x90
        (folder / f"whole-{version}").write_bytes(bytes([choice & ~1, 255, 255]) + b"".join(bodies))
        (folder / f"bytes-{version}").write_bytes(bytes([choice, 0, 0]) + b"".join(bodies))
        for at, body in enumerate(bodies):
            (folder / f"{version}-{at:02}").write_bytes(bytes([choice, 90, 1]) + body * 4)
    many = b"".join(mbo(instrument=i % 40, event=i * 10**13) for i in range(60))
    (folder / "instruments").write_bytes(b"\1\x40\2" + many)
    (folder / "mapping").write_bytes(b"\1\x40\2" + record(0x16, bytes(160)) + mbo())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
