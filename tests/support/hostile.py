"""Hostile inputs of eight kinds, made from a seed: each ends in a typed error, or in the result that is right.

    python tests/support/hostile.py [--inputs 3000] [--seed 1] [--kind files ...]

How "right" is decided, kind by kind: the docstring of each function here. An input that ends in anything else, that
takes longer than ``LIMIT_S``, or more than ``MEMORY_BYTES`` of address space, is a failure. It is shown with its
number, and tried again alone by the same seed and ``--only KIND:NUMBER``.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from bad_input import common_prefix, outcome, write_anew
from feed_samples import SAMPLES, Sample, itch
from mold_wire import SESSION, blocks, heartbeat, packet

from strand import feeds
from strand.binding.live import Receiver
from strand.command.cli import main as command
from strand.errors import ConfigurationError, StrandError, UnknownFormatError
from strand.feeds.io.sources import InflateLimits
from strand.symbols import SymbolTable

__all__ = ["KINDS", "Tally", "attack"]

_LENGTHS: Final = (1, 3, 8, 60, 130, 254, 255, 256, 999)
LIMIT_S: Final = 30
NOON: Final = 1_767_614_400_000_000_000
MEMORY_BYTES: Final = 4 << 30
ERROR, RIGHT = "typed error", "right"


class WrongError(AssertionError):
    """A result that is neither right nor a typed error."""


@dataclass
class Tally:
    """Tally of the inputs' outcomes, by kind, and of those that ended badly."""

    ended: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def table(self) -> str:
        lines = [f"{'kind':<12}{'inputs':>8}{ERROR:>14}{RIGHT:>8}{'neither':>9}"]
        rows = [(kind, counts) for kind, counts in self.ended.items()]
        rows.append(("all", sum(self.ended.values(), Counter())))
        for kind, counts in rows:
            lines.append(
                f"{kind:<12}{counts.total():>8,}{counts[ERROR]:>14,}{counts[RIGHT]:>8,}{counts['neither']:>9,}"
            )
        return "\n".join(lines)


@contextmanager
def in_time() -> Iterator[None]:
    def late(*_: object) -> None:
        raise WrongError(f"took longer than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---- files


def _available() -> list[Sample]:
    return [sample for sample in SAMPLES if sample.available]


def damaged_files(rng: random.Random, folder: Path) -> str:
    """A file of any format, cut, flipped, with bytes taken out or put in, lengths overwritten, or with the end of
    another.

    Right: of a format whose records follow each other as they are, the ticks of what lies before the damage are first,
    as the reader gives them for the undamaged file cut there. Of the others: no more than this, that it ends well.
    """
    sample = rng.choice(_available())
    content = sample.content()
    data, first = _damage(rng, content)
    path = folder / sample.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if sample.flat_from is None or rng.random() < 0.3:
        # The packed file is damaged instead.
        sample.pack(path, content)
        data, first = _damage(rng, path.read_bytes())
        write_anew(path, data)
        first = -1
    else:
        sample.pack(path, data)
    options = {"on_bad_record": "skip"} if rng.random() < 0.3 else {}
    found = outcome(path, "hostile", **options)
    if sample.flat_from is not None and first > sample.flat_from and not options:
        sample.pack(path, content[:first])
        before = outcome(path, "hostile").ticks
        # A cut last record may be one of other values.
        whole = max(0, len(before) - sample.open_end)
        # A file is told by its first 4,096 bytes, which is all of these: damage there makes another format of it.
        told = not isinstance(found.error, UnknownFormatError | ConfigurationError)
        if told and common_prefix(found.ticks, before) < whole:
            raise WrongError(
                f"{sample.name}: of {whole} ticks before byte {first} there are {len(found.ticks)}: {found.error}"
            )
    return ERROR if found.error is not None else RIGHT


def _damage(rng: random.Random, data: bytes) -> tuple[bytes, int]:
    """Damaged bytes, and the place of the first that differs."""
    at = rng.randrange(len(data))
    how = rng.randrange(7)
    if how == 0:
        return data[:at], at
    if how == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :], at
    if how == 2:
        return data[:at] + data[at + rng.randrange(1, 40) :], at
    if how == 3:
        return data[:at] + rng.randbytes(rng.randrange(1, 40)) + data[at:], at
    if how == 4:
        huge = rng.choice([b"\0\0", b"\xff\xff", b"\xff" * 4, b"\xff\xff\xff\x7f", b"\xff" * 8, b"\0" * 8])
        return data[:at] + huge + data[at + len(huge) :], at
    if how == 5:
        return data + rng.choice(_available()).content(), len(data)
    return data + data[at:], len(data)


# ---- names


def names(rng: random.Random, folder: Path) -> str:
    """A symbol's name in a column of Parquet, Arrow or JSON, or given to a table of symbols.

    Right: it is taken if it has at most 255 bytes as UTF-8 and no character of Unicode's category Cc, and only then.
    Blanks around it do not count in a column, where it is empty without another character.
    """
    letters = "AB1.-/ =+@é\u65e5\u202e\U0001f600\t\n\r\x1b\x00\x7f\x85\u200d"
    weights = [12] * 10 + [4] * 4 + [1] * 8
    name = "".join(rng.choices(letters[: len(weights)], weights[: len(letters)], k=rng.choice(_LENGTHS)))
    how = rng.randrange(4)
    kept = name.strip(" ") if how else name
    sound = len(kept.encode()) <= 255 and not any(unicodedata.category(letter) == "Cc" for letter in kept)
    sound = sound and (kept != "" or not how)
    try:
        read = _read_names(how, folder, ["A", name])
    except StrandError as error:
        if sound:
            raise WrongError(f"{name!r} was refused: {error}") from None
        return ERROR
    if not sound or read != ["A", kept]:
        raise WrongError(f"{name!r} was taken as {read!r}")
    return RIGHT


def _read_names(how: int, folder: Path, given: list[str]) -> list[str]:
    if how == 0:
        return list(SymbolTable(list(dict.fromkeys(given)))) if given[1] != "A" else given
    if how == 1:
        profile = {
            "message": [
                {"kind": "trade", "symbol": "s", "fields": {"price": "p", "ts_event": {"column": "t", "unit": "ns"}}}
            ]
        }
        path = write_anew(
            folder / "names.jsonl", b"".join(json.dumps({"s": n, "p": 1, "t": 5}).encode() + b"\n" for n in given)
        )
        feed = feeds.open(path, profile=profile, format="jsonl")
    else:
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet

        table = pa.table({"ts_event": [NOON, NOON + 1], "price": [1.0, 2.0], "symbol": given})
        path = folder / ("names.parquet" if how == 2 else "names.arrow")
        path.unlink(missing_ok=True)
        (pyarrow.parquet.write_table if how == 2 else pyarrow.feather.write_feather)(table, path)
        feed = feeds.open(path)
    with feed:
        return [feed.symbols[key] for batch in feed.batches() for key in batch["instrument_id"].tolist()]


# ---- numbers


def numbers(rng: random.Random, folder: Path) -> str:
    """A price and a size of a CSV file or of JSON, with many digits, before or behind the point.

    Right: by fractions of Python: a price that is a whole number of 1e-9, a size that is one of 1e-8, both in 64 bits,
    are exactly that; all others are refused.
    """
    price, size = _decimal(rng, 9), _decimal(rng, 8)
    exact = Fraction(price) * 10**9, Fraction(size) * 10**8
    fits = all(value.denominator == 1 for value in exact)
    fits = fits and -(2**63) < exact[0] < 2**63 - 1 and 0 <= exact[1] < 2**63
    at = 1_580_394_600 * 10**6
    path = write_anew(
        folder / "trades.csv",
        "exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n"
        f"x,AB,{at},{at},1,buy,1,1\nx,AB,{at},{at},2,buy,{price},{size}\n".encode(),
    )
    found = outcome(path, "hostile")
    if found.error is not None:
        if fits or len(found.ticks) != 1:
            raise WrongError(f"{price} and {size} were refused: {found.error}")
        return ERROR
    told = found.ticks["price"].tolist()[1:], found.ticks["size"].tolist()[1:]
    if told != ([exact[0]], [exact[1]]):
        raise WrongError(f"{price} and {size} became {told}")
    return RIGHT


def _decimal(rng: random.Random, places: int) -> str:
    whole = str(rng.randrange(10 ** rng.choice([1, 3, 8, 9, 10, 11, 19, 20])))
    digits = rng.choice([0, 1, places, places, places + 1, 18])
    return whole + ("." + "".join(rng.choices("0123456789", k=digits)) if digits else "")


# ---- the command


def options(rng: random.Random, folder: Path) -> str:
    """The command with options, dates, paths, cores and ports that cannot be.

    Right: none of these can; so exit status 2 with one line on standard error, and no file more than before.
    """
    path = write_anew(folder / "day.itch50", itch())
    there = sorted(folder.iterdir())
    long = "x" * rng.choice([300, 5000])
    port = rng.choice([65536, 99999, 10**12, -1])
    when = rng.choice(["2600-01-01", "2026-02-30", "0000-00-00", "2026-1-1-1", "tomorrow", "99999-01-01", "\u0661"])
    cores = rng.choice(["0-99999999999", "9-1", "a", "-1", "0,,1", "1-", "99999999999999999999"])
    replay = ["replay", str(path), "--handler", "count", "--date", "2026-01-05"]
    number = rng.choice(["-1", "nan", "1e999", "0x10", "9" * 30, "", "1.5.2", "\u0663x"])
    tried = rng.choice([
        ["replay", str(path), "--handler", "count", "--date", when],
        ["info", str(path), "--date", when],
        [*replay, "--cores", cores],
        [*replay, "--symbols", rng.choice(["@/dev/zero", "@/", f"@{folder}/none", f"@{long}"])],
        [*replay, "--workers", number], [*replay, "--limit", number or "x"],
        [*replay, "--speed", rng.choice(["-1", "nan", "x", "0x10"])],
        [*replay, "--start", rng.choice(["25:00", "09:61", "x", "9" * 40, "2600-01-01T00:00"])],
        ["replay", f"{folder}/{long}", "--handler", "count"], ["info", f"{folder}/{long}"],
        [*replay, "--out", f"{folder}/{long}.csv"], [*replay, "--out", f"{folder}/none/a.csv"],
        [*replay, "--out", f"{folder}/a.{rng.choice(['exe', 'xlsx', 'csv.zst'])}"],
        ["listen", "--line", f"127.0.0.1:{port}", "--handler", "count"],
        ["listen", "--line", "127.0.0.1:0", "--jump-window", rng.choice(["0", "-5", "x"]), "--handler", "count"],
        ["serve", str(path), "--line", f"127.0.0.1:{port}"],
        ["gen", "itch", "--symbols", number or "x", "--messages", "5", "--out", f"{folder}/gen.itch50"],
        ["convert", str(path), f"{folder}/a.{rng.choice(['exe', 'doc', ''])}", "--date", "2026-01-05"],
        ["convert", str(path), f"{folder}/{long}.npz", "--date", "2026-01-05"],
        ["replay", str(path), "--handler", rng.choice(["nothing", "os:system", "no.such:thing", "count:", ":", "\0"])],
        [*replay, "--set", rng.choice(["every=1m", "=", "x", "every="])],
        [*replay, "--feed", rng.choice(["nothing=1", "=", "limits.max_ratio=-1", "limits.max_ratio=x"])],
        ["diff", str(path), f"{folder}/none"],
        [f"--{long}"], [long],
    ])  # fmt: skip
    said = _command(tried)
    if said.status != 2:
        raise WrongError(f"{[text[:60] for text in tried]} ended with {said.status}: {said.error[:300]}")
    if sorted(folder.iterdir()) != there:
        raise WrongError(f"{[text[:60] for text in tried]} left {sorted(set(folder.iterdir()) - set(there))}")
    return ERROR


@dataclass
class Said:
    status: int
    output: str
    error: str


def _command(arguments: list[str]) -> Said:
    """Runs the command in this process, as ``python -m strand`` does, and judges the form of what it says."""
    output, error = io.StringIO(), io.StringIO()
    before, status = sys.argv, 0
    sys.argv = ["strand", *arguments]
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
            command()
    except SystemExit as end:
        status = int(end.code or 0)
    finally:
        sys.argv = before
    said = Said(status, output.getvalue(), error.getvalue())
    lines = said.error.rstrip("\n").split("\n")
    if "Traceback" in said.error or not said.error.replace("\n", "").isprintable():
        raise WrongError(f"{arguments[:3]} said {said.error[:300]!r}")
    if said.status and len(lines) != 1:
        raise WrongError(f"{[text[:60] for text in arguments]} said {len(lines)} lines: {said.error[:300]}")
    if "--json" in arguments and said.output:
        json.loads(said.output)
    return said


# ---- outputs


def outputs(rng: random.Random, folder: Path) -> str:
    """A run whose output is its input, or two of whose outputs are one file, by other names and through links.

    Right: refused with status 2, and the input has its bytes.
    """
    data = itch()
    path = write_anew(folder / "day.itch50", data)
    (folder / "sub").mkdir(exist_ok=True)
    other = folder / "other.csv"
    for link in (folder / "link.csv", folder / "hard.csv", folder / "twice.csv", other):
        link.unlink(missing_ok=True)
    (folder / "link.csv").symlink_to(path)
    os.link(path, folder / "hard.csv")
    other.write_text("kept")
    (folder / "twice.csv").symlink_to(other)
    replay = ["replay", str(path), "--handler", "bars", "--set", "every=1m", "--date", "2026-01-05"]
    linked = rng.choice([folder / "link.csv", folder / "hard.csv"])
    same = rng.choice([other, folder / "twice.csv", folder / "sub" / ".." / "other.csv", Path(f"{folder}/./other.csv")])
    page = ["--report", str(rng.choice([same, linked]))]
    tried = rng.choice([
        [*replay, "--out", str(linked)], [*replay, "--out", f"bars={linked}"], [*replay, *page, "--out", str(other)],
        [*replay, "--out", str(other), "--out", f"bars={same}"],
        [*replay, "--fingerprints", str(same), "--out", str(other), "--fingerprint-every", "5"],
        ["convert", str(path), str(rng.choice([path, folder / "sub" / ".." / "day.itch50"])), "--date", "2026-01-05"],
        ["convert", str(path), str(linked), "--to", "npz", "--date", "2026-01-05"],
        ["listen", "--line", "127.0.0.1:0", "--handler", "count", "--record", str(other), "--out", str(same)],
    ])  # fmt: skip
    said = _command(tried)
    if said.status != 2:
        raise WrongError(
            f"{[text.replace(str(folder), '.') for text in tried]} ended with {said.status}: {said.error[:300]}"
        )
    if path.read_bytes() != data or other.read_text() != "kept":
        raise WrongError(f"{tried} changed a file")
    return ERROR


# ---- live


def live(rng: random.Random, folder: Path) -> str:
    """Two lines that carry a session, and hostile packets one at a time among theirs.

    Right: all messages of the session, in order, and nothing else; no gap; and what was heard ends where they do.
    """
    count = rng.randrange(20, 120)
    first = rng.choice([0, 1])
    receiver = Receiver(
        first_sequence=first, message_limit=0, gap_timeout_ns=1000, request_after_ns=100, jump_window=1_000_000,
        stop_at_gap=False, session=SESSION if first else None,
    )  # fmt: skip
    delivered: list[int] = []

    def take(line: int, data: bytes, now: int) -> None:
        frames, _ = receiver.take(line, data, now, now)
        delivered.extend(int.from_bytes(body[1:9], "big") for body in blocks(bytes(frames)))

    now, at, leaps = 1, 1, 0
    while at <= count:
        end = min(count + 1, at + rng.randrange(1, 6))
        whole = packet(at, [b"m" + n.to_bytes(8, "big") for n in range(at, end)])
        lines = rng.sample([0, 1], 2)
        if at > 1 or first:
            leaps += 1
            take(rng.randrange(3), _hostile_packet(rng, whole, at, leaps), now + 1)
        for line in lines if rng.random() < 0.5 else lines[:1]:
            take(line, whole, now + 2)
        now, at = now + 3, end
    complete = False
    while not complete:
        frames, _, complete = receiver.finish()
        delivered.extend(int.from_bytes(body[1:9], "big") for body in blocks(bytes(frames)))
    if delivered != list(range(1, count + 1)):
        raise WrongError(f"of {count} messages {len(delivered)} came: {delivered[:5]} to {delivered[-5:]}")
    if receiver.gaps() or receiver.counts()["high"] != count + 1:
        raise WrongError(f"gaps {receiver.gaps()[:3]}, heard of {receiver.counts()['high']}")
    return RIGHT


def _hostile_packet(rng: random.Random, whole: bytes, at: int, leaps: int) -> bytes:
    # No two are near each other: those would be two packets that agree.
    far = rng.choice([leaps * 8_000_000_000 + rng.randrange(1 << 30), 1 << 63, (1 << 64) - 1, 0])
    body = [rng.randbytes(rng.randrange(1, 30))]
    return rng.choice([
        packet(far, body), heartbeat(far), packet(far, [], count=0xFFFF), packet(at, body, session=rng.randbytes(10)),
        whole[: rng.randrange(20)], whole + rng.randbytes(3), packet(at, body, count=rng.choice([0, 2, 0xFFFE])),
        rng.randbytes(rng.randrange(20)), packet(at, [b""]), b"",
    ])  # fmt: skip


# ---- what expands


def bombs(rng: random.Random, folder: Path) -> str:
    """Makes a file that expands beyond its limits, or promises more than it holds: gzip, zstd, zip, Parquet, Arrow.

    Right: refused, where it expands beyond the limits by its very bytes; within them it reads as it is.
    """
    size = rng.choice([1 << 10, 1 << 16, 1 << 20, 4 << 20])
    bound = rng.choice([1 << 9, 1 << 14, 1 << 18, 1 << 30])
    how = rng.choice(["gzip", "zstd", "zip", "parquet", "arrow"])
    limits = InflateLimits(max_bytes=bound)
    rows = max(1, size // 16)
    if how in ("parquet", "arrow"):
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet

        table = pa.table({"ts_event": np.full(rows, NOON), "price": np.ones(rows)})
        path = folder / f"bomb.{how}"
        path.unlink(missing_ok=True)
        write: Any = pyarrow.parquet.write_table if how == "parquet" else pyarrow.feather.write_feather
        write(table, path, compression="zstd")
        made, beyond, expected = rows * 16, rows * 16 > bound, rows
    else:
        one = itch()
        times = max(1, size // len(one))
        content = one * times
        made, beyond, expected = len(content), len(content) > bound, -1
        path = folder / "bomb.bin"
        if how == "zip":
            path.unlink(missing_ok=True)
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("day.itch50", content)
        else:
            import zstandard

            packed = gzip.compress(content) if how == "gzip" else zstandard.ZstdCompressor().compress(content)
            write_anew(path, packed)
    more = {"symbol": "A"} if how in ("parquet", "arrow") else {"date": "2026-01-05"}
    found = outcome(path, "hostile", limits=limits, **more)
    # What lies around the values has bytes too: within a few of the bound either is right.
    if not 0.9 * bound <= made <= bound and beyond != (found.error is not None):
        raise WrongError(f"{how} of {made} bytes with max_bytes={bound}: {found.error}")
    if found.error is None and expected >= 0 and len(found.ticks) != expected:
        raise WrongError(f"{how}: {len(found.ticks)} of {expected} rows")
    return ERROR if found.error is not None else RIGHT


# ---- times


def times(rng: random.Random, folder: Path) -> str:
    """Times of a numpy file, of Parquet and of JSON at the ends of what there is, and before 1970.

    Right: a time in ns up to two days before the last one that 64 bits hold is exactly that; what is beyond is refused.
    """
    import pyarrow as pa
    import pyarrow.parquet

    unit, scale = rng.choice([("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)])
    value = rng.choice([0, 1, -1, 2**31, 2**33, 2**53, 2**62, 2**63 - 1, -(2**63), rng.randrange(2**63)])
    if rng.random() < 0.5 or unit == "s":  # which Parquet keeps in ms
        value //= scale
    path = folder / "times.parquet"
    path.unlink(missing_ok=True)
    stamp = rng.random() < 0.5
    column = pa.array([value], pa.timestamp(unit, "UTC") if stamp else pa.int64())
    pyarrow.parquet.write_table(pa.table({"ts_event": column, "price": [1]}), path)
    found = outcome(path, "hostile", symbol="A", **({} if stamp else {"time_unit": unit}))
    exact = value * scale
    if found.error is not None:
        if 0 <= exact <= 2**63 - 1 - 2 * 86_400 * 10**9:
            raise WrongError(f"{value} {unit} was refused: {found.error}")
        return ERROR
    if found.ticks["ts_event"].tolist() != [exact]:
        raise WrongError(f"{value} {unit} became {found.ticks['ts_event'].tolist()}")
    return RIGHT


Kind = Callable[[random.Random, Path], str]
#: Functions by kind, and how many of a thousand inputs are theirs.
KINDS: Final[dict[str, tuple[Kind, int]]] = {
    "files": (damaged_files, 400), "names": (names, 120), "numbers": (numbers, 120), "times": (times, 60),
    "options": (options, 120), "outputs": (outputs, 40), "live": (live, 100), "bombs": (bombs, 40),
}  # fmt: skip


def attack(inputs: int, seed: int, folder: Path, only: str | None = None) -> Tally:
    """Tries so many inputs, each made of the seed, its kind and its number."""
    tally = Tally()
    for kind, (run, share) in KINDS.items():
        counts = tally.ended[kind] = Counter()
        for number in range(max(1, inputs * share // 1000)):
            if only is not None and only not in (kind, f"{kind}:{number}"):
                continue
            try:
                with in_time():
                    counts[run(random.Random(f"{seed} {kind} {number}"), folder)] += 1
            except Exception as error:
                counts["neither"] += 1
                tally.failures.append(f"{kind}:{number}: {type(error).__name__}: {str(error)[:600]}")
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="KIND[:NUMBER]")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        tally = attack(given.inputs, given.seed, Path(name), given.only)
    print(tally.table())
    every = sum(tally.ended.values(), Counter())
    ended = f"{every[ERROR]:,} a typed error, {every[RIGHT]:,} right, {every['neither']:,} neither"
    print(f"seed {given.seed}, {time.monotonic() - begun:.0f} s: {every.total():,} inputs, {ended}")
    for failure in tally.failures:
        print(failure, file=sys.stderr)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
