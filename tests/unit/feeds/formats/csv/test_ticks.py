""""""

from __future__ import annotations

from pathlib import Path

import pytest
from csv_files import KINDS, made_up, write_made_up
from csv_reference import reference
from csv_tables import as_dicts
from reading import read

from strand.errors import FormatError
from strand.feeds.formats.csv.reader import CsvFeed

pytestmark = pytest.mark.python


def test_whole_prices_of_databento_are_units_of_1e_9_and_a_file_has_one_way_throughout(tmp_path: Path) -> None:
    def of(*prices: str) -> CsvFeed:
        lines = made_up("databento-mbo", 2)
        at = KINDS["databento-mbo"].columns.index("price")
        lines[0][at], lines[1][at] = prices
        return CsvFeed(write_made_up(tmp_path, "databento-mbo", lines))

    for price in ("1.5", "1500000000"):
        assert [tick["price"] for tick in as_dicts(of(price, price))] == [1_500_000_000] * 2
    for prices, why in ((("1500000000", "1.5"), "too precise"), (("1.5", "15000000000"), "out of range")):
        with pytest.raises(FormatError, match=f"column price: {why}"):
            as_dicts(of(*prices))


def test_values_agree_with_the_reference_over_block_boundaries(tmp_path: Path) -> None:
    path = write_made_up(tmp_path, "tardis-trades", 40_000)
    assert path.stat().st_size > 2 << 20
    ticks, _ = read(CsvFeed(path))
    expected = reference(KINDS["tardis-trades"], path.read_bytes())
    for name in ("ts_event", "ts_recv", "order_id", "price", "size", "sequence", "ref_id", "flags"):
        assert ticks[name].tolist() == [tick[name] for tick in expected], name
