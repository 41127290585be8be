"""Writes the seeds of fuzz_itch.c into a folder: streams of every message type, and of each by itself.

python tests/fuzz/seed_itch.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from itch_reference import every_type, frame


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    bodies = every_type()
    # skip and selection, bytes a call less one, ticks a call less one: the header fuzz_itch.c reads.
    headers = {
        "whole": b"\0\xff\xff",
        "bytes": b"\0\0\0",
        "skip": b"\1\x60\2",
        "some": b"\3\x60\2",
        "late": b"\6\x60\2",
    }
    for name, header in headers.items():
        (folder / f"{name}-true").write_bytes(header + b"".join(map(frame, bodies)))
        (folder / f"{name}-zero").write_bytes(header + b"".join(frame(body, 0) for body in bodies))
    for at, body in enumerate(bodies):
        (folder / f"{at:02}-{chr(body[0])}").write_bytes(b"\1\x40\1" + frame(body) * 4)
    for header in (b"\1\x10\1", b"\3\xff\x20"):
        lost = frame(b"z" * 9, 300) + b"".join(map(frame, bodies)) + b"\xff" + b"".join(map(frame, bodies[:6]))
        (folder / f"lost-{header[0]}").write_bytes(header + lost)
    (folder / "unknown").write_bytes(b"\1\x10\1" + frame(b"z" * 100) + frame(bodies[0]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
