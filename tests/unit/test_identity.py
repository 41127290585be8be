"""One day in six forms: each built-in handler makes the same rows and records of all of them."""

from __future__ import annotations

import datetime as dt
import gzip
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import dbn_reference
import numpy as np
import pcap_reference
import pytest

import strand
from strand.feeds.sample import SAMPLE_DATE
from strand.feeds.synthetic import SyntheticFeed, write_mbo
from strand.feeds.times import as_date, midnight_ns
from strand.feeds.write.conversion import convert
from strand.handlers import BUILTIN

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")

DAY = {"date": SAMPLE_DATE}
#: Files that keep the day's date need none.
FORMS = {"raw": DAY, "gz": DAY, "pcap": DAY, "parquet": {}, "npz": {}, "arrow": {}}


def captured(messages: bytes) -> Iterator[tuple[int, bytes]]:
    """Each message in a packet of its own, at its time: ns since the UNIX epoch, and the frame."""
    midnight, at, number = midnight_ns(as_date(SAMPLE_DATE)), 0, 0
    while at < len(messages):
        (length,) = struct.unpack_from(">H", messages, at)
        body = messages[at + 2 : at + 2 + length]
        at, number = at + 2 + length, number + 1
        payload = pcap_reference.mold(number, [body])
        frame = pcap_reference.ethernet(pcap_reference.ipv4(pcap_reference.udp(payload)))
        yield midnight + int.from_bytes(body[5:11], "big"), frame


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("identity")
    found = {form: folder / f"day.{form}" for form in FORMS}
    SyntheticFeed(60, 40_000, seed=6, date=SAMPLE_DATE).write_itch(found["raw"])
    messages = found["raw"].read_bytes()
    with gzip.open(found["gz"], "wb", 1) as packed:
        packed.write(messages)
    found["pcap"].write_bytes(pcap_reference.pcap(list(captured(messages))))
    for form in ("parquet", "npz", "arrow"):
        convert(found["raw"], found[form], feed_options=DAY)
    yield found
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def dbn_day(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A day of Databento's orders. Every seventh event goes on with the next one."""
    pytest.importorskip("databento_dbn")
    folder = tmp_path_factory.mktemp("identity-dbn")
    feed = SyntheticFeed(20, 20_000, seed=6, date=SAMPLE_DATE)
    write_mbo(feed, folder / "day.npy")
    records = np.load(folder / "day.npy")
    ends = np.flatnonzero(records["flags"] & 128)
    records["flags"][ends[::7]] = 0
    names = {name: [(dt.date(1970, 1, 1), dt.date(2500, 1, 1), str(i))] for i, name in enumerate(feed.symbols) if name}
    found = {form: folder / f"day.{form}" for form in ("dbn", "dbn.gz", "parquet", "npz", "arrow")}
    found["dbn"].write_bytes(dbn_reference.metadata(3, names, schema=_mbo()) + records.tobytes())
    found["dbn.gz"].write_bytes(gzip.compress(found["dbn"].read_bytes(), 1))
    for form in ("parquet", "npz", "arrow"):
        convert(found["dbn"], found[form])
    yield found
    shutil.rmtree(folder)


def _mbo() -> object:
    import databento_dbn

    return databento_dbn.Schema.MBO


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_a_built_in_handler_makes_the_same_of_a_dbn_day_in_every_form(name: str, dbn_day: dict[str, Path]) -> None:
    ran = {form: strand.replay(path, name) for form, path in dbn_day.items()}
    assert ran["dbn"].ticks > 20_000
    assert {form: result.fingerprint for form, result in ran.items()} == dict.fromkeys(ran, ran["dbn"].fingerprint)


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_a_built_in_handler_makes_the_same_of_a_day_in_every_form(name: str, day: dict[str, Path]) -> None:
    ran = {form: strand.replay(day[form], name, feed_options=options) for form, options in FORMS.items()}
    assert ran["raw"].ticks > 40_000
    assert {form: result.fingerprint for form, result in ran.items()} == dict.fromkeys(FORMS, ran["raw"].fingerprint)
