"""The page of all formats and profiles, and each profile's sample, replayed with the totals of another decoder."""

from __future__ import annotations

import gzip
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import csv_reference
import json_documents
import pytest
import what_is_read
from csv_files import KINDS, write_made_up
from json_documents import DOCUMENTS

import strand
from strand import feeds
from strand.feeds.formats.registry import Format

pytestmark = pytest.mark.python

pytest.importorskip("pyarrow")
pytest.importorskip("polars")


@pytest.mark.parametrize(("page", "tables"), [(what_is_read.PAGE, 2), (what_is_read.TICKS, 1)])
def test_a_page_has_every_format_and_profile_with_its_sample_and_source(page: Path, tables: int) -> None:
    text = page.read_text("utf-8")
    assert sum(table.partition("\n")[0] in text for table in what_is_read.tables()) == tables
    assert what_is_read.page(text) == text


def test_a_format_without_a_page_or_a_sample_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Format("lines", "lines of two words", "lines", "LinesFeed", (".lines",))
    monkeypatch.setattr(what_is_read, "formats", lambda: (new,))
    with pytest.raises(KeyError, match="lines"):
        what_is_read.tables()


def _sample(name: str, folder: Path) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    """A profile's sample, the options of its reader, and its ticks by the independent decoder."""
    if name in KINDS:
        path = write_made_up(folder, name, 200)
        return path, dict(KINDS[name].options), csv_reference.reference(KINDS[name], path.read_bytes())
    path = json_documents.write(folder, name, 200)
    data = path.read_bytes()
    return path, {}, json_documents.reference(name, gzip.decompress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("name", [*KINDS, *DOCUMENTS])
def test_each_sample_is_replayed_with_the_totals_of_an_independent_decoder(name: str, tmp_path: Path) -> None:
    path, options, ticks = _sample(name, tmp_path)
    counted = strand.replay(path, "count", feed_options=options).rows.to_polars()
    assert Counter(dict(counted.select("symbol", "ticks").iter_rows())) == Counter(tick["symbol"] for tick in ticks)
    with feeds.open(path, **options) as feed:
        info = feed.info
    if info.ticks != "plain" or not info.has_sizes:
        return
    volume: Counter[str] = Counter()
    notional: dict[str, Fraction] = {}
    for tick in ticks:
        # Bit 0 of flags, where the profile has it, is a trade that does not count.
        unprinted = int(tick["flags"]) & info.flags.unprinted
        if tick["action"] == "T" and tick["kind"] == 2 and tick["price"] != csv_reference.NONE and not unprinted:
            volume[tick["symbol"]] += int(tick["size"])
            worth = Fraction(int(tick["price"]), 10**9) * int(tick["size"]) * Fraction(str(info.size_unit))
            notional[tick["symbol"]] = notional.get(tick["symbol"], Fraction(0)) + worth
    rows = strand.replay(path, "vwap", feed_options=options).rows.to_polars().select("symbol", "volume", "notional")
    for symbol, found, worth in rows.iter_rows():
        assert found == pytest.approx(float(volume[symbol] * Fraction(str(info.size_unit))), rel=1e-12)
        assert worth == pytest.approx(float(notional.get(symbol, 0)), rel=1e-9)
