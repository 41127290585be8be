"""Writes the seeds of fuzz_pitch.c into a folder: streams of every message type, and of each by itself.

python tests/fuzz/seed_pitch.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from pitch_reference import every_type


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    bodies = every_type()
    # skip and selection, bytes a call less one, ticks a call less one: the header fuzz_pitch.c reads.
    headers = {
        "whole": b"\0\xff\xff",
        "bytes": b"\0\0\0",
        "skip": b"\1\x60\2",
        "some": b"\3\x60\2",
        "late": b"\6\x60\2",
    }
    for name, header in headers.items():
        (folder / f"{name}-plain").write_bytes(header + b"\n".join(bodies))
        (folder / f"{name}-sequenced").write_bytes(header + b"".join(b"S%s\r\n" % body for body in bodies))
    for at, body in enumerate(bodies):
        (folder / f"{at:02}-{chr(body[8])}").write_bytes(b"\1\x40\1" + (body + b"\n") * 4)
    (folder / "long").write_bytes(b"\1\x10\1" + bodies[5] + b"x" * 400 + b"\n" + bodies[5])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
