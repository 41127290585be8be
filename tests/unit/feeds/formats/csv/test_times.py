"""Columns of times: days, and stamps with and without a zone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from csv_files import KINDS, made_up
from csv_reference import reference, text_of
from csv_tables import PROFILE, as_dicts

from strand.errors import FormatError
from strand.feeds.formats.csv.reader import CsvFeed

pytestmark = pytest.mark.python


def test_the_day_is_an_option_or_in_the_files_name_or_its_folders(tmp_path: Path) -> None:
    kind = KINDS["szse-orders"]
    data = text_of(kind, made_up("szse-orders", 5))
    (tmp_path / "20231205").mkdir()
    for path, options in (
        (tmp_path / "a_2023-12-05.csv", {}),
        (tmp_path / "20231205" / "a.csv", {}),
        (tmp_path / "b.csv", {"date": "2023-12-05"}),
    ):
        path.write_bytes(data)
        assert as_dicts(CsvFeed(path, **options)) == reference(kind, data)
    first = as_dicts(CsvFeed(path))[0]["ts_event"]
    assert first < 86_400_000_000_000  # counted from 1970


def zoned(tmp_path: Path, stamps: list[str], notes: Sequence[str] = ("", ""), profile: str = PROFILE) -> CsvFeed:
    (tmp_path / "mine.toml").write_text(profile)
    rows = [f"{stamp};FDAX;100;1;K;{note}" for stamp, note in zip(stamps, notes, strict=False)]
    (tmp_path / "a.csv").write_text("\n".join(["When;Instrument;Px;Lots;BuySell;Note", *rows, ""]))
    return CsvFeed(tmp_path / "a.csv", profile=tmp_path / "mine.toml")


def test_a_stamp_that_says_its_zone_is_not_in_the_profiles(tmp_path: Path) -> None:
    nine = 1711699200 * 10**9
    for stamps in (["2024-03-29T08:00:00Z"], ["2024-03-29 10:00:00+02:00", "2024-03-29T03:00:00-0500"]):
        assert [row["ts_event"] for row in as_dicts(zoned(tmp_path, stamps))] == [nine] * len(stamps)
    assert [row["ts_event"] for row in as_dicts(zoned(tmp_path, ["2024-03-29 09:00:00"]))] == [nine]


@pytest.mark.parametrize(
    "stamps", [["2024-03-29T08:00:00Z", "2024-03-29 08:00:01"], ["2024-03-29 08:00:01", "2024-03-29T08:00:00Z"]]
)
def test_stamps_with_and_without_a_zone_do_not_mix(stamps: list[str], tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="column When: not of its form") as caught:
        as_dicts(zoned(tmp_path, stamps))
    assert caught.value.line == 3


@pytest.mark.parametrize("later", ["2024-03-29 09:00:00", "2024-03-29T08:00:00Z", "2024-03-29 10:00:00+02:00"])
@pytest.mark.parametrize("first", ["", "  "])
def test_an_empty_first_stamp_does_not_say_whether_the_others_have_a_zone(
    later: str, first: str, tmp_path: Path
) -> None:
    stamped = '[fields.ts_recv]\ncolumn = "Note"\nunit = "stamp"\nempty = "none"\n[fields.price]'
    profile = PROFILE.replace("[fields.price]", stamped)
    nine = 1711699200 * 10**9
    stamps = [f"2024-03-29 09:00:0{i}" for i in range(3)]
    found = as_dicts(zoned(tmp_path, stamps, [first, later, first], profile))
    assert [row["ts_recv"] for row in found] == [nine, nine, nine + 2 * 10**9]
