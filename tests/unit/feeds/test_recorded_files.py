"""Every recorded file at hand opens, is told about and replays, with the counts of an independent reading."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import dbn_reference
import itch_reference
import pytest
from click.testing import CliRunner
from order_books import Books
from reading import ticks_of

import strand
from strand.command.cli import cli
from strand.errors import FeedError
from strand.feeds.formats.itch import ItchFeed
from strand.feeds.formats.registry import formats
from strand.feeds.sample import SAMPLE_DATE, sample_feed, sample_path

pytestmark = pytest.mark.python


FOLDER = Path(os.environ.get("STRAND_SHARED_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))
FORMATS = {"itch50": "itch", "lean": "lean", "dbn": "dbn", "dbn-es": "dbn", "lobster": "csv"}
# Pieces of a DBN file without its beginning, and LOBSTER's books, are no ticks.
NO_TICKS = (".frag", ".frag.zst", "_orderbook_10.csv")

FILES = sorted(path for folder in FORMATS for path in (FOLDER / folder).glob("*"))
HOLDING = [path for path in FILES if not path.name.endswith(NO_TICKS)]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def known(path: Path) -> str:
    form = FORMATS[path.parent.name]
    if form not in {reader.name for reader in formats()}:
        pytest.skip(f"there is no reader of {form} yet")
    return form


def counted(path: Path, form: str) -> int:
    """Records in a file, by other means than strand's."""
    if form == "itch":
        return itch_reference.decode(path.read_bytes()).messages
    if form == "lean":
        pytest.importorskip("pyarrow")
        with zipfile.ZipFile(path) as archive:
            return sum(1 for _ in csv.reader(io.TextIOWrapper(archive.open(archive.namelist()[0]))))
    if form == "csv":
        pytest.importorskip("pyarrow")
        with path.open(newline="") as file:
            return sum(1 for _ in csv.reader(file))
    pytest.importorskip("databento_dbn")
    data = path.read_bytes()
    if path.name.endswith(".zst"):
        data = pytest.importorskip("zstandard").ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return len(dbn_reference.by_library(data))


def records_of(form: str, statistics: dict[str, Any]) -> int:
    """Records, which may be more than ticks, or less."""
    return int(statistics["messages" if form == "itch" else "records"])


@pytest.mark.skipif(not FILES, reason=f"no recorded market data at {FOLDER} (STRAND_SHARED_DATA names the folder)")
@pytest.mark.parametrize("path", HOLDING, ids=name)
def test_a_recorded_file_is_told_about_and_replays_with_an_independent_count(path: Path) -> None:
    form = known(path)
    expected = counted(path, form)
    told = CliRunner().invoke(cli, ["info", str(path), "--json", "--allow-empty"], catch_exceptions=False)
    found = json.loads(told.stdout)
    result = strand.replay(path, "count", workers=1, pin_publisher=False, allow_empty=True)
    assert found["ticks"] == result.ticks == result.statistics.handled
    assert records_of(form, found["statistics"]) == records_of(form, dict(result.feed_statistics)) == expected
    assert result.ticks > 0 or expected == 0 or "definition" in path.name


@pytest.mark.skipif(not FILES, reason=f"no recorded market data at {FOLDER} (STRAND_SHARED_DATA names the folder)")
@pytest.mark.parametrize("path", [path for path in FILES if path not in HOLDING], ids=name)
def test_what_holds_no_ticks_is_refused(path: Path) -> None:
    known(path)
    with pytest.raises(FeedError):
        strand.replay(path, "count", workers=1, pin_publisher=False)


# ---- The sample that ships is what its feed makes, and replays


def test_the_shipped_sample_is_what_its_feed_makes(tmp_path: Path) -> None:
    sample_feed().write_itch(tmp_path / "sample.itch50")
    assert gzip.decompress(sample_path().read_bytes()) == (tmp_path / "sample.itch50").read_bytes()
    assert sample_path().stat().st_size < 4_000_000


def test_the_shipped_sample_replays_through_a_book() -> None:
    ticks = ticks_of(ItchFeed(sample_path(), date=SAMPLE_DATE))
    events = ticks[500:]
    assert len(events) == 200_000
    assert Books().replay(events).counts["add"] > 80_000
