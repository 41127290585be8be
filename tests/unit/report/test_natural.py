"""Numbers in natural units, for figures."""

from __future__ import annotations

import numpy as np
import pytest

from strand import UNDEF_PRICE
from strand.report.quantities import prices_of, sizes_of

pytestmark = pytest.mark.python


def test_prices_are_in_currency_and_none_is_nan() -> None:
    found = prices_of(np.array([1_500_000_000, 0, UNDEF_PRICE, -1 - UNDEF_PRICE], np.int64))
    assert found[:2].tolist() == [1.5, 0.0]
    assert np.isnan(found[2:]).all()
    assert prices_of(np.array([1.5, 1e18])).tolist() == [1.5, 1e18]


def test_sizes_count_the_unit_and_without_one_there_are_none() -> None:
    sizes = np.array([1, 250], np.int64)
    assert sizes_of(sizes, 0.01).tolist() == [0.01, 2.5]
    assert np.isnan(sizes_of(sizes, None)).all()
    assert sizes_of(np.array([2.5]), None).tolist() == [2.5]
