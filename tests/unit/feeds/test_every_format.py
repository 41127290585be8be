"""Every format alike: selections, sizes of batches, ends of iterations, and missing packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_files import FILES, SmallFile, options_of

from strand import feeds
from strand.errors import MissingExtraError
from strand.feeds.base import Selection
from strand.ticks import is_clear

pytestmark = pytest.mark.python

Open = Any
#: One in four of the profiles of CSV, which have one reader.
SOME = [file for at, file in enumerate(FILES) if file.format != "csv" or at % 4 == 0]


@pytest.fixture(scope="module", params=SOME, ids=lambda file: file.name)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """A function that opens the file with further options."""
    file: SmallFile = request.param
    if not file.available:
        pytest.skip(f"{file.name} needs {', '.join(file.needs)}")
    folder = tmp_path_factory.mktemp("format")
    path = file.write(folder)
    options = options_of(file, folder)
    # Decoders take whole pages of ticks, and a message of JSON is never cut.
    least = {"itch": 4096, "recording": 4096, "pcap": 4096, "pitch": 4096, "jsonl": 100}.get(file.format, 24)

    def open_file(**more: Any) -> Any:
        return feeds.open(path, **options, **more)

    open_file.batch_ticks = least  # type: ignore[attr-defined]
    return open_file


def taken(feed: Any) -> list[tuple[str, bytes]]:
    with feed:
        parts = [batch.copy() for batch in feed]
        names = list(feed.symbols)
    return named(np.concatenate(parts), names) if parts else []


def named(ticks: Any, names: list[str]) -> list[tuple[str, bytes]]:
    """Ticks in their order, with the name in the place of the number; without clear records."""
    ticks = ticks[~is_clear(ticks)]
    keys, ticks["instrument_id"] = ticks["instrument_id"].tolist(), 0
    return [(names[key] if key < len(names) else "", tick.tobytes()) for key, tick in zip(keys, ticks, strict=True)]


def selections(ticks: Any, names: list[str]) -> Iterator[Selection]:
    had = [names[key] for key in dict.fromkeys(ticks["instrument_id"].tolist()) if key < len(names) and names[key]]
    moments = np.sort(ticks["ts_recv"].astype(np.int64))
    low, high = (int(moments[len(moments) * part // 3]) for part in (1, 2))
    yield Selection((), low)
    yield Selection((), None, high)
    if had:
        yield Selection((had[0],))
        yield Selection((had[-1][:1] + "*", had[0]), low, max(high, low + 1))


def test_a_selection_gives_what_a_mask_over_all_ticks_gives(opened: Open) -> None:
    with opened() as feed:
        ticks, names = feed.to_numpy(), list(feed.symbols)
    for select in selections(ticks, names):
        given = {"symbols": list(select.symbols), "start": select.start_ns, "end": select.end_ns}
        found = taken(opened(**{name: value for name, value in given.items() if value}))
        assert found == named(ticks[select.mask(ticks, select.keys(names))], names), select


def test_batches_are_no_longer_than_asked_for_and_give_the_same_ticks_each_time(opened: Open) -> None:
    whole = taken(opened())
    feed = opened(batch_ticks=opened.batch_ticks)
    sizes = [len(batch) for batch in feed]
    assert max(sizes) <= opened.batch_ticks
    assert feed.count() in (None, sum(sizes))
    assert taken(feed) == whole


@pytest.mark.usefixtures("threads_come_back")
def test_an_iteration_that_nobody_finishes_leaves_no_thread_and_no_descriptor(opened: Open) -> None:
    def descriptors() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    list(opened())  # a first use opens what stays open
    before = descriptors()
    for _ in range(3):
        with opened(batch_ticks=opened.batch_ticks) as feed:
            next(iter(feed))
    assert descriptors() == before


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("csv lobster", "pyarrow", "csv"),
        ("lean of trades", "pyarrow", "csv"),
        ("parquet", "pyarrow", "parquet"),
        ("dbn of orders", "databento_dbn", "dbn"),
    ],
)
def test_without_its_package_the_extra_is_named(
    name: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = (file for file in FILES if file.name == name)
    if not file.available:
        pytest.skip(f"{file.name} needs {', '.join(file.needs)}")
    path = file.write(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"strand\[{extra}\]"), feeds.open(path) as feed:
        list(feed)
