"""Which profile a file is for, and where its columns are."""

from __future__ import annotations

from pathlib import Path

import pytest
from csv_tables import MINE, PROFILE, as_dicts

from strand.errors import FormatError, UnknownFormatError
from strand.feeds.formats.csv.reader import CsvFeed

pytestmark = pytest.mark.python


def test_a_file_two_profiles_know_names_both_and_the_option(tmp_path: Path) -> None:
    path = tmp_path / "BTC-trades-1.csv"
    path.write_text(
        "exchange,symbol,timestamp,local_timestamp,id,side,price,amount,bid_price,bid_amount,ask_price,ask_amount\n"
    )
    with pytest.raises(UnknownFormatError, match=r"could be tardis-quotes, tardis-trades: .*profile='tardis-quotes'"):
        CsvFeed(path)
    assert CsvFeed(path, profile="tardis-trades").info.details["profile"] == "tardis-trades"


def test_a_column_too_far_to_the_right_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    (tmp_path / "mine.toml").write_text(PROFILE.replace('delimiter = ";"', ""))
    path.write_text(",".join([*(f"c{at}" for at in range(260)), "When", "Instrument", "Px", "Lots", "BuySell"]) + "\n")
    with pytest.raises(FormatError, match="'When' is number 261"):
        CsvFeed(path, profile=tmp_path / "mine.toml")


def test_two_columns_of_one_name_are_refused_where_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PROFILE)
    path = tmp_path / "a.csv"
    for twice in ("Px", "px", " P_x".replace("_", "")):
        path.write_text(MINE.replace("Note", twice))
        with pytest.raises(FormatError, match=f"rename or remove one of the 2 columns 'Px' and '{twice}'") as caught:
            CsvFeed(path, profile=tmp_path / "mine.toml")
        assert caught.value.path == path
        assert caught.value.line == 1
    path.write_text(MINE.replace("Note", "Lots"))
    with pytest.raises(FormatError, match="columns 'Lots' and 'Lots'"):
        CsvFeed(path, profile=tmp_path / "mine.toml")
    # Of columns that nobody reads there may be as many as like.
    path.write_text(
        MINE.replace("Note", "Note;Note")
        .replace("summer time", "summer time;")
        .replace("after", "after;")
        .replace("none", "none;")
    )
    assert len(as_dicts(CsvFeed(path, profile=tmp_path / "mine.toml"))) == 3


def test_a_header_without_a_column_says_which_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PROFILE)
    (tmp_path / "a.csv").write_text(MINE.replace("Lots", "Stück").replace("Px", "P"))
    with pytest.raises(
        FormatError, match=r"lacks 'Px' or 'Price', 'Lots', which mine needs; it has When, .*Stück, BuySell, Note"
    ):
        CsvFeed(tmp_path / "a.csv", profile=tmp_path / "mine.toml")
