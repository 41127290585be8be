"""Any bytes through strand.feeds: ticks and a typed error, nothing else, whatever the format is taken to be.

python tests/fuzz/fuzz_open.py --list
python tests/fuzz/fuzz_open.py NAME --seeds FOLDER
python tests/fuzz/fuzz_open.py NAME [libFuzzer's options and corpus folders]

NAME is ``streams`` (what undoes compression), or a format of strand.feeds. A format's input is led by a byte: even, a
file as it is; odd, what lies inside a file, to be packed as the sample of that number is. Needs the extra ``fuzz``.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

STREAMS = "streams"


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--list"]:
        print(*names(), sep="\n")
    elif arguments[1:2] == ["--seeds"]:
        write_seeds(arguments[0], Path(arguments[2]))
    elif arguments:
        fuzz(arguments[0], arguments[1:])
    else:
        sys.exit(__doc__)


def names() -> list[str]:
    from feed_samples import SAMPLES

    from strand.feeds.formats.registry import formats

    known = {form.name for form in formats()}
    found = [sample.format for sample in SAMPLES if sample.available and sample.format in known]
    return [STREAMS, *dict.fromkeys(found)]


def write_seeds(name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(samples(name)):
        with tempfile.TemporaryDirectory() as scratch:
            data = sample.build(Path(scratch)).read_bytes()
        lead = b"" if name == STREAMS else bytes([2 * number])
        (folder / f"{number:02}").write_bytes(lead + data)
        (folder / f"{number:02}-half").write_bytes(lead + data[: len(data) // 2])
        if name != STREAMS:
            (folder / f"{number:02}-inside").write_bytes(bytes([2 * number + 1]) + sample.content())


def samples(name: str) -> list[Any]:
    """The samples of a format; of all of them for ``streams``."""
    from feed_samples import SAMPLES

    return [sample for sample in SAMPLES if sample.available and name in (STREAMS, sample.format)]


def fuzz(name: str, options: list[str]) -> None:
    import atheris

    # Coverage is seen in what is imported in here, so nothing of strand may be before; readers are when they are
    # asked for.
    with atheris.instrument_imports(include=["strand"]):
        from strand.feeds.formats.registry import formats

        for form in formats():
            form.feed_class()
    if name not in names():
        sys.exit(f"{name!r} is none of {', '.join(names())}")
    folder = tempfile.TemporaryDirectory()
    check = inflate(Path(folder.name)) if name == STREAMS else read(name, Path(folder.name))
    # To merge corpora, libFuzzer runs this again through a shell, by the first of its arguments.
    atheris.Setup([f"{sys.executable} {sys.argv[0]} {name}", *options], check)
    atheris.Fuzz()


def inflate(folder: Path) -> Callable[[bytes], None]:
    """Pieces hold the same as the whole, up to the same fault."""
    from strand.errors import FeedError
    from strand.feeds.io.streams import InflateLimits, open_stream

    path, limits = folder / "input", InflateLimits(max_bytes=4 << 20, ratio_after_bytes=1 << 20)

    def contents(piece: int) -> tuple[int, int, type | None]:
        buffer, total, crc = memoryview(bytearray(piece)), 0, 0
        try:
            with open_stream(path, limits=limits) as stream:
                while got := stream.readinto(buffer):
                    total, crc = total + got, zlib.crc32(buffer[:got], crc)
        except FeedError as error:
            return total, crc, type(error)
        return total, crc, None

    def check(data: bytes) -> None:
        path.write_bytes(data)
        whole, pieces = contents(2 << 20), contents(4093)
        if whole != pieces:
            raise AssertionError(f"{whole} at once, {pieces} in pieces")

    return check


def read(name: str, folder: Path) -> Callable[[bytes], None]:
    """Both ways of taking bad records; every key is below the capacity."""
    from strand.errors import ConfigurationError, FeedError
    from strand.feeds import open as open_feed
    from strand.feeds.io.streams import InflateLimits

    limits = InflateLimits(max_bytes=4 << 20, ratio_after_bytes=1 << 20)
    ways = [(sample, sample.build(folder)) for sample in samples(name)]

    def check(data: bytes) -> None:
        if not data:
            return
        sample, path = ways[(data[0] >> 1) % len(ways)]
        if data[0] & 1:
            sample.pack(path, data[1:])
        else:
            path.write_bytes(data[1:])
        for on_bad_record in ("raise", "skip"):
            try:
                feed = open_feed(path, format=name, on_bad_record=on_bad_record, limits=limits)
            except (FeedError, ConfigurationError):  # what is in the file may call for an option
                continue
            try:
                exhaust(feed.batches(), feed.max_symbols)
            except FeedError:
                pass
            finally:
                feed.close()

    return check


def exhaust(batches: Iterable[object], capacity: int) -> None:
    import numpy as np

    for batch in batches:
        keys = np.asarray(batch)["instrument_id"]
        if len(keys) and int(keys.max()) >= capacity:
            raise AssertionError(f"key {int(keys.max())}, capacity {capacity}")


if __name__ == "__main__":
    main(sys.argv[1:])
