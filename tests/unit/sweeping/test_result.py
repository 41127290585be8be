"""The result of a sweep."""

from __future__ import annotations

import pytest
from sweep_files import FEW

from strand.feeds.sample import sample_path
from strand.sweeping.sweep import sweep

pl = pytest.importorskip("polars")
pytest.importorskip("numba")
pytest.importorskip("loky")

from sweep_handlers import SETS, wide  # noqa: E402

pytestmark = pytest.mark.python


def test_without_a_folder_the_data_set_lives_as_long_as_its_result() -> None:
    found = sweep(sample_path(), wide, SETS[:1], **FEW)
    folder, rows = found.folder, found.rows
    del found
    assert len(rows.to_arrow())
    del rows
    assert not folder.exists()
