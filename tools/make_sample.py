"""Makes strand/data/sample.itch50.gz anew: the same messages each time, see strand.feeds.sample.

python tools/make_sample.py
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

from strand.feeds.sample import sample_feed, sample_path


def main() -> None:
    """Writes the sample, compressed as far as gzip goes, with no name and no time in its header."""
    path = sample_path()
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "sample.itch50"
        written = sample_feed().write_itch(raw)
        path.write_bytes(gzip.compress(raw.read_bytes(), 9, mtime=0))
    print(f"{path}: {written.messages:,} messages, {written.bytes:,} bytes, {path.stat().st_size:,} compressed")


if __name__ == "__main__":
    main()
