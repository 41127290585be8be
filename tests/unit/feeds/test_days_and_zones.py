"""Days and zones of times of day: what files themselves say comes before their names, and all is in one zone."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import zoneinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from command_here import run_here

import strand
from strand import feeds, zones
from strand.errors import ConfigurationError, FormatError
from strand.feeds.write.conversion import convert

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.python

FIELDS = '[symbol]\nconstant = "X"\n[fields.ts_recv]\ncolumn = "t"\nunit = "stamp"\n[fields.price]\ncolumn = "p"\n'


def trades(folder: Path, name: str, *stamps: str, zone: str = "") -> Path:
    (folder / "own.toml").write_text(('[time]\nzone = "' + zone + '"\n' if zone else "") + FIELDS)
    (folder / name).write_text("t,p\n" + "".join(f"{stamp},10\n" for stamp in stamps))
    return folder / name


@pytest.mark.parametrize("name", ["1_ABCD3_08042025.csv", "2020-01-02.csv", "rows.csv"])
def test_a_date_in_a_name_never_beats_the_dates_of_the_lines(tmp_path: Path, name: str) -> None:
    path = trades(tmp_path, name, "2025-04-08T13:58:00Z", "2025-04-08T13:59:00Z", "2025-04-08T14:00:30Z")
    options: dict[str, Any] = {"profile": tmp_path / "own.toml"}
    with feeds.open(path, end="10:00", **options) as feed:
        assert len(feed.to_numpy()) == 2  # before 10:00 in New York on April 8
        assert feed.info.zone == "America/New_York"
    with feeds.open(path, start="10:00", **options) as feed:
        assert len(feed.to_numpy()) == 1
    result = strand.replay(path, "count", until="09:59:30", feed_options=options, workers=0)
    assert result.ticks == 2
    with pytest.raises(strand.errors.EmptyFeedError):
        strand.replay(path, "count", end="10:00", date="2020-01-02", feed_options=options, workers=0)


def test_a_time_of_day_is_in_the_zone_of_the_file(tmp_path: Path) -> None:
    path = trades(tmp_path, "rows.csv", "2026-07-01 09:00:00", "2026-07-01 09:30:00", zone="Asia/Tokyo")
    with feeds.open(path, start="09:15", profile=tmp_path / "own.toml") as feed:
        (tick,) = feed.to_numpy()
        assert feed.info.zone == "Asia/Tokyo"
    at = dt.datetime(2026, 7, 1, 9, 30, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert tick["ts_recv"] == int(at.timestamp()) * 10**9
    result = strand.replay(path, "count", until="09:15", feed_options={"profile": tmp_path / "own.toml"}, workers=0)
    assert result.ticks == 1


def test_what_the_screen_shows_is_in_the_zone_of_the_times_of_day(tmp_path: Path) -> None:
    path = trades(tmp_path, "rows.csv", "2026-01-05T14:30:00Z", "2026-01-05T20:59:00Z")
    profile = ["--profile", str(tmp_path / "own.toml")]
    plain = run_here("info", str(path), *profile)
    assert "2026-01-05 14:30:00.000000 to 20:59:00.000000 UTC" in plain.stdout
    chosen = run_here("info", str(path), *profile, "--start", "09:00", "-v")
    assert "2026-01-05 09:30:00.000000 to 15:59:00.000000 America/New_York" in chosen.stdout
    assert str(zones.zone_data()) in " ".join(chosen.stdout.split())
    told = json.loads(run_here("info", str(path), *profile, "--start", "09:00", "--json").stdout)
    assert (told["zone"], told["time_zones"]) == ("America/New_York", f"IANA {zones.zone_data()}")


def test_times_of_day_of_files_of_several_zones_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = []
    for name in ("a", "b"):
        times = pa.array([dt.datetime(2026, 7, 1, 9)], pa.timestamp("us"))
        pq.write_table(pa.table({"ts": times, "price": [1.0]}), tmp_path / f"{name}.parquet")
        paths.append(tmp_path / f"{name}.parquet")
    with feeds.open(paths, symbol="X", zone="Europe/Berlin", start="09:00") as feed:
        assert (len(feed.to_numpy()), feed.info.zone) == (2, "Europe/Berlin")
    csv = trades(tmp_path, "rows.csv", "2026-07-01 09:00:00", zone="Asia/Tokyo")
    first = feeds.open(csv, profile=tmp_path / "own.toml")
    first.close()
    convert(csv, tmp_path / "tokyo.parquet", feed_options={"profile": tmp_path / "own.toml"})
    with pytest.raises(ConfigurationError, match="start: give a time with its date and zone") as caught:
        feeds.open([tmp_path / "tokyo.parquet", tmp_path / "a.parquet"], zone="Europe/Berlin", symbol="X", start="9:00")
    assert "Asia/Tokyo" in str(caught.value)


def test_one_date_over_files_of_several_days_is_refused_with_their_names(tmp_path: Path) -> None:
    one = trades(tmp_path, "2026-01-05.csv", "2026-01-05T10:00:00Z")
    two = trades(tmp_path, "2026-01-06.csv", "2026-01-06T10:00:00Z")
    (tmp_path / "2026-01-06").mkdir()
    three = trades(tmp_path / "2026-01-06", "rows.csv", "2026-01-06T10:00:00Z")
    options: dict[str, Any] = {"profile": tmp_path / "own.toml", "date": "2026-01-05"}
    for paths in ([one, two], [one, three]):
        with pytest.raises(ConfigurationError, match=r"2026-01-05\.csv is of 2026-01-05 and .* of 2026-01-06"):
            feeds.open(paths, **options)
    with feeds.open([two, three], **options) as feed:
        assert len(feed.to_numpy()) == 2


def test_a_folder_is_read_by_a_profile_and_a_file_that_does_not_fit_is_told(tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    for hour in (10, 11):
        trades(tmp_path / "day", f"{hour}.csv", f"2026-01-05T{hour}:00:00Z", f"2026-01-05T{hour}:00:01Z")
    (tmp_path / "day" / "README.txt").write_text("Trades of a day")
    profile = tmp_path / "day" / "own.toml"
    with feeds.open(tmp_path / "day", profile=profile) as feed:
        assert len(feed.to_numpy()) == 4
    (tmp_path / "day" / "12.csv").write_text("time,price\n")
    with pytest.raises(FormatError, match=r"12\.csv.*its header lacks 't', 'p'"):
        feeds.open(tmp_path / "day", profile=profile)
    (tmp_path / "lines").mkdir()
    for name in ("a", "b"):
        (tmp_path / "lines" / f"{name}.jsonl").write_text('1767571200000000000 {"p": "1"}\n')
    rules = {"message": [{"symbol": {"constant": "X"}, "fields": {"price": "p"}}]}
    with feeds.open(tmp_path / "lines", profile=rules) as feed:
        assert len(feed.to_numpy()) == 2


@pytest.mark.parametrize(
    ("system", "package", "owner"),
    [
        ("2024a", "2025b", "the package tzdata"), ("2026a", "2025b", "the system"), ("2025b", "2025b", "the system"),
        (None, "2025b", "the package tzdata"), ("2024a", None, "the system"), (None, None, "the system"),
    ],
)  # fmt: skip
def test_zones_come_from_the_newer_database(
    system: str | None, package: str | None, owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "UTC").write_bytes(b"")
    if system is not None:
        (tmp_path / "tzdata.zi").write_text(f"# version {system}\n# more\n")
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(tmp_path),))
    found = type("tzdata", (), {"IANA_VERSION": package})
    monkeypatch.setattr(zones, "_package", lambda: None if package is None else found)
    zones.zone_data.cache_clear()
    try:
        said = zones.zone_data()
        assert said.owner == owner
        assert said.version == (package if owner == "the package tzdata" else system)
    finally:
        monkeypatch.undo()
        zones.zone_data.cache_clear()


def test_a_zone_of_the_package_is_that_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tzdata")
    monkeypatch.setattr(zones, "zone_data", lambda: zones.ZoneData("9999z", "the package tzdata"))
    zones.zone_named.cache_clear()
    try:
        found = zones.zone_named("America/New_York")
        assert found.key == "America/New_York"
        at = dt.datetime(2026, 7, 1, tzinfo=found)
        assert at.utcoffset() == dt.timedelta(hours=-4)
        with pytest.raises((zoneinfo.ZoneInfoNotFoundError, ValueError)):
            zones.zone_named("../etc/passwd")
    finally:
        monkeypatch.undo()
        zones.zone_named.cache_clear()
    assert importlib.metadata.version("tzdata")


STAMP = "2026-07-01 09:00:00"
BERLIN = int(dt.datetime(2026, 7, 1, 9, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) * 10**9


def _csv(folder: Path) -> tuple[Path, dict[str, Any]]:
    path = trades(folder, "rows.csv", STAMP, zone="Asia/Tokyo")
    return path, {"profile": str(folder / "own.toml")}


def _json(folder: Path) -> tuple[Path, dict[str, Any]]:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps({"t": STAMP, "p": 1}) + "\n")
    message = {"kind": "trade", "symbol": {"constant": "X"}, "where": {},
               "fields": {"ts_event": {"column": "t", "unit": "stamp"}, "price": "p"}}  # fmt: skip
    return path, {"profile": {"name": "own", "time": {"zone": "Asia/Tokyo"}, "message": [message]}}


def _parquet(folder: Path) -> tuple[Path, dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "rows.parquet"
    times = pa.array([dt.datetime.fromisoformat(STAMP)], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": times, "price": [1.0]}), path)
    return path, {"symbol": "X"}


def _npy(folder: Path) -> tuple[Path, dict[str, Any]]:
    path = folder / "rows.npy"
    np.save(path, np.array([(np.datetime64(STAMP, "ms"), 1.0)], [("t", "M8[ms]"), ("p", "f8")]))
    return path, {"symbol": "X", "columns": {"ts_event": "t", "price": "p"}}


@pytest.mark.parametrize("made", [_csv, _json, _parquet, _npy])
def test_one_option_gives_the_zone_of_local_times_and_of_times_of_day(made: Any, tmp_path: Path) -> None:
    path, options = made(tmp_path)
    for start, ticks in ((None, 1), ("09:00", 1), ("09:00:01", 0)):
        with feeds.open(path, zone="Europe/Berlin", start=start, **options) as feed:
            assert feed.info.zone == "Europe/Berlin"
            assert feed.to_numpy()["ts_recv"].tolist() == [BERLIN] * ticks
    with feeds.open(path, zone="UTC", end="09:00:01", **options) as feed:
        assert feed.to_numpy()["ts_recv"].tolist() == [BERLIN + 2 * 3600 * 10**9]
    with pytest.raises(ConfigurationError, match="zone: 'Berlin' is not a time zone"):
        feeds.open(path, zone="Berlin", **options)
    until = strand.replay(path, "count", until="08:59", feed_options={"zone": "Europe/Berlin", **options}, workers=0)
    assert until.ticks == 0


def test_a_zone_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    path, options = _csv(tmp_path)
    with feeds.open(path, zone="Europe/Berlin", **options) as feed:
        convert(feed, tmp_path / "own.parquet")
    with pytest.raises(ConfigurationError, match=r"zone: leave it out: .*own\.parquet has times of Europe/Berlin"):
        feeds.open(tmp_path / "own.parquet", zone="Asia/Tokyo")
    other, _ = _parquet(tmp_path)
    both = [tmp_path / "own.parquet", other]
    with feeds.open(both, zone="Asia/Tokyo", symbol="X") as feed:
        assert len(feed.to_numpy()) == 2
    with pytest.raises(ConfigurationError, match="start: give a time with its date and zone"):
        feeds.open(both, zone="Asia/Tokyo", symbol="X", start="09:00")


def test_a_local_time_that_cannot_be_told_is_a_bad_row_of_every_table(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, options = _npy(tmp_path)
    bad = (("2026-10-25T02:30", "comes twice: the clocks of Europe/Berlin go back"),
           ("2026-03-29T02:30", "does not exist: the clocks of Europe/Berlin go forward"),
           ("9999-01-01T00:00", "is not a time"), ("1970-01-01T00:30", "is not a time"))  # fmt: skip
    for time, match in bad:
        times = np.array(["2026-01-01T12:00", time, "2026-07-01T12:00", "NaT"], "M8[ms]")
        rows = np.array([(when, 1.0) for when in times[:3]], [("t", "M8[ms]"), ("p", "f8")])
        np.save(path, rows)
        table, more = _parquet(tmp_path)
        pq.write_table(pa.table({"t": times, "p": np.ones(4)}), table)
        more["columns"] = options["columns"]
        for where, file, given in (("record 2", path, options), ("row 2", table, more)):
            with pytest.raises(FormatError, match=f"{where}: .*{match}"):
                feeds.open(file, zone="Europe/Berlin", **given).to_numpy()
            kept = feeds.open(file, zone="Europe/Berlin", on_bad_record="skip", **given).to_numpy()
            wanted = np.array(["2026-01-01T11:00", "2026-07-01T10:00"], "M8[ns]").astype(np.int64)
            assert kept["ts_recv"].tolist() == wanted.tolist()


def test_the_command_takes_the_zone_and_shows_it(tmp_path: Path) -> None:
    path, options = _csv(tmp_path)
    shown = run_here("info", str(path), "--profile", options["profile"], "--zone", "Europe/Berlin", "--start", "09:00")
    assert "2026-07-01 09:00:00.000000 to 09:00:00.000000 Europe/Berlin" in shown.stdout
    refused = run_here("info", str(path), "--feed", "zone=Europe/Berlin")
    assert "zone: give it by --zone" in refused.stderr
