"""A DBN file's metadata: what instruments are called when, and what is no metadata."""

from __future__ import annotations

import datetime as dt
import struct
from pathlib import Path
from typing import Any

import dbn_reference as ref
import numpy as np
import pytest
from bad_input import write_anew
from reading import names_of, read

import strand
from strand.errors import FeedError, FormatError, TruncatedFeedError
from strand.feeds.formats.dbn import DbnFeed
from strand.ticks import is_clear

TODAY = dt.date(1970, 1, 1) + dt.timedelta(20_000)
TOMORROW = TODAY + dt.timedelta(1)


def write(folder: Path, content: bytes, name: str = "a.dbn") -> Path:
    return write_anew(folder / name, content)


def one_name(version: int = 3, **changes: Any) -> bytes:
    return ref.metadata(version, {"ESH4": [(*ref.ALL_DAYS, "7")]}, **changes)


def test_names_follow_the_day_and_a_name_keeps_its_index(tmp_path: Path) -> None:
    data = ref.metadata(
        3,
        {
            "AAA": [(TODAY, TOMORROW, "7"), (TOMORROW, TOMORROW + dt.timedelta(1), "8")],
            "BBB": [(TOMORROW, TOMORROW + dt.timedelta(1), "7")],
            "CCC": [(TODAY, TOMORROW, "")],
        },
    )
    midnight = ref.NOON + ref.DAY // 2
    for instrument, received in [
        (7, midnight - 1),
        (7, midnight),
        (8, midnight),
        (8, midnight - 1),
        (7, midnight + ref.DAY),
    ]:
        data += ref.mbo(instrument=instrument, received=received, event=ref.NOON)
    feed = DbnFeed(write(tmp_path, data))
    ticks, error = read(feed)
    assert error is None
    # The clear record says that AAA is another instrument from midnight on.
    assert names_of(feed, ticks) == ["AAA", "BBB", "AAA", "AAA", "id:8", "id:7"]
    assert is_clear(ticks).tolist() == [False, False, True, False, False, False]
    assert list(feed.symbols) == ["AAA", "BBB", "id:8", "id:7"]
    assert feed.max_symbols == 2 + 4096
    again, _ = read(feed)
    np.testing.assert_array_equal(again, ticks)


def test_a_run_warns_of_instruments_without_a_name_on_a_day_of_their_records(tmp_path: Path) -> None:
    midnight = ref.NOON + ref.DAY // 2
    data = ref.metadata(3, {"AAA": [(TODAY, TOMORROW, "7")]})
    data += ref.mbo(instrument=7, received=ref.NOON) + ref.mbo(instrument=7, received=midnight)
    path = write(tmp_path, data)
    result = strand.replay(path, "count")
    assert {name: int(row["ticks"]) for name, row in result.rows.items()} == {"AAA": 1, "id:7": 1}
    assert [(w.kind, w.count) for w in result.warnings] == [("unnamed instruments", 1)]
    # A selection by name loses the same records.
    chosen = strand.replay(path, "count", symbols=["AAA"])
    assert (chosen.ticks, [w.kind for w in chosen.warnings]) == (1, ["unnamed instruments"])


def test_metadata_from_ids_to_names_is_read_the_other_way_round(tmp_path: Path) -> None:
    import databento_dbn as dbn

    data = ref.metadata(
        3, {"7": [(*ref.ALL_DAYS, "MSFT")]}, stype_in=dbn.SType.INSTRUMENT_ID, stype_out=dbn.SType.RAW_SYMBOL
    )
    feed = DbnFeed(write(tmp_path, data + ref.mbo()))
    assert names_of(feed, read(feed)[0]) == ["MSFT"]


def test_flips_in_the_metadata_are_typed_errors_or_harmless(tmp_path: Path) -> None:
    start = one_name(3)
    for at in range(len(start)):
        broken = bytearray(start + ref.mbo())
        broken[at] ^= 1 << at % 8
        try:
            read(DbnFeed(write(tmp_path, bytes(broken))))
        except FeedError as error:
            assert error.path is not None


@pytest.mark.parametrize(
    ("head", "error"),
    [
        (b"", TruncatedFeedError),
        (b"DBN", TruncatedFeedError),
        (b"DBX\1" + bytes(8), FormatError),
        (b"DBN\x09" + bytes(200), FormatError),
        (b"DBN\1\xff\xff\xff\xff", FormatError),
        (b"DBN\1\xff\xff\xff\0" + bytes(100), TruncatedFeedError),
        (b"DBN\1" + struct.pack("<I", 100) + b"\xff" * 100, FormatError),
    ],
)
def test_what_is_no_metadata_is_refused(tmp_path: Path, head: bytes, error: type[FeedError]) -> None:
    with pytest.raises(error):
        DbnFeed(write(tmp_path, head))


@pytest.mark.parametrize(
    ("dataset", "zone"),
    [
        ("GLBX.MDP3", "America/Chicago"),
        ("XCBF.PITCH", "America/Chicago"),
        ("IFLL.IMPACT", "Europe/London"),
        ("OCEA.MEMOIR", "America/New_York"),
        ("NEW.ONE", None),
    ],
)
def test_the_venue_of_the_data_set_says_the_zone(tmp_path: Path, dataset: str, zone: str | None) -> None:
    path = write(tmp_path, one_name(dataset=dataset))
    with DbnFeed(path) as feed:
        assert feed.info.zone == zone
