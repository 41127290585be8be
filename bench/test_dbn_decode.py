"""DBN: MBO records a second as ticks, beside the ``to_ndarray`` of the package ``databento`` where it is installed.

pytest bench/test_dbn_decode.py --benchmark-only
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from strand.feeds.formats.dbn.reader import DbnFeed

RECORDS: Final = int(os.environ.get("STRAND_BENCH_MESSAGES", "2_000_000"))
_MBO: Final = np.dtype(
    [("length", "u1"), ("rtype", "u1"), ("publisher", "<u2"), ("instrument", "<u4"), ("event", "<u8"),
     ("order", "<u8"), ("price", "<i8"), ("size", "<u4"), ("flags", "u1"), ("channel", "u1"), ("action", "S1"),
     ("side", "S1"), ("received", "<u8"), ("delta", "<i4"), ("sequence", "<u4")]
)  # fmt: skip


@pytest.fixture(scope="module", params=["a.dbn", "a.dbn.zst"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of one day of 50 instruments."""
    dbn = pytest.importorskip("databento_dbn")
    rng = np.random.default_rng(5)
    records = np.zeros(RECORDS, _MBO)
    records["length"], records["rtype"], records["publisher"] = 14, 0xA0, 1
    records["instrument"] = rng.integers(1, 51, RECORDS)
    records["event"] = 1_715_000_000 * 10**9 + np.cumsum(rng.integers(0, 20_000, RECORDS)).astype(np.uint64)
    records["received"] = records["event"] + np.uint64(20_000)
    records["order"] = rng.integers(1, 1 << 24, RECORDS)
    records["price"] = rng.integers(4000, 4400, RECORDS) * 250_000_000
    records["size"] = rng.integers(1, 9, RECORDS)
    records["action"] = np.array([b"A", b"C", b"M", b"T", b"F"])[rng.integers(0, 5, RECORDS)]
    records["side"] = np.array([b"A", b"B"])[rng.integers(0, 2, RECORDS)]
    records["sequence"] = np.arange(RECORDS)
    metadata = dbn.Metadata(
        dataset="GLBX.MDP3", start=int(records["event"][0]), stype_in=dbn.SType.RAW_SYMBOL,
        stype_out=dbn.SType.INSTRUMENT_ID, schema=dbn.Schema.MBO, version=3,
    )  # fmt: skip
    found = tmp_path_factory.mktemp("dbn") / request.param
    data = metadata.encode() + records.tobytes()
    if found.suffix == ".zst":
        data = pytest.importorskip("zstandard").ZstdCompressor(level=3, write_checksum=True).compress(data)
    found.write_bytes(data)
    return found


def _report(benchmark: Any) -> None:
    if benchmark.stats:  # none with --benchmark-disable
        benchmark.extra_info["million_records_per_s"] = round(RECORDS / benchmark.stats.stats.median / 1e6, 1)


@pytest.mark.benchmark(group="dbn mbo")
def test_as_ticks(benchmark: Any, path: Path) -> None:
    def read() -> int:
        return sum(len(batch) for batch in DbnFeed(path).batches())

    assert benchmark.pedantic(read, rounds=5, warmup_rounds=1) == RECORDS
    _report(benchmark)


@pytest.mark.benchmark(group="dbn mbo")
@pytest.mark.filterwarnings("ignore")
def test_by_the_library(benchmark: Any, path: Path) -> None:
    databento = pytest.importorskip("databento")

    def read() -> int:
        return len(databento.DBNStore.from_file(path).to_ndarray())

    assert benchmark.pedantic(read, rounds=5, warmup_rounds=1) == RECORDS
    _report(benchmark)
